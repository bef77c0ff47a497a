"""The speed benchmark as a page. Must not import mflux."""

from __future__ import annotations

from collections.abc import Sequence

from teacache.bench.memory import SLACK
from teacache.bench.paired import decide
from teacache.bench.speed_report import FIGURES, Report, milliseconds, percent, size, started, times
from teacache.bench.speed_rows import WARM, Row


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
        "The target of a row with a *floor* is 2 % above it: the floor is a plain step of the same model cut to its "
        "first block. Z-Image's published signal is read behind that block, so that a step reused by the gate runs it, "
        "and the four refiners in front of it. In a model of 8 blocks they weigh more than in the real one of 30.",
        "",
        "| model | by | wall | CPU | reused | floor | target | verdict |",
        "|---|---|---|---|---|---|---|---|",
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


def _cost(row: Row) -> str:
    assert row.target is not None  # noqa: S101 - every cost has one
    return (
        f"| {row.model} | {FIGURES[row.figure]} | {percent(row.wall)} | {percent(row.cpu)} | "
        f"{row.reused} of {row.steps} | {'' if row.floor is None else f'{row.floor:.1%}'} | {row.target:.1%} | "
        f"{row.verdict} |"
    )


def _speedup(row: Row) -> str:
    return (
        f"| {row.model} | {FIGURES[row.figure]} | {row.reused} of {row.steps} | {times(row.wall)} | "
        f"{times(row.cpu)} | {row.ideal:.2f} | {row.bound:.3f} | {percent(row.kept)} | {row.target:.0%} | "
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
            f"| {what} | {milliseconds(estimate)} | {target * 1e3:g} ms | {decide(estimate, target, at_most=True)} |"
            for what, estimate, target in started(report)
        ),
        "",
        f"With `import teacache` {light}.",
    ]


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
