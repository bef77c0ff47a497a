"""The pictures of a comparison as HTML, one card each. Needs pillow; imports neither mlx nor mflux."""

from __future__ import annotations

import base64
import io
import math
from html import escape
from typing import TYPE_CHECKING

from teacache.report.compare import Case, Picture, Trial
from teacache.report.difference import difference

if TYPE_CHECKING:
    from PIL.Image import Image

    from teacache.stats import StepRecord

MANY = 60
"""Above so many steps the cells of a timeline stand without gaps."""


def case_html(case: Case, number: int, factor: int) -> str:
    """Returns one prompt and seed: the plain picture, and each setting beside its control.

    Args:
        case: what is shown.
        number: its place on the page, from 1 on; no other case has it.
        factor: by which differences are darkened.
    """
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
    text = f"{run.computed} of {len(run.records)} steps computed{estimate}, {picture.loop_seconds:.3g} s"
    return f'<p class="counts">{text}</p>'


def _alt(label: str, case: Case) -> str:
    return f"{label}: {case.prompt}, seed {case.seed}"


def _img(image: Image, kind: str, alt: str) -> str:
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    size = f'width="{image.width}" height="{image.height}"'
    return f'<img class="{kind}" {size} alt="{escape(alt)}" src="data:image/png;base64,{data}">'
