"""How the cost of the cache goes with tokens and blocks. Must not import mflux."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from teacache.bench.speed import Subject, measure
from teacache.bench.speed_rows import Row
from teacache.bench.subjects import draw, small_pipeline

FAMILY = "flux2"
BLOCKS = (4, 8, 16)
SIDES = (128, 256, 384)
"""Pixels; a token is 16 x 16 of them."""


def scaling(
    seconds: float, *, width: int, blocks: int, side: int, said: Callable[[str], None] = lambda doing: None
) -> Iterator[Row]:
    """Yields the rows of one family at other numbers of blocks, and at other numbers of tokens.

    Args:
        seconds: for all of it, about.
        width: of the models.
        blocks: of the models whose tokens vary.
        side: of the pictures of those whose blocks vary, in pixels.
        said: told what is done.
    """
    sizes = [*((count, side) for count in BLOCKS), *((blocks, pixels) for pixels in SIDES if pixels != side)]
    short = small_pipeline(FAMILY, width=width, blocks=2)
    for count, pixels in sizes:
        name = f"{FAMILY}, {count} blocks, {(pixels // 16) ** 2} tokens"

        def make(model: Any, steps: int, pixels: int = pixels) -> Any:
            return draw(model, steps, side=pixels, guidance=1.0)

        subject = Subject(name=name, deep=small_pipeline(FAMILY, width=width, blocks=count), short=short, draw=make)
        for row in measure(subject, seconds / len(sizes), said, brief=True):
            if (row.unit, row.figure) in {("overhead", "gate, never"), ("cost", "gate"), ("cost", "plan")}:
                yield replace(row, target=None)
