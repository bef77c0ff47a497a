"""The speed benchmark as a page and as JSON. Must not import mflux."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from teacache.bench.compiled import COMPILED, FIRST
from teacache.bench.memory import SLACK, Peak
from teacache.bench.paired import Estimate, decide
from teacache.bench.speed import WARM, Row
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


def tables(report: Report) -> str:
    """Returns the report as Markdown, from the line that says how it was made on."""
    lines = [
        f"Made on {report.date} with {report.made_with}. Medians with 95 % intervals; the first {WARM} steps, where "
        "pieces are traced and compiled, are not counted. *Met*: the whole interval lies on the good side of the "
        "target; *undecided*: it holds the target.",
        "",
        "### A computed step, over a plain one",
        "",
        "*Short*: on the same model cut to two blocks, as a share of a whole model's step: what a computed step costs "
        "more does not depend on the number of blocks, and drowns less in noise there. *Whole*: paired with plain "
        "steps of the whole model.",
        "",
        "| model | nothing is reused by | short, wall | short, CPU | whole, wall | target | verdict |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {r.model} | {FIGURES[r.figure]} | {percent(r.wall)} | {percent(r.cpu)} | {percent(r.direct)} | "
            f"{r.target:.0%} | {r.verdict} |"
            for r in _of(report.rows, "overhead")
        ),
        "",
        "### A step that is not computed, as a share of a plain one",
        "",
        "| model | by | wall | CPU | reused | target | verdict |",
        "|---|---|---|---|---|---|---|",
        *(_cost(row) for row in _of(report.rows, "cost")),
        "",
        "### Speedup",
        "",
        "Every second step reused. *Bound*: N / (N - k (1 - c)), c the measured cost of a step that is not computed. "
        "*Kept*: the share of it that the measured parts leave (c, and a computed step's overhead). A measured speedup "
        "above N / (N - k) is noise.",
        "",
        "| model | by | reused | measured, wall | measured, CPU | N / (N - k) | bound | kept | target | verdict |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(_speedup(row) for row in _of(report.rows, "speedup")),
        "",
        *_memory(report),
        *_start(report),
    ]
    if report.scaling:
        lines += ["", *_scaling(report.scaling)]
    if report.compiled:
        lines += ["", *_compiled(report)]
    return "\n".join(lines)


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
    for what, estimate, target in _started(report):
        verdict = decide(estimate, target, at_most=True)
        yield _claim(
            f"{what} at most {target * 1e3:g} ms", _milliseconds(estimate), report.made_with, measured, verdict
        )


def _claim(what: str, figure: str, on: str, measured: str, status: str) -> dict[str, str]:
    return {"what": what, "figure": figure, "on": on, "measured": measured, "status": status}


def _cost(row: Row) -> str:
    assert row.target is not None  # noqa: S101 - every cost has one
    return (
        f"| {row.model} | {FIGURES[row.figure]} | {percent(row.wall)} | {percent(row.cpu)} | "
        f"{row.reused} of {row.steps} | {row.target:.1%} | {row.verdict} |"
    )


def _speedup(row: Row) -> str:
    return (
        f"| {row.model} | {FIGURES[row.figure]} | {row.reused} of {row.steps} | {_times(row.wall)} | "
        f"{_times(row.cpu)} | {row.ideal:.2f} | {row.bound:.3f} | {percent(row.kept)} | {row.target:.0%} | "
        f"{row.verdict} |"
    )


def _memory(report: Report) -> list[str]:
    return [
        "### Memory",
        "",
        f"Peak of `mx.get_peak_memory` over the plain picture's; {size(SLACK)} above what is stated pass.",
        "",
        "| model | by | over plain | stated | made of | verdict |",
        "|---|---|---|---|---|---|",
        *(
            f"| {p.model} | {p.way} | {size(p.extra)} | {'' if p.stated is None else size(p.stated)} | {p.why} | "
            f"{p.verdict or 'measured only'} |"
            for p in report.peaks
        ),
        "",
        "What is left in memory grew over "
        f"{report.settings.get('runs', '')} runs of changing sizes by: "
        + ", ".join(f"{model} {grown} bytes" for model, grown in report.growth.items())
        + ".",
        "",
    ]


def _start(report: Report) -> list[str]:
    light = "neither mlx nor mflux is loaded" if report.import_is_light else "mlx or mflux is loaded with it"
    return [
        "### Wrapping and importing",
        "",
        "| what | time | target | verdict |",
        "|---|---|---|---|",
        *(
            f"| {what} | {_milliseconds(estimate)} | {target * 1e3:g} ms | {decide(estimate, target, at_most=True)} |"
            for what, estimate, target in _started(report)
        ),
        "",
        f"With `import teacache` {light}.",
    ]


def _started(report: Report) -> Iterable[tuple[str, Estimate, float]]:
    for model, estimate in report.wrapping.items():
        yield f"wrap and restore, {model}", estimate, WRAP_TARGET
    yield "import teacache", report.importing, IMPORT_TARGET


def _scaling(rows: Sequence[Row]) -> list[str]:
    return [
        "### Other sizes",
        "",
        "| model | figure | wall | CPU | pairs |",
        "|---|---|---|---|---|",
        *(
            f"| {r.model} | {FIGURES[r.figure]}, {'overhead' if r.unit == 'overhead' else 'not computed'} | "
            f"{percent(r.wall)} | {percent(r.cpu)} | {r.wall.pairs} |"
            for r in rows
            if r.unit != "speedup"
        ),
    ]


def _compiled(report: Report) -> list[str]:
    off = ", ".join(f"{model} {value:.0e}" for model, value in report.compiled_off.items())
    return [
        "### Compiling what mflux runs eagerly",
        "",
        f"As a share of a plain step. The last latents differ by at most: {off}.",
        "",
        "| model | figure | wall | CPU | pairs |",
        "|---|---|---|---|---|",
        *(
            f"| {r.model} | {r.figure} | {percent(r.wall)} | {percent(r.cpu)} | {r.wall.pairs} |"
            for r in report.compiled
        ),
    ]


def _of(rows: Sequence[Row], unit: str) -> list[Row]:
    return [row for row in rows if row.unit == unit]


def percent(estimate: Estimate | None) -> str:
    """Returns a share with its interval; nothing for None."""
    if estimate is None:
        return ""
    return f"{estimate.value:.2%} [{estimate.low:.2%}, {estimate.high:.2%}]".replace("%", " %")


def _times(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _milliseconds(estimate: Estimate) -> str:
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
