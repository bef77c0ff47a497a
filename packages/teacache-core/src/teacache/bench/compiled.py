"""What compiling the blocks of a family would gain that mflux runs eagerly. Measured only: `wrap` does not do it.

Must not import mflux.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
import numpy as np

from teacache.bench.lockstep import Way, in_lockstep
from teacache.bench.paired import ratio
from teacache.bench.speed import Subject, rounds, step_seconds
from teacache.bench.speed_rows import WARM, Row
from teacache.plugins import find_adapter

EAGER = ("flux1",)
"""Families whose forward mflux does not compile, because it reads numbers out of arrays, and whose blocks could be.
Qwen-Image's cannot: its attention reads the mask in every block (``if mx.all(joint_mask >= 0.999)``, mflux 0.24)."""

COMPILED = "blocks compiled"
FIRST = "first step, blocks compiled"


@contextmanager
def compiled_blocks(model: Any) -> Iterator[None]:
    """Has each block of a pipeline's transformer compiled, for as long as the context is open."""
    adapter, _ = find_adapter(model)
    transformer = model.transformer
    before = {name: transformer[name] for name in adapter.body.blocks}
    try:
        for name, blocks in before.items():
            transformer[name] = [mx.compile(block) for block in blocks]
        yield
    finally:
        for name, blocks in before.items():
            transformer[name] = blocks


def compiling(
    subject: Subject, seconds: float, said: Callable[[str], None] = lambda doing: None
) -> tuple[list[Row], float]:
    """Compares plain pictures with and without compiled blocks.

    Returns:
        A step's time over a plain one's, and the first step's, which compiles, over a plain later one's; and by how
        much the last latents differ at most.
    """
    said(f"{subject.name}: compiled blocks")
    count = rounds(seconds, step_seconds(subject, subject.deep), 2)
    drawn = in_lockstep(
        [Way(name="plain"), Way(name=COMPILED, wrap=compiled_blocks)],
        subject.deep,
        lambda model: subject.draw(model, count),
        steps=count,
    )
    plain, compiled = drawn["plain"], drawn[COMPILED]
    wall = ratio(compiled.wall[WARM:], plain.wall[WARM:])
    cpu = ratio(compiled.cpu[WARM:], plain.cpu[WARM:])
    whole = np.full(1, np.median(plain.wall[WARM:])), np.full(1, np.median(plain.cpu[WARM:]))
    first = ratio(compiled.wall[:1], whole[0]), ratio(compiled.cpu[:1], whole[1])
    rows = [
        Row(model=subject.name, figure=COMPILED, unit="cost", wall=wall, cpu=cpu, steps=wall.pairs),
        Row(model=subject.name, figure=FIRST, unit="cost", wall=first[0], cpu=first[1], steps=1),
    ]
    return rows, float(np.abs(compiled.latents - plain.latents).max())
