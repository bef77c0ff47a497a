"""Has something that we rest on moved? Files, revisions, versions and the host's surface. Imports no mlx, no mflux.

A failure says that something moved, never that the wrapper is wrong.
"""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from teacache.adapter import Adapter
from teacache.calibration.save import _table
from teacache.errors import ToleranceError
from teacache.testing.oracles.result import Check, Result, environment, version_of

QUESTION = "has something moved?"

PINS = "pins.toml"
CORE = "teacache"

SHIPPED = (".toml", ".safetensors", ".json")
"""Endings of the data files that a package ships."""


@dataclass(frozen=True, kw_only=True)
class Pins:
    """What an adapter rested on when it was last looked at.

    Attributes:
        files: SHA-256 of each data file of its package, by its path in the package.
        revisions: checkpoint to the revision on Hugging Face that the host loaded then.
        surface: pipeline to what core uses of the host's model, see `teacache.testing.oracles.surface`.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    revisions: Mapping[str, str] = field(default_factory=dict)
    surface: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def drift(adapter: Adapter, *, package: str | None = None) -> Result:
    """Asks whether an adapter's files, revisions or versions have moved.

    Args:
        adapter: the adapter.
        package: the import package whose files are meant; None: the one that its tolerance or calibrations lie in.
    """
    package = package or package_of(adapter)
    pins = load_pins(package)
    checks = [*_files(package, pins), *_revisions(pins), *_versions(adapter)]
    return Result(
        oracle="drift",
        question=QUESTION,
        subject=adapter.name,
        checks=tuple(checks),
        evidence=environment(),
    )


def drift_of_core() -> Result:
    """Asks whether a data file of teacache-core itself has moved."""
    checks = tuple(_files(CORE, load_pins(CORE)))
    return Result(oracle="drift", question=QUESTION, subject="core", checks=checks, evidence=environment())


def package_of(adapter: Adapter) -> str:
    """Returns the import package that carries an adapter's data."""
    reference = adapter.tolerance or adapter.calibrations
    if reference is None:
        raise ToleranceError(f"The adapter {adapter.name!r} ships no data, so none can drift. Give package=.")
    return reference.partition(":")[0]


def load_pins(package: str) -> Pins:
    """Returns the pins of a package; empty ones where it has none.

    Raises:
        ToleranceError: the file is damaged.
    """
    file = files(package) / PINS
    if not file.is_file():
        return Pins()
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
        return Pins(**{key: data.pop(key, {}) for key in ("files", "revisions", "surface")}, **data)
    except (tomllib.TOMLDecodeError, TypeError) as error:
        raise ToleranceError(f"{file}: {error}. Write it again: teacache tolerance pin") from error


def save_pins(package: str, pins: Pins) -> Path:
    """Writes the pins of a package that lies in the file system, and returns where."""
    path = Path(str(files(package) / PINS))
    parts = [_table("files", pins.files), *([_table("revisions", pins.revisions)] if pins.revisions else [])]
    parts += [_table(f"surface.{name}", rows) for name, rows in pins.surface.items()]
    path.write_text("\n".join(parts), encoding="utf-8", newline="\n")
    return path


def shipped(package: str) -> dict[str, str]:
    """Returns the SHA-256 of each data file that a package ships, pins aside."""

    def walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
            if entry.name.startswith("."):  # caches of tools, in a clone
                continue
            if entry.is_dir():
                yield from walk(entry, f"{prefix}{entry.name}/")
            elif entry.name.endswith(SHIPPED) and prefix + entry.name != PINS:
                yield prefix + entry.name, hashlib.sha256(entry.read_bytes()).hexdigest()

    return dict(walk(files(package), ""))


def _files(package: str, pins: Pins) -> Iterator[Check]:
    found = shipped(package)
    for name in sorted({*found, *pins.files}):
        pinned, now = pins.files.get(name), found.get(name)
        says = "is not pinned" if pinned is None else "is gone" if now is None else "is not the file that was pinned"
        yield Check.of(
            name,
            pinned == now,
            sha256="none" if now is None else now[:12],
            says=f"{package}/{name} {says}. If that is meant: teacache tolerance pin; else reinstall the package.",
        )


def _revisions(pins: Pins) -> Iterator[Check]:
    for checkpoint, pinned in pins.revisions.items():
        present = present_revisions(checkpoint)
        if not present:
            yield Check(name=checkpoint, verdict="not judged", figures={"weights": "not here"})
        else:
            yield Check.of(
                checkpoint,
                pinned in present,
                present=", ".join(revision[:12] for revision in present),
                pinned=pinned[:12],
                says="The weights here are of another revision than the pinned one, so published numbers may not fit.",
            )


def present_revisions(checkpoint: str) -> list[str]:
    """Returns the revisions of a checkpoint in the local cache of Hugging Face; nothing is downloaded."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    snapshots = hub / f"models--{checkpoint.replace('/', '--')}" / "snapshots"
    return sorted(folder.name for folder in snapshots.iterdir()) if snapshots.is_dir() else []


def _versions(adapter: Adapter) -> Iterator[Check]:
    if adapter.host == "loop" or adapter.host_versions is None:
        return
    installed, (oldest, newest) = version_of(adapter.host), adapter.host_versions
    inside = installed is not None and _parts(oldest) <= _parts(installed) <= _parts(newest)
    yield Check.of(
        adapter.host,
        inside,
        installed=installed or "not installed",
        oldest=oldest,
        newest=newest,
        says=f"The adapter {adapter.name!r} was not tested with this version; `teacache doctor` checks this machine.",
    )


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int("".join(filter(str.isdigit, part)) or 0) for part in version.split(".")[:2])


def changed(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Says in one sentence each what differs between two surfaces of a pipeline."""
    for fact in sorted({*before, *now}):
        if before.get(fact) != now.get(fact):
            yield f"{name}: {fact} was {before.get(fact, 'not there')}; it is now {now.get(fact, 'not there')}."
