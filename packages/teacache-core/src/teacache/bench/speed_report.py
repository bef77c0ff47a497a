"""What the speed benchmark reports: its numbers as JSON, and the claims that they support or not. Imports no mflux."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from teacache.bench.compiled import COMPILED, FIRST
from teacache.bench.memory import Peak
from teacache.bench.paired import Estimate, decide
from teacache.bench.speed_rows import Row
from teacache.bench.startup import IMPORT_TARGET, WRAP_TARGET

FIGURES = {
    "off": "threshold 0",
    "plan of all": "plan that computes every step",
    "gate, never": "gate that never reuses",
    "gate": "gate, residual reused",
    "linear": "gate, residual on a line",
    "plan": "plan, velocity carried",
    COMPILED: COMPILED,
    FIRST: FIRST,
}
"""How the tables name what `speed.ways` draws."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that the benchmark measured on one device.

    Attributes:
        made_with: machine and versions.
        date: when, as ISO.
        settings: what was asked for.
        rows: times.
        scaling: times at other sizes.
        compiled: times with compiled blocks, where mflux compiles nothing.
        compiled_off: by how much the last latents differ then, by model.
        peaks: memory.
        growth: bytes by which what stays grew over many runs, by model.
        wrapping: seconds of wrap and restore, by model.
        importing: seconds of `import teacache`.
        import_is_light: it brought neither mlx nor mflux along.
    """

    made_with: str
    date: str
    settings: dict[str, Any]
    rows: Sequence[Row]
    scaling: Sequence[Row]
    compiled: Sequence[Row]
    compiled_off: dict[str, float]
    peaks: Sequence[Peak]
    growth: dict[str, int]
    wrapping: dict[str, Estimate]
    importing: Estimate
    import_is_light: bool


def numbers(report: Report) -> dict[str, Any]:
    """Returns the report for JSON, with the list of claims that it supports or not."""
    found = asdict(report)
    found["rows"] = [asdict(row) | {"verdict": row.verdict} for row in report.rows]
    found["scaling"] = [asdict(row) for row in report.scaling]
    found["compiled"] = [asdict(row) for row in report.compiled]
    found["peaks"] = [asdict(peak) | {"verdict": peak.verdict} for peak in report.peaks]
    found["claims"] = list(claims(report))
    short: dict[str, Any] = shortened(found)
    return short


def claims(report: Report) -> Iterable[dict[str, str]]:
    """Yields what is claimed of each target, for a page of claims: what, figure, on, measured, status."""
    measured = f"teacache bench speed, {report.date}"
    for row in report.rows:
        if row.target is None or row.verdict is None:
            continue
        what = {
            "overhead": f"{FIGURES[row.figure]}: overhead over a plain step at most {row.target:.0%}",
            "cost": f"{FIGURES[row.figure]}: a step that is not computed costs at most {row.target:.1%} of a plain one",
            "speedup": f"{FIGURES[row.figure]}: speedup at least {row.target:.0%} of N/(N-k(1-c))",
        }[row.unit]
        shown = percent(row.kept if row.unit == "speedup" else row.wall)
        yield _claim(what, shown, f"{row.model}; {report.made_with}", measured, row.verdict)
    for peak in report.peaks:
        if peak.stated is not None and peak.verdict is not None:
            what = f"{peak.way}: peak memory over plain at most {peak.why} ({size(peak.stated)})"
            yield _claim(what, size(peak.extra), f"{peak.model}; {report.made_with}", measured, peak.verdict)
    for what, estimate, target in started(report):
        verdict = decide(estimate, target, at_most=True)
        yield _claim(f"{what} at most {target * 1e3:g} ms", milliseconds(estimate), report.made_with, measured, verdict)


def _claim(what: str, figure: str, on: str, measured: str, status: str) -> dict[str, str]:
    return {"what": what, "figure": figure, "on": on, "measured": measured, "status": status}


def started(report: Report) -> Iterable[tuple[str, Estimate, float]]:
    """Yields what wrapping and importing take, with the bounds, in seconds."""
    for model, estimate in report.wrapping.items():
        yield f"wrap and restore, {model}", estimate, WRAP_TARGET
    yield "import teacache", report.importing, IMPORT_TARGET


def percent(estimate: Estimate | None) -> str:
    """Returns a share with its interval; nothing for None."""
    if estimate is None:
        return ""
    return f"{estimate.value:.2%} [{estimate.low:.2%}, {estimate.high:.2%}]".replace("%", " %")


def times(estimate: Estimate) -> str:
    """Returns a speedup with its interval."""
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def milliseconds(estimate: Estimate) -> str:
    """Returns seconds with their interval as milliseconds."""
    return f"{estimate.value * 1e3:.2f} ms [{estimate.low * 1e3:.2f}, {estimate.high * 1e3:.2f}]"


def size(amount: int) -> str:
    """Returns bytes as people read them."""
    return f"{amount / 1024:.0f} KiB" if abs(amount) < 2**20 else f"{amount / 2**20:.2f} MiB"


def shortened(value: Any) -> Any:
    """Returns a nested value with its numbers cut to six digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: shortened(one) for key, one in value.items()}
    return [shortened(one) for one in value] if isinstance(value, list | tuple) else value
