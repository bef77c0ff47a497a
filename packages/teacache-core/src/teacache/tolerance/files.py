"""Tolerance files: read, checked, and written. Imports no mlx, no mflux."""

from __future__ import annotations

import hashlib
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from teacache.calibration import checks
from teacache.calibration.files import read_text, resource, shown, write_text
from teacache.calibration.load import _Table
from teacache.calibration.save import _table
from teacache.distance import Distance
from teacache.errors import CalibrationError, ToleranceError
from teacache.tolerance.model import METRIC, REMEDY, Bound, Comparison, Landing, Noise, Status, Tolerance, check

SCHEMA = 1
"""Version of the tolerance files that this teacache writes, and the newest that it reads."""


def load_tolerance(reference: str) -> Tolerance:
    """Returns an adapter's tolerance.

    Args:
        reference: ``"package:file"``, as in `teacache.adapter.Adapter.tolerance`.

    Raises:
        ToleranceError: there is no such file, it is damaged or was edited, or a bound is not carried by its evidence.
    """
    try:
        file = resource(reference)
        text = read_text(file)
    except (OSError, ValueError) as error:
        raise ToleranceError(
            f"tolerance={reference!r}: expected 'package:file' with the file inside an importable package ({error}). "
            "Correct the adapter's description, or reinstall its package."
        ) from error
    return parse_tolerance(text, name=str(file))


def parse_tolerance(text: str, *, name: str) -> Tolerance:
    """Returns the tolerance that a TOML text holds, checked as for `load_tolerance`."""
    try:
        return _parsed(text, name)
    except CalibrationError as error:
        raise ToleranceError(str(error)) from error


def save_tolerance(tolerance: Tolerance, path: Path) -> None:
    """Writes a tolerance file, checked as the loader does.

    Raises:
        ToleranceError: the loader would refuse it.
        OSError: the folder cannot be written to.
    """
    text = dump_tolerance(tolerance)
    parse_tolerance(text, name=str(path))
    write_text(path, text)


def dump_tolerance(tolerance: Tolerance) -> str:
    """Returns the TOML text of a tolerance, its digest included."""
    top = {
        "schema": SCHEMA,
        "adapter": tolerance.adapter,
        "status": tolerance.status,
        "missing": tolerance.missing,
    }
    parts = [_table("", top), _table("evidence", tolerance.evidence)]
    for bound in tolerance.bounds:
        parts.append(
            _table(
                "[bound]",
                {"comparison": bound.comparison, "metric": METRIC, "value": bound.value, "margin": bound.margin},
            )
        )
    for noise in tolerance.noise:
        measured = {
            f"{row}_{metric}": [getattr(distance, metric) for distance in getattr(noise, row)]
            for row in ("steps", "final")
            for metric in _METRICS
        }
        parts.append(_table("[noise]", {"comparison": noise.comparison, "runs": noise.runs, **measured}))
    parts += [_table("[bug]", {"name": landing.bug, **asdict(landing.distance)}) for landing in tolerance.bugs]
    text = "\n".join(parts)
    return f'digest = "{digest(text)}"\n{text}'


def digest(text: str) -> str:
    """Returns the SHA-256 of a tolerance file's text without its digest line: what was edited by hand is seen."""
    return hashlib.sha256(_DIGEST.sub("", text).encode()).hexdigest()


_METRICS = ("max_abs", "mean_abs", "max_rel", "cosine")
_DIGEST = re.compile(r'^digest = "[^"\n]*"\n', re.MULTILINE)


def _parsed(text: str, name: str) -> Tolerance:
    import tomllib

    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ToleranceError(f"{name}: {error}; expected TOML. {REMEDY}") from None
    top = _Table(name, "", data)
    schema = top.take("schema", checks.count)
    if schema > SCHEMA:
        raise ToleranceError(
            f"{name}: schema = {shown(schema)}; this teacache reads up to {SCHEMA}. "
            "Run: pip install --upgrade teacache-core"
        )
    stated = top.take("digest", checks.text)
    evidence = top.table("evidence")
    tolerance = Tolerance(
        adapter=top.take("adapter", checks.text),
        status=top.take("status", _status),
        missing=top.optional("missing", checks.text),
        bounds=tuple(_bound(table) for table in _tables(top, "bound")),
        noise=tuple(_noise(table) for table in _tables(top, "noise")),
        bugs=tuple(_landing(table) for table in _tables(top, "bug")),
        evidence={key: evidence.take(key, checks.fact) for key in tuple(evidence.data)},
    )
    top.finish()
    check(name, tolerance)
    if stated != digest(text):
        raise ToleranceError(f"{name} was edited by hand: its digest does not fit. {REMEDY} {tolerance.adapter}")
    return tolerance


def _tables(top: _Table, key: str) -> list[_Table]:
    def listed(value: Any) -> list[dict[str, Any]]:
        if not isinstance(value, list) or not value:
            raise ValueError("one table or more")
        return [checks.a_table(item) for item in value]

    return [_Table(top.file, f"{key}[{index}].", data) for index, data in enumerate(top.optional(key, listed) or [])]


def _bound(table: _Table) -> Bound:
    def metric(value: Any) -> str:
        if value != METRIC:
            raise ValueError(repr(METRIC))
        return METRIC

    table.take("metric", metric)
    bound = Bound(
        comparison=table.take("comparison", _comparison),
        value=table.take("value", checks.amount),
        margin=table.take("margin", checks.amount),
    )
    table.finish()
    return bound


def _noise(table: _Table) -> Noise:
    comparison, runs = table.take("comparison", _comparison), table.take("runs", checks.positive)
    rows: dict[str, tuple[Distance, ...]] = {}
    for row in ("steps", "final"):
        columns = [table.take(f"{row}_{metric}", checks.numbers) for metric in _METRICS]
        if len({len(column) for column in columns}) != 1:
            raise ToleranceError(f"{table.file}: the {row}_ lists of {table.path} differ in length. {REMEDY}")
        rows[row] = tuple(Distance(**dict(zip(_METRICS, values, strict=True))) for values in zip(*columns, strict=True))
    table.finish()
    return Noise(comparison=comparison, runs=runs, **rows)


def _landing(table: _Table) -> Landing:
    landing = Landing(
        bug=table.take("name", checks.text),
        distance=Distance(**{metric: table.take(metric, _number) for metric in _METRICS}),
    )
    table.finish()
    return landing


def _number(value: Any) -> float:
    return checks.numbers([value])[0]


def _comparison(value: Any) -> Comparison:
    known: tuple[Comparison, ...] = get_args(Comparison)
    if value not in known:
        raise ValueError("one of " + ", ".join(known))
    return next(comparison for comparison in known if comparison == value)


def _status(value: Any) -> Status:
    known: tuple[Status, ...] = get_args(Status)
    if value not in known:
        raise ValueError("one of " + ", ".join(known))
    return next(status for status in known if status == value)
