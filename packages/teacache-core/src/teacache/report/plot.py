"""Draws curves as a PNG. Needs pillow. Imports neither mlx nor mflux."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from teacache.errors import MissingDependencyError

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont

INK = (32, 36, 44)
GREY = (112, 120, 132)
LINE = (226, 229, 234)
COLOURS = (
    (190, 30, 45), (38, 84, 148), (90, 160, 220), (230, 140, 30), (120, 80, 160), (20, 20, 20), (130, 130, 130),
    (60, 140, 80), (160, 120, 60),
)  # fmt: skip

WIDTH, HEIGHT = 460, 330
LEFT, TOP, RIGHT, BOTTOM = 58, 44, 16, 46
LEGEND_ROW = 20
ACROSS = 2


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes.

    Attributes:
        title: above it.
        curves: points (x, y) by the curve's name; a name has the same colour in every panel.
    """

    title: str
    curves: dict[str, list[tuple[float, float]]]


def plot(panels: Sequence[Panel], *, x: str, y: str) -> Image:
    """Draws panels two abreast, with one legend below. The first curve of all is drawn thicker than the others.

    Args:
        panels: at least one, with at least one point in all.
        x: what the horizontal axes show.
        y: what the vertical axes show.

    Raises:
        MissingDependencyError: pillow is not installed.
    """
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise MissingDependencyError(
            "Drawing needs pillow, which is not installed. Run: pip install 'teacache-core[quality]'"
        ) from error
    names = list(dict.fromkeys(name for panel in panels for name in panel.curves))
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    across = min(ACROSS, len(panels))
    rows, legend = math.ceil(len(panels) / across), math.ceil(len(names) / (2 * across))
    picture = Image.new("RGB", (across * WIDTH, rows * HEIGHT + (legend + 1) * LEGEND_ROW), "white")
    draw = ImageDraw.Draw(picture)
    for number, panel in enumerate(panels):
        _panel(draw, panel, (number % across * WIDTH, number // across * HEIGHT), colours, x, y)
    for number, name in enumerate(names):
        left = LEFT + number % (2 * across) * (WIDTH - LEFT // across) // 2
        top = rows * HEIGHT + number // (2 * across) * LEGEND_ROW + 4
        draw.line((left, top + 8, left + 22, top + 8), colours[name], 4 if number == 0 else 2)
        draw.text((left + 28, top), name, INK, _font(13))
    return picture


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Returns round numbers within a range."""
    span = max(high - low, 1e-9)
    size: float = 10 ** math.floor(math.log10(span / about))
    step = next(size * factor for factor in (1, 2, 5, 10) if span / (size * factor) <= about)
    first = math.ceil(low / step)
    return [round(number * step, 10) for number in range(first, math.floor(high / step) + 1)]


def _panel(
    draw: ImageDraw,
    panel: Panel,
    corner: tuple[int, int],
    colours: dict[str, tuple[int, int, int]],
    x: str,
    y: str,
) -> None:
    points = [point for curve in panel.curves.values() for point in curve]
    x_low, x_high = _range([point[0] for point in points])
    y_low, y_high = _range([point[1] for point in points])
    left, top, right, bottom = corner[0] + LEFT, corner[1] + TOP, corner[0] + WIDTH - RIGHT, corner[1] + HEIGHT - BOTTOM

    def at(point: tuple[float, float]) -> tuple[float, float]:
        return (
            left + (point[0] - x_low) / (x_high - x_low) * (right - left),
            bottom - (point[1] - y_low) / (y_high - y_low) * (bottom - top),
        )

    draw.text((left, corner[1] + 12), panel.title, INK, _font(16))
    for value in ticks(y_low, y_high):
        level = at((x_low, value))[1]
        draw.line((left, level, right, level), LINE)
        draw.text((left - 8, level), f"{value:g}", GREY, _font(12), anchor="rm")
    for value in ticks(x_low, x_high):
        place = at((value, y_low))[0]
        draw.line((place, bottom, place, bottom + 4), GREY)
        draw.text((place, bottom + 6), f"{value:g}", GREY, _font(12), anchor="ma")
    draw.line((left, bottom, right, bottom), GREY)
    draw.text(((left + right) / 2, bottom + 24), x, GREY, _font(13), anchor="ma")
    draw.text((corner[0] + 8, top - 10), y, GREY, _font(12), anchor="lm")
    for number, (name, colour) in reversed(list(enumerate(colours.items()))):
        curve = [at(point) for point in sorted(panel.curves.get(name, []))]
        if len(curve) > 1:
            draw.line(curve, colour, 4 if number == 0 else 2, joint="curve")
        for px, py in curve:
            draw.ellipse((px - 3, py - 3, px + 3, py + 3), colour)


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    margin = 0.06 * (high - low) or 1.0
    return low - margin, high + margin


@cache
def _font(size: int) -> FreeTypeFont:
    from PIL import ImageFont

    return ImageFont.load_default(size=size)  # type: ignore[return-value]
