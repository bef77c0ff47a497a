"""A comparison of pictures as one HTML page that fetches nothing. Needs pillow; imports neither mlx nor mflux.

The page works without its script, but for the slider. Its files are in `data/`.
"""

from __future__ import annotations

import base64
import io
import math
from html import escape
from importlib.metadata import version
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from teacache.report.compare import Case, Comparison, Picture, Summary, Total, Trial
from teacache.report.difference import amplification, difference

if TYPE_CHECKING:
    from PIL.Image import Image

    from teacache.stats import StepRecord

MANY = 60
"""Above so many steps the cells of a timeline stand without gaps."""

NOTE = (
    "Estimated: steps of the plain pictures over steps computed, the speedup if a reused step cost nothing. Measured: "
    "once, in the denoising loop alone, on the machine named below; other work on it moves the figure. SSIM and PSNR "
    "are taken against the plain picture: 1 and infinite for an equal one. The indented rows are the control: the "
    "same model without the cache, in as many steps as the setting above computed."
)


def page(comparison: Comparison) -> str:
    """Returns the page. Whatever the user wrote is escaped."""
    factor = amplification(
        (case.plain.image, trial.cached.image) for case in comparison.cases for trial in case.trials
    )  # fmt: skip
    summaries = list(comparison.summaries())
    cases = [_case(case, number, factor) for number, case in enumerate(comparison.cases, 1)]
    return Template(_file("compare.html")).substitute(
        version=escape(version("teacache-core")),
        title=escape(f"{comparison.name}: plain, with teacache, and with fewer steps"),
        lead=escape(_lead(comparison)),
        style=_file("compare.css"),
        script=_file("compare.js"),
        verdicts="\n".join(f'<p class="verdict">{verdict(one)}</p>' for one in summaries),
        table=_table(comparison, summaries),
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


def _table(comparison: Comparison, summaries: list[Summary]) -> str:
    totals = [total for one in summaries for total in (one.cached, one.fewer) if total is not None]
    finite = [one.likeness.psnr for one in totals if one.likeness is not None and math.isfinite(one.likeness.psnr)]
    longest = max(finite, default=1.0)
    rows = [_table_row("plain", comparison.plain, "plain", longest)]
    for summary in summaries:
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
        psnr = f"{bar}{_decibels(likeness.psnr)}"
    computed = f"{total.computed:.3g} of {total.steps:.3g}"
    cells = f"<td>{computed}</td><td>{total.speedup:.2f}×</td><td>{seconds}</td><td>{ssim}</td>"
    return f'<tr class="{kind}"><th scope="row">{escape(name)}</th>{cells}<td class="psnr">{psnr}</td></tr>\n'


def _case(case: Case, number: int, factor: int) -> str:
    trials = "".join(_trial(case, trial, factor) for trial in case.trials)
    return (
        f'<article class="case" aria-labelledby="case-{number}">\n'
        f'<h3 id="case-{number}">{escape(case.prompt)} <span class="seed">seed {case.seed}</span></h3>\n'
        f'<div class="row">\n{_plain(case, number)}<div class="trials">\n{trials}</div>\n</div>\n</article>\n'
    )


def _plain(case: Case, number: int) -> str:
    against = '<span class="against"></span>'
    return (
        '<figure class="plain">\n<div class="frame">'
        f"{_img(case.plain.image, 'picture', _alt('plain', case))}"
        f'<span class="tag left" hidden>plain</span><span class="tag right against" hidden></span></div>\n'
        f'<div class="slider" hidden><input type="range" id="cut-{number}" min="0" max="100" value="50" step="1">'
        f'<label for="cut-{number}">left of the line: plain; right of it: {against}</label></div>\n'
        f"<figcaption><h4>plain</h4>{_steps(case.plain)}{_counts(case.plain)}</figcaption>\n</figure>\n"
    )


def _trial(case: Case, trial: Trial, factor: int) -> str:
    if trial.fewer is None:
        why = escape(trial.cached.run.why_nothing or "the policy asked for none.")
        other = f'<p class="none">No step was reused: {why}</p>\n'
    else:
        other = _card(case, trial.fewer, factor)
    return _card(case, trial.cached, factor) + other


def _card(case: Case, picture: Picture, factor: int) -> str:
    off = difference(case.plain.image, picture.image, factor)
    pictures = _img(picture.image, "picture", _alt(picture.label, case)) + _img(
        off, "difference", f"How far {picture.label} is off from plain, {factor} times darkened; white: equal"
    )
    return (
        f'<figure data-label="{escape(picture.label)}">\n<div class="frame">{pictures}</div>\n'
        f"<figcaption><h4>{escape(picture.label)}</h4>{_likeness(picture)}{_steps(picture)}{_counts(picture)}"
        '<button type="button" aria-pressed="false" hidden>compare with plain</button></figcaption>\n</figure>\n'
    )


def _likeness(picture: Picture) -> str:
    if picture.likeness is None:
        return ""
    if math.isinf(picture.likeness.psnr):
        return '<p class="likeness">equal in every pixel</p>'
    return f'<p class="likeness">PSNR {picture.likeness.psnr:.1f} dB, SSIM {picture.likeness.ssim:.4f}</p>'


def _steps(picture: Picture) -> str:
    """The timeline: one cell per step, and the same in words."""
    records = picture.run.records
    reused = [str(record.step + 1) for record in records if record.action == "reuse"]
    done = "reused: " + ", ".join(reused) if reused else "all computed"
    cells = "".join(_cell(record) for record in records)
    many = " many" if len(records) > MANY else ""
    return f'<div class="steps{many}" role="img" aria-label="{len(records)} steps, {done}">{cells}</div>'


def _cell(record: StepRecord) -> str:
    done = "reused" if record.action == "reuse" else "computed"
    return f'<i class="cell {done}" title="step {record.step + 1}: {done} ({escape(record.reason)})"></i>'


def _counts(picture: Picture) -> str:
    run = picture.run
    estimate = f", {run.speedup_estimate:.1f}× estimated" if run.reused else ""
    text = f"{run.computed} of {len(run.records)} steps computed{estimate}, {run.seconds:.3g} s"
    return f'<p class="counts">{text}</p>'


def _decibels(psnr: float) -> str:
    return "equal" if math.isinf(psnr) else f"{psnr:.1f}"


def _alt(label: str, case: Case) -> str:
    return f"{label}: {case.prompt}, seed {case.seed}"


def _img(image: Image, kind: str, alt: str) -> str:
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    size = f'width="{image.width}" height="{image.height}"'
    return f'<img class="{kind}" {size} alt="{escape(alt)}" src="data:image/png;base64,{data}">'
