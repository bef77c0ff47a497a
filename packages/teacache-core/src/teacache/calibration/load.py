"""Reads calibration files and checks every key. Must not import mlx, mflux or pluggy."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable
from importlib.resources.abc import Traversable
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from teacache.calibration import checks
from teacache.calibration.files import read_text, resource, shown
from teacache.calibration.model import (
    SCHEMA,
    Calibration,
    ChangeCurve,
    GateNumbers,
    Recipe,
    SignalSource,
)
from teacache.errors import CalibrationError

T = TypeVar("T")


@functools.cache
def shipped_calibrations(reference: str | None) -> tuple[Calibration, ...]:
    """Returns an installed adapter's calibrations, read once per process; none for None.

    Reading them costs several milliseconds, and wrapping a model is to cost less.
    """
    return () if reference is None else load_calibrations(reference)


def load_calibrations(reference: str) -> tuple[Calibration, ...]:
    """Returns the calibrations of one adapter, in the order of their file names.

    Args:
        reference: ``"package:folder"``, as in `teacache.adapter.Adapter.calibrations`.

    Raises:
        CalibrationError: there is no such folder, a file is wrong, or two files claim one name.
    """
    try:
        entries = sorted(resource(reference).iterdir(), key=lambda entry: entry.name)
    except (OSError, ValueError) as error:
        raise CalibrationError(
            f"calibrations={reference!r}: expected 'package:folder' with the folder inside an importable package "
            f"({error}). Correct the adapter's description, or reinstall its package."
        ) from error
    loaded = tuple(load_calibration(entry) for entry in entries if entry.name.endswith(".toml"))
    owners: dict[str, str] = {}
    for calibration in loaded:
        for name in {known.casefold() for known in (calibration.checkpoint, *calibration.aliases)}:
            if name in owners:
                raise CalibrationError(
                    f"{reference}: {owners[name]} and {calibration.checkpoint} both claim the name {name!r}; expected "
                    "one calibration for a name. Remove it from one of the two files."
                )
            owners[name] = calibration.checkpoint
    return loaded


def load_calibration(source: str | Path | Traversable) -> Calibration:
    """Returns the calibration in one file.

    Raises:
        CalibrationError: the file cannot be read, a key is missing, unknown or wrong, or its schema is newer.
    """
    file = Path(source) if isinstance(source, str) else source
    try:
        text = read_text(file)
    except (OSError, ValueError) as error:
        raise CalibrationError(f"{file}: cannot be read ({error}); expected a calibration file in UTF-8.") from error
    return parse_calibration(text, name=str(file))


def parse_calibration(text: str, *, name: str) -> Calibration:
    """Returns the calibration that a TOML text holds.

    Args:
        text: the whole file.
        name: the file's name, for messages.

    Raises:
        CalibrationError: as for `load_calibration`.
    """
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise CalibrationError(f"{name}: {error}; expected TOML. Correct the file, or reinstall its package.") from None
    top = _Table(name, "", data)
    schema = top.take("schema", checks.count)
    if schema > SCHEMA:
        raise CalibrationError(
            f"{name}: schema = {shown(schema)}; this teacache reads up to {SCHEMA}. "
            "Run: pip install --upgrade teacache-core"
        )
    gate, curve = top.optional_table("gate"), top.optional_table("curve")
    belonging = top.optional_table if gate is None else top.table
    signal, recipe = belonging("signal"), belonging("recipe")
    kind = (top.optional_table if gate is None and curve is None else top.table)("change")
    evidence = top.table("evidence")
    calibration = Calibration(
        checkpoint=top.take("checkpoint", checks.text),
        aliases=top.optional("aliases", checks.texts) or (),
        pipelines=top.take("pipelines", checks.texts),
        distilled=top.take("distilled", checks.flag),
        status=top.take("status", checks.status),
        signal=None if signal is None else _signal(signal),
        change=None if kind is None else kind.take("kind", checks.text),
        gate=None if gate is None else _gate(gate),
        recipe=None if recipe is None else _recipe(recipe),
        curve=None if curve is None else _curve(curve),
        evidence={"source": evidence.take("source", checks.text)}
        | {key: evidence.take(key, checks.fact) for key in tuple(evidence.data)},
    )
    for table in (signal, kind, gate, recipe, curve, top):
        if table is not None:
            table.finish()
    return calibration


class _Table:
    """One table of a file: hands out its keys, each checked, and refuses what is left."""

    def __init__(self, file: str, path: str, data: dict[str, Any]) -> None:
        self.file, self.path, self.data = file, path, data
        self.known: list[str] = []

    def take(self, key: str, check: Callable[[Any], T]) -> T:
        """Returns the checked value of a key that must be there. `check` raises ValueError with what it expected."""
        value = self.optional(key, check)
        if value is None:
            raise CalibrationError(f"{self.file}: {self.path}{key} is missing. Add it, or reinstall the package.")
        return value

    def optional(self, key: str, check: Callable[[Any], T]) -> T | None:
        """Returns the checked value of a key, or None where the file has none."""
        self.known.append(key)
        if key not in self.data:
            return None
        value = self.data.pop(key)
        try:
            return check(value)
        except ValueError as expected:
            raise CalibrationError(
                f"{self.file}: {self.path}{key} = {shown(value)}; expected {expected}. Correct the file."
            ) from None

    def table(self, key: str) -> _Table:
        """Returns a table within this one that must be there."""
        return _Table(self.file, f"{self.path}{key}.", self.take(key, checks.a_table))

    def optional_table(self, key: str) -> _Table | None:
        """Returns a table within this one, or None."""
        data = self.optional(key, checks.a_table)
        return None if data is None else _Table(self.file, f"{self.path}{key}.", data)

    def finish(self) -> None:
        """Refuses keys that nobody asked for."""
        for key, value in self.data.items():
            raise CalibrationError(
                f"{self.file}: {self.path}{key} = {shown(value)} is unknown; expected {', '.join(self.known)}. "
                "Correct the key, or run: pip install --upgrade teacache-core"
            )


def _signal(table: _Table) -> SignalSource:
    return SignalSource(
        tensor=table.take("tensor", checks.text),
        tokens=table.take("tokens", checks.tokens),
        branch=table.take("branch", checks.count),
    )


def _gate(table: _Table) -> GateNumbers:
    return GateNumbers(
        coefficients=table.take("coefficients", checks.five),
        range=table.optional("range", checks.low_high),
        threshold=table.optional("threshold", checks.amount),
    )


def _recipe(table: _Table) -> Recipe:
    return Recipe(
        steps=table.take("steps", checks.positive),
        guidance=table.take("guidance", checks.amount),
        height=table.optional("height", checks.positive),
        width=table.optional("width", checks.positive),
        quantize=table.optional("quantize", checks.positive),
    )


def _curve(table: _Table) -> ChangeCurve:
    steps = table.take("steps", checks.positive)

    def changes(value: Any) -> tuple[float, ...]:
        numbers = checks.numbers(value)
        if len(numbers) != steps - 1 or min(numbers, default=0.0) < 0:
            raise ValueError(f"{steps - 1} numbers from 0 up, one for each pair of consecutive steps")
        return numbers

    def levels(value: Any) -> tuple[float, ...]:
        numbers = checks.numbers(value)
        if len(numbers) != steps or any(high <= low for high, low in pairwise(numbers)):
            raise ValueError(f"{steps} falling numbers, the noise level that each step starts from")
        return numbers

    return ChangeCurve(
        body_change=table.take("body_change", changes),
        steps=steps,
        guidance=table.optional("guidance", checks.amount),
        sigmas=table.optional("sigmas", levels),
    )
