"""Draws pairs as one picture: plain, wrapped, their difference, and what was done at each step.

Needs pillow. Imports neither mlx nor mflux.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from teacache.errors import MissingDependencyError
from teacache.report.difference import amplification, difference
from teacache.report.pair import Pair, Section
from teacache.stats import RunStats

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont

TILE = 256
GAP = 24
MARGIN = 40
WIDTH = 2 * MARGIN + 3 * TILE + 2 * GAP

INK = (32, 36, 44)
GREY = (112, 120, 132)
LINE = (222, 226, 232)
COMPUTED = (38, 84, 148)
REUSED = (205, 222, 243)
REUSED_EDGE = (150, 180, 216)

HEADER = 116
SECTION = 80
COLUMNS = 30
PROMPT = 34
TIMELINE = 60
ROW = PROMPT + TILE + TIMELINE + 20
FOOTER = 20


def contact_sheet(sections: Sequence[Section]) -> Image:
    """Draws all pairs of all models.

    Args:
        sections: one per model, at least one, each with its pairs.

    Raises:
        MissingDependencyError: pillow is not installed.
    """
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise MissingDependencyError(
            "Drawing needs pillow, which is not installed. Run: pip install 'teacache-core[quality]'"
        ) from error
    pairs = [pair for section in sections for pair in section.pairs]
    height = HEADER + len(sections) * (SECTION + COLUMNS) + len(pairs) * ROW + FOOTER
    sheet = Image.new("RGB", (WIDTH, height), "white")
    draw = ImageDraw.Draw(sheet)
    _header(draw, [pair.run for pair in pairs])
    top = HEADER
    factor = amplification((pair.plain, pair.wrapped) for pair in pairs)
    for section in sections:
        top = _section_head(draw, section, top, factor)
        for pair in section.pairs:
            _row(sheet, draw, pair, top, factor)
            top += ROW
    return sheet


def reusing(runs: Sequence[RunStats]) -> str:
    """Says what happened on the reused steps: a plan does not call the model at all, a gate runs a little of it."""
    reused = [record for run in runs for record in run.records if record.action == "reuse"]
    if reused and all(record.branches == 0 for record in reused):
        return "the model was not called"
    return "the model's blocks did not run"


def _header(draw: ImageDraw, runs: Sequence[RunStats]) -> None:
    draw.text((MARGIN, 32), "The same pictures, with and without teacache", INK, _font(28))
    left = MARGIN
    for reused, text in ((False, "step computed"), (True, f"step reused: {reusing(runs)}")):
        _cell(draw, (left, 82, left + 14, 96), reused=reused)
        draw.text((left + 21, 80), text, GREY, _font(15))
        left += 45 + round(_font(15).getlength(text))
    draw.text((left + 8, 80), "each bar: from noise to picture", GREY, _font(15))


def _section_head(draw: ImageDraw, section: Section, top: int, factor: int) -> int:
    draw.line((MARGIN, top, WIDTH - MARGIN, top), LINE)
    draw.text((MARGIN, top + 12), section.title, INK, _font(19))
    for line, text in enumerate(section.details):
        draw.text((MARGIN, top + 38 + 18 * line), _fitted(text, 13, WIDTH - 2 * MARGIN), GREY, _font(13))
    top += SECTION
    for column, title in enumerate(("plain", "with teacache", f"difference x{factor} (white: equal)")):
        draw.text((_left(column), top + 8), title, GREY, _font(15))
    return top + COLUMNS


def _row(sheet: Image, draw: ImageDraw, pair: Pair, top: int, factor: int) -> None:
    draw.text((MARGIN, top + 8), _fitted(pair.prompt, 17, WIDTH - 2 * MARGIN), INK, _font(17))
    top += PROMPT
    for column, picture in enumerate((pair.plain, pair.wrapped, difference(pair.plain, pair.wrapped, factor))):
        left = _left(column)
        sheet.paste(_tile(picture), (left, top))
        draw.rectangle((left - 1, top - 1, left + TILE, top + TILE), outline=LINE)
    top += TILE + 12
    _timeline(draw, pair.run, (MARGIN, top, _left(2) - GAP, top + 16))
    draw.text((MARGIN, top + 22), _summary(pair.run), GREY, _font(14))
    draw.text((_left(2), top + 1), _likeness(pair), GREY, _font(14))


def _timeline(draw: ImageDraw, run: RunStats, box: tuple[int, int, int, int]) -> None:
    left, top, right, bottom = box
    steps = len(run.records)
    space = 2 if steps <= 60 else 0
    for index, record in enumerate(run.records):
        start = left + round(index * (right - left + space) / steps)
        end = left + round((index + 1) * (right - left + space) / steps) - space
        _cell(draw, (start, top, max(start + 1, end), bottom), reused=record.action == "reuse")


def _cell(draw: ImageDraw, box: tuple[int, int, int, int], *, reused: bool) -> None:
    left, top, right, bottom = box
    draw.rectangle((left, top, right - 1, bottom - 1), REUSED if reused else COMPUTED, REUSED_EDGE if reused else None)


def _summary(run: RunStats) -> str:
    if not run.reused:
        return _fitted(f"no step reused: {run.why_nothing or 'the gate asked for none'}", 14, 2 * TILE + GAP)
    counts = f"{run.computed} of {len(run.records)} steps computed, {run.reused} reused"
    return f"{counts}: {run.speedup_estimate:.1f}x estimated"


def _likeness(pair: Pair) -> str:
    if pair.psnr == float("inf"):
        return "equal in every pixel"
    return f"SSIM {pair.ssim:.3f}   PSNR {pair.psnr:.1f} dB"


def _tile(picture: Image) -> Image:
    """The picture in the middle of a square tile; its sides keep their ratio."""
    from PIL import Image

    scale = TILE / max(picture.size)
    size = max(1, round(picture.width * scale)), max(1, round(picture.height * scale))
    scaled = picture.convert("RGB").resize(size, Image.Resampling.BICUBIC if scale > 1 else Image.Resampling.LANCZOS)
    if size == (TILE, TILE):
        return scaled
    tile = Image.new("RGB", (TILE, TILE), "white")
    tile.paste(scaled, ((TILE - size[0]) // 2, (TILE - size[1]) // 2))
    return tile


def _left(column: int) -> int:
    return MARGIN + column * (TILE + GAP)


@cache
def _font(size: int) -> FreeTypeFont:
    from PIL import ImageFont

    return ImageFont.load_default(size=size)  # type: ignore[return-value]


def _fitted(text: str, size: int, width: int) -> str:
    """The text on one line, its end cut off where it would leave the sheet."""
    text = " ".join(text.split())
    if _font(size).getlength(text) <= width:
        return text
    while text and _font(size).getlength(text + "...") > width:
        text = text[:-1]
    return text.rstrip() + "..."
