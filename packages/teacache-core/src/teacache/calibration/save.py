"""Writes calibration files, the same text for the same numbers. Must not import mlx, mflux or pluggy."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from teacache.calibration.files import write_text
from teacache.calibration.load import parse_calibration
from teacache.calibration.model import SCHEMA, Calibration
from teacache.errors import CalibrationError


def save_calibration(calibration: Calibration, path: str | Path) -> None:
    """Writes a calibration file whole or not at all: a reader never sees half of it.

    Args:
        calibration: what to write.
        path: the file; its folder must exist, an older file is replaced.

    Raises:
        CalibrationError: the calibration holds what the loader would refuse.
        OSError: the folder cannot be written to.
    """
    path = Path(path)
    text = dump_calibration(calibration)
    parse_calibration(text, name=str(path))
    write_text(path, text)


def dump_calibration(calibration: Calibration) -> str:
    """Returns the TOML text of a calibration.

    Raises:
        CalibrationError: its evidence holds something that the format has no place for.
    """
    top = {
        "schema": SCHEMA,
        "checkpoint": calibration.checkpoint,
        "aliases": calibration.aliases or None,
        "pipelines": calibration.pipelines,
        "distilled": calibration.distilled,
        "status": calibration.status,
    }
    tables: dict[str, Mapping[str, Any]] = {"": top}
    if calibration.change is not None:
        tables["change"] = {"kind": calibration.change}
    for name in ("signal", "gate", "recipe", "curve"):
        part = getattr(calibration, name)
        if part is not None:
            tables[name] = asdict(part)
    tables["evidence"] = calibration.evidence
    order = ["", "signal", "change", "gate", "recipe", "curve", "evidence"]
    return "\n".join(_table(name, tables[name]) for name in order if name in tables)


def _table(name: str, values: Mapping[str, Any]) -> str:
    lines = [f"{_key(key)} = {_value(value)}\n" for key, value in values.items() if value is not None]
    return "".join([f"[{name}]\n" if name else "", *lines])


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: Any) -> str:
    """Returns one value. Numpy's numbers are numbers; floats keep every digit."""
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real) and math.isfinite(value):
        return repr(float(value))
    if isinstance(value, list | tuple):
        return _list([_value(item) for item in value])
    raise CalibrationError(
        f"A calibration holds {value!r}; expected texts, finite numbers, true, false and lists of them. "
        "Leave it out, or write it as a text."
    )


def _list(items: list[str]) -> str:
    """Returns a list on one line where it fits into 100 characters, else six items on each."""
    line = f"[{', '.join(items)}]"
    if len(line) <= 100:
        return line
    rows = [", ".join(items[start : start + 6]) for start in range(0, len(items), 6)]
    return "[\n" + "".join(f"    {row},\n" for row in rows) + "]"
