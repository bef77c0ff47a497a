"""The comparison with other caches as a page and as JSON. Must not import mflux."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from teacache.bench.peers import Comparison, Exactness
from teacache.bench.peers_pictures import STEPS, Worth
from teacache.bench.speed_report import percent, shortened, size, times


@dataclass(frozen=True, slots=True, kw_only=True)
class PeersReport:
    """All that was compared on one device.

    Attributes:
        made_with: machine and versions.
        date: when, as ISO.
        settings: what was asked for.
        comparisons: times of the two caches.
        exactness: without any reuse.
        memory: bytes over the plain picture's peak, (model, ours, theirs).
        wrapping: milliseconds of wrapping and restoring, (model, ours, theirs).
        pictures: quality and time on the trained toys.
        remarks: what does not work together, in whole sentences.
    """

    made_with: str
    date: str
    settings: dict[str, Any]
    comparisons: Sequence[Comparison]
    exactness: Sequence[Exactness]
    memory: Sequence[tuple[str, int, int]]
    wrapping: Sequence[tuple[str, float, float]]
    pictures: Sequence[Worth]
    remarks: Sequence[str] = ()


def peers_tables(report: PeersReport) -> str:
    """Returns the report as Markdown."""
    lines = [
        f"Made on {report.date} with {report.made_with}. The same small models, coefficients and thresholds; medians "
        "with 95 % intervals of steps paired in lockstep.",
        "",
        "### Times",
        "",
        "*Ours over theirs*: for what nothing is reused the difference of the two overheads, for the speedup the ratio "
        "of the times; the target is at most 0 and at most 1. Two caches of the same speed stay *undecided*.",
        "mflux compiles the step of FLUX.2 and Z-Image, and teacache keeps it so, which makes it equal to plain mflux "
        "bit for bit; mlx-teacache runs it eagerly. In the rows with `compile=False` teacache runs it eagerly too.",
        "",
        "| model | figure | teacache | mlx-teacache | ours over theirs | never slower |",
        "|---|---|---|---|---|---|",
        *(_compared(row) for row in report.comparisons),
        "",
        "### Without any reuse: how far the last latents are from plain mflux's",
        "",
        "| model | teacache | mlx-teacache |",
        "|---|---|---|",
        *(f"| {row.model} | {_off(row.ours)} | {_off(row.theirs)} |" for row in report.exactness),
        "",
        "### Peak memory over plain, and time to wrap and restore",
        "",
        "| model | teacache | mlx-teacache | teacache, ms | mlx-teacache, ms |",
        "|---|---|---|---|---|",
        *(
            f"| {model} | {size(ours)} | {size(theirs)} | {wrap[1]:.2f} | {wrap[2]:.2f} |"
            for (model, ours, theirs), wrap in zip(report.memory, report.wrapping, strict=True)
        ),
        "",
        f"### Pictures at the time they take: trained toys, {STEPS} steps",
        "",
        "PSNR against the plain picture, of the 8-bit pictures: mean, worst behind the slash.",
        "",
        "| toy | way | computed | time over plain | PSNR, dB |",
        "|---|---|---|---|---|",
        *(
            f"| {row.model} | {row.way} | {row.computed:.1f} | {percent(row.time)} | {row.psnr:.1f} / {row.worst:.1f} |"
            for row in report.pictures
        ),
        *(["", *report.remarks] if report.remarks else []),
    ]
    return "\n".join(lines)


def peers_numbers(report: PeersReport) -> dict[str, Any]:
    """Returns the report for JSON."""
    found = asdict(report)
    measured = f"nox -s peers, {report.date}"
    found["claims"] = [
        {
            "what": f"never slower than mlx-teacache; {row.figure}",
            "figure": percent(row.between),
            "on": f"{row.model}; {report.made_with}",
            "measured": measured,
            "status": row.verdict,
        }
        for row in report.comparisons
        if row.verdict is not None
    ] + [
        {
            "what": "bit-exact against plain mflux where nothing is reused",
            "figure": f"largest difference {_off(row.ours)}; mlx-teacache {_off(row.theirs)}",
            "on": f"{row.model}; {report.made_with}",
            "measured": measured,
            "status": "met" if row.ours == 0 else "missed",
        }
        for row in report.exactness
    ]
    numbers: dict[str, Any] = shortened(found)
    return numbers


def _compared(row: Comparison) -> str:
    shown = times if row.figure.endswith("speedup") else percent
    return (
        f"| {row.model} | {row.figure} | {shown(row.ours)} | {shown(row.theirs)} | {percent(row.between)} | "
        f"{row.verdict or ''} |"
    )


def _off(difference: float) -> str:
    return "equal" if difference == 0 else f"{difference:.1e}"
