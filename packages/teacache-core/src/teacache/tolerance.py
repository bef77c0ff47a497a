"""Tolerances: the bounds of an adapter's oracles, each with the evidence that carries it. Imports no mlx, no mflux.

A bound is never written by hand: `teacache tolerance record` measures noise and planted bugs, and sets it between.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from teacache.calibration import checks
from teacache.calibration.files import read_text, resource, shown, write_text
from teacache.calibration.load import _Table
from teacache.calibration.model import Evidence
from teacache.calibration.save import _table
from teacache.distance import Distance
from teacache.errors import CalibrationError, ToleranceError

SCHEMA = 1
"""Version of the tolerance files that this teacache writes, and the newest that it reads."""

LARGEST_MARGIN = 4.0
"""A bound lies just beside the measured noise: never further than this times the noise."""

FEWEST_RUNS = 4
"""Fewer runs are no distribution."""

Comparison: TypeAlias = Literal["same path", "across compile"]
"""Eager against eager and compiled against compiled; or one against the other."""

Status: TypeAlias = Literal["calibrated", "provisional"]

METRIC = "mean_abs"
"""What a bound is on: the mean absolute difference of the latents in the worst step.

The largest difference does not tell noise from bugs: mflux keeps latents in bfloat16, where one rounding that falls the
other way is as large as the smallest bug (measured on the Z-Image toy, compiled against eager: 0.0156 of noise, 0.031
of a previous timestep in the tail). Their means lie 20 times apart and more, for a bug moves every number.
"""

REMEDY = "Measure it again: teacache tolerance record"


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """What correct code measures.

    Attributes:
        comparison: what was compared.
        runs: how many pairs of runs.
        steps: for each step the worst over the runs.
        final: for each run the distance of the last latents.
    """

    comparison: Comparison
    runs: int
    steps: tuple[Distance, ...]
    final: tuple[Distance, ...]

    @property
    def largest(self) -> float:
        """The largest mean difference of any step of any run."""
        return max(step.mean_abs for step in self.steps)


@dataclass(frozen=True, kw_only=True, slots=True)
class Landing:
    """Where a planted bug lands.

    Attributes:
        bug: its name, see `teacache.testing.planted`.
        distance: worst step of the run with the bug against the same run without.
    """

    bug: str
    distance: Distance


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """How large the mean difference of the latents may be in any step.

    Attributes:
        comparison: what is compared.
        value: the bound on `METRIC`; 0.0 is bit-exact.
        margin: the bound over the measured noise; 1.0 where it is bit-exact.
    """

    comparison: Comparison
    value: float
    margin: float

    @property
    def exact(self) -> bool:
        """Every byte must be equal."""
        return self.value == 0.0

    def allows(self, measured: Distance) -> bool:
        """Tells whether a distance lies within the bound."""
        return measured.exact or (not self.exact and measured.mean_abs <= self.value)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tolerance:
    """One adapter's bounds and their evidence.

    Attributes:
        adapter: the adapter's name.
        status: "calibrated", or "provisional", which says in `missing` what is missing.
        evidence: where, when and on what it was measured.
        bounds: one for each comparison.
        noise: one for each comparison.
        bugs: the planted bugs that move latents.
        missing: what would make it "calibrated".
    """

    adapter: str
    status: Status
    evidence: Mapping[str, Evidence]
    bounds: tuple[Bound, ...]
    noise: tuple[Noise, ...]
    bugs: tuple[Landing, ...]
    missing: str | None = None

    def bound(self, comparison: Comparison) -> Bound | None:
        """Returns the bound for a comparison; None where the adapter has none."""
        return next((bound for bound in self.bounds if bound.comparison == comparison), None)

    @property
    def smallest_bug(self) -> Landing:
        """The planted bug that lands nearest to the noise."""
        return min(self.bugs, key=lambda landing: landing.distance.mean_abs)


def bound_for(noise: Noise, bugs: Sequence[Landing], *, margin: float = 2.0) -> Bound:
    """Sets a bound just beside the noise.

    Raises:
        ToleranceError: the noise reaches the smallest planted bug: the check must change, not the constant.
    """
    exact = noise.largest == 0.0
    bound = Bound(comparison=noise.comparison, value=noise.largest * margin, margin=1.0 if exact else margin)
    _check_bound("measured now", bound, noise, bugs)
    return bound


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
    _check(name, tolerance)
    if stated != digest(text):
        raise ToleranceError(f"{name} was edited by hand: its digest does not fit. {REMEDY} {tolerance.adapter}")
    return tolerance


def _check(name: str, tolerance: Tolerance) -> None:
    """Refuses a bound that its evidence does not carry."""
    if tolerance.status == "provisional" and not tolerance.missing:
        raise ToleranceError(f"{name}: status is provisional, and missing does not say what is missing. {REMEDY}")
    for key in ("machine", "date", "mlx", "prompts", "seeds"):
        if key not in tolerance.evidence:
            raise ToleranceError(f"{name}: evidence.{key} is missing: a bound without evidence is none. {REMEDY}")
    if not tolerance.bounds:
        raise ToleranceError(f"{name}: there is no bound. {REMEDY}")
    for bound in tolerance.bounds:
        noise = next((noise for noise in tolerance.noise if noise.comparison == bound.comparison), None)
        if noise is None:
            raise ToleranceError(f"{name}: the bound for {bound.comparison!r} has no measured noise. {REMEDY}")
        _check_bound(name, bound, noise, tolerance.bugs)


def _check_bound(name: str, bound: Bound, noise: Noise, bugs: Sequence[Landing]) -> None:
    if noise.runs < FEWEST_RUNS or len(noise.final) != noise.runs or not noise.steps:
        raise ToleranceError(
            f"{name}: {noise.comparison!r} was measured in {len(noise.final)} of {noise.runs} runs; expected "
            f"{FEWEST_RUNS} or more. {REMEDY}"
        )
    if not bugs:
        raise ToleranceError(f"{name}: no planted bug was measured, so nothing shows that the bound sees one. {REMEDY}")
    smallest = min(bugs, key=lambda landing: landing.distance.mean_abs)
    if not noise.largest <= bound.value < smallest.distance.mean_abs:
        raise ToleranceError(
            f"{name}: the bound {bound.value:g} for {bound.comparison!r} does not lie between the noise "
            f"({noise.largest:g}) and the smallest planted bug ({smallest.bug}: {smallest.distance.mean_abs:g}). "
            "Change the check, not the constant."
        )
    if not 1.0 <= bound.margin <= LARGEST_MARGIN or not math.isclose(
        bound.value, noise.largest * bound.margin, rel_tol=1e-9
    ):
        raise ToleranceError(
            f"{name}: the bound {bound.value:g} for {bound.comparison!r} is not the noise {noise.largest:g} times its "
            f"margin {bound.margin:g} (1 to {LARGEST_MARGIN:g}). {REMEDY}"
        )


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
