"""Finds and loads the trained toys for the commands. Imported when one of them runs."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from teacache.errors import AdapterNotInstalledError, UnknownModelError
from teacache.plugins import adapters
from teacache.testing import toy_pipeline
from teacache.testing.toys.toy import WEIGHTS, find_toy


def trained_families() -> tuple[str, ...]:
    """Returns the families of the installed adapters that work and bring a trained toy.

    Raises:
        AdapterNotInstalledError: there are none.
    """
    names = [row.name for row in adapters() if row.status == "working" and row.adapter and row.adapter.toy]
    found = tuple(name for name in names if (files(find_toy(name).package) / WEIGHTS).is_file())
    if not found:
        raise AdapterNotInstalledError(
            "No installed adapter brings a trained toy; expected one at least. Run: pip install "
            "teacache-flux2, or in a clone: uv pip install -e packages/teacache-flux2"
        )
    return found


def load_toy(family: str) -> Any:
    """Returns the pipeline of a family's trained toy.

    Raises:
        UnknownModelError: no installed adapter brings a toy of this name, or it is not trained.
    """
    try:
        return toy_pipeline(family)
    except FileNotFoundError as error:
        raise UnknownModelError(
            f"The toy of {family!r} has no trained weights; these have: {', '.join(trained_families())}."
        ) from error


def families_of(toys: str | None, trained: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the families that are asked for."""
    return tuple(dict.fromkeys(filter(None, map(str.strip, toys.split(","))))) if toys else trained
