"""A comparison of pictures as one HTML page that fetches nothing. Needs pillow; imports neither mlx nor mflux.

The page works without its script, but for the slider. Its files are in `data/`.
"""

from __future__ import annotations

import math
from html import escape
from importlib.metadata import version
from importlib.resources import files
from string import Template

from teacache.report.compare import Comparison
from teacache.report.compare_cards import case_html
from teacache.report.compare_totals import Summary, Total, plain_total, summaries
from teacache.report.difference import amplification

COLUMNS = {
    "computed-of": "steps computed",
    "speedup": "speedup, estimated",
    "time": "time, measured",
    "ssim": "SSIM, mean (worst)",
    "psnr": "PSNR, dB",
}
"""Class and heading of the result table's columns after the first."""

NOTE = (
    "Estimated: steps of the plain pictures over steps computed, the speedup if a reused step cost nothing. Measured: "
    "in the denoising loop, all pictures together, each kind of step by its median; so a hiccup of the machine named "
    "below does not count, but other work on it still moves the figure. SSIM and PSNR are taken against the plain "
    "picture: 1 and infinite for an equal one. The indented rows are the control: the same model without the cache, in "
    "as many steps as the setting above computed."
)


def page(comparison: Comparison) -> str:
    """Returns the page. Whatever the user wrote is escaped."""
    factor = amplification(
        (case.plain.image, trial.cached.image) for case in comparison.cases for trial in case.trials
    )  # fmt: skip
    totals = list(summaries(comparison))
    cases = [case_html(case, number, factor) for number, case in enumerate(comparison.cases, 1)]
    return Template(_file("compare.html")).substitute(
        version=escape(version("teacache-core")),
        title=escape(f"{comparison.name}: plain, with teacache, and with fewer steps"),
        lead=escape(_lead(comparison)),
        style=_file("compare.css"),
        script=_file("compare.js"),
        verdicts="\n".join(f'<p class="verdict">{verdict(one)}</p>' for one in totals),
        headings="".join(
            f'<th role="columnheader" scope="col">{name}</th>' for name in ("pictures", *COLUMNS.values())
        ),
        table=_table(comparison, totals),
        note=escape(NOTE),
        factor=factor,
        cases="".join(cases),
        made_with="".join(
            f"<dt>{escape(label)}</dt><dd>{escape(value)}</dd>\n" for label, value in comparison.made_with
        ),
        command=escape(comparison.command),
    )


def verdict(summary: Summary) -> str:
    """Returns in one sentence how a setting did against fewer steps, as HTML."""
    setting, cached, fewer = escape(summary.setting), summary.cached, summary.fewer
    if fewer is None or cached.likeness is None or fewer.likeness is None:
        return f"<b>{setting}</b> reused no step: its pictures are the plain ones."
    steps = f"{fewer.steps:.3g} steps" if fewer.steps > 1 else "one step"
    count = cached.pictures
    asked = f"nearer to the plain picture than {steps} in {summary.won} of {count} picture{'s' if count > 1 else ''}"
    gain = cached.likeness.psnr - fewer.likeness.psnr
    by = f" ({gain:+.1f} dB in the mean)" if math.isfinite(gain) else ""
    lost = f", further away in {summary.lost}" if summary.lost else ""
    return f"<b>{setting}</b> computed {cached.computed:.3g} of {cached.steps:.3g} steps: {asked}{lost}{by}."


def _file(name: str) -> str:
    return (files("teacache.report") / "data" / name).read_text(encoding="utf-8")


def _lead(comparison: Comparison) -> str:
    plain = comparison.cases[0].plain.image
    count = len(comparison.cases)
    pictures = "one picture" if count == 1 else f"{count} pictures"
    return (
        f"{comparison.name}, {pictures} of {plain.width} × {plain.height} pixels in {comparison.steps} steps: made "
        "plainly, with teacache, and in fewer steps without it, each from the same prompt and seed."
    )


def _heading(name: str) -> str:
    return f'<th role="columnheader" scope="col">{name}</th>'


def _table(comparison: Comparison, found: list[Summary]) -> str:
    totals = [total for one in found for total in (one.cached, one.fewer) if total is not None]
    finite = [one.likeness.psnr for one in totals if one.likeness is not None and math.isfinite(one.likeness.psnr)]
    longest = max(finite, default=1.0)
    rows = [_table_row("plain", plain_total(comparison), "plain", longest)]
    for summary in found:
        rows.append(_table_row(summary.setting, summary.cached, "cached", longest))
        if summary.fewer is not None:
            rows.append(_table_row(f"{summary.fewer.steps:.3g} steps instead", summary.fewer, "fewer", longest))
    return "".join(rows)


def _table_row(name: str, total: Total, kind: str, longest: float) -> str:
    likeness, seconds = total.likeness, f"{total.seconds:.3g} s"
    if likeness is None or total.worst_ssim is None:
        ssim = psnr = ""
    else:
        seconds = f"{seconds} ({total.time_ratio:.2f}×)"
        ssim = f"{likeness.ssim:.4f} ({total.worst_ssim:.4f})"
        width = 100 if math.isinf(likeness.psnr) else max(1, round(100 * likeness.psnr / longest))
        bar = f'<span class="length" aria-hidden="true"><i style="width:{width}%"></i></span>'
        psnr = f"{bar}{'equal' if math.isinf(likeness.psnr) else format(likeness.psnr, '.1f')}"
    computed = f"{total.computed:.3g} of {total.steps:.3g}"
    values = (computed, f"{total.speedup:.2f}×", seconds, ssim, psnr)
    cells = "".join(
        f'<td role="cell" class="{column}" data-label="{heading}">{value}</td>'
        for (column, heading), value in zip(COLUMNS.items(), values, strict=True)
    )
    return f'<tr role="row" class="{kind}"><th role="rowheader" scope="row">{escape(name)}</th>{cells}</tr>\n'
