"""Compares with other caches on all models, one after the other. Must not import mflux."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import version
from typing import Any

import numpy as np

from teacache.bench.frontier import made_with
from teacache.bench.memory import STEPS, over_plain
from teacache.bench.peers import COMPILED, HALF, NEVER, PEER, SECOND, applied, compare, named
from teacache.bench.peers_page import PeersReport
from teacache.bench.peers_pictures import STEPS as PICTURE_STEPS
from teacache.bench.peers_pictures import pictures
from teacache.bench.speed import Subject, wrapping
from teacache.bench.subjects import subjects
from teacache.testing import toy_pipeline
from teacache.testing.spies import expected_warnings

Wrap = Callable[[Any], AbstractContextManager[Any]]


def run(
    families: Sequence[str],
    *,
    seconds: float,
    width: int,
    blocks: int,
    side: int,
    count: int,
    said: Callable[[str], None] = lambda doing: None,
) -> PeersReport:
    """Measures everything.

    Args:
        families: whose models and toys.
        seconds: for the times of each model, about.
        width: of the models.
        blocks: of the models.
        side: of their pictures in pixels.
        count: pictures of each toy.
        said: told what is done.

    Raises:
        MissingDependencyError: mlx-teacache is not installed.
    """
    applied()
    comparisons, exactness, memory, wrapped, worth = [], [], [], [], []
    with expected_warnings():
        for subject in subjects(families, width=width, blocks=blocks, side=side):
            family = subject.name.partition(",")[0]
            named(subject.deep, family), named(subject.short, family)
            times, exact = compare(subject, seconds, said)
            comparisons += times
            exactness.append(exact)
            if family in COMPILED:
                comparisons += compare(subject, seconds, said, eager=True)[0]
            said(f"{subject.name}: memory")
            memory.append((subject.name, *_memory(subject)))
            wrapped.append((subject.name, *_wrapping(subject)))
        for family in families:
            worth += pictures(
                family, toy_pipeline(family), computed=PICTURE_STEPS // 2, count=count, peer=True, said=said
            )
    settings = {"seconds": seconds, "toys": families, "width": width, "blocks": blocks, "side": side, "pictures": count}
    return PeersReport(
        made_with=f"{PEER} {version(PEER)}, {made_with(families, weights=False)}",
        date=datetime.date.today().isoformat(),
        settings=settings,
        comparisons=comparisons,
        exactness=exactness,
        memory=memory,
        wrapping=wrapped,
        pictures=worth,
    )


def _memory(subject: Subject) -> tuple[int, int]:
    ours, theirs = over_plain(
        subject.short,
        lambda: subject.draw(subject.short, STEPS),
        [wrapping({"coefficients": HALF, "threshold": SECOND}), applied(coefficients=HALF, rel_l1_thresh=SECOND)],
    )
    return ours, theirs


def _wrapping(subject: Subject, times: int = 20) -> tuple[float, float]:
    """Milliseconds of wrapping and restoring, by turns."""
    ways: tuple[Wrap, Wrap] = (
        wrapping({"coefficients": HALF, "threshold": NEVER}),
        applied(coefficients=HALF, rel_l1_thresh=NEVER),
    )
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(times + 1):
        for wrap, taken in zip(ways, found, strict=True):
            start = time.perf_counter()
            with wrap(subject.short):
                pass
            taken.append(1e3 * (time.perf_counter() - start))
    ours, theirs = (float(np.median(taken[1:])) for taken in found)
    return ours, theirs
