"""Peak memory over the plain picture's, and whether what stays grows. Must not import mflux."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

import teacache
from teacache.bench.paired import Verdict
from teacache.bench.speed import ONE, Subject, wrapping
from teacache.plugins import find_adapter
from teacache.steering import MeasuringRun, steered, target_tokens
from teacache.velocity import VelocityRun

STEPS = 5
REPEATS = 8
"""Of each way, in turns: the peak of one and the same picture wanders by up to 2 MiB on the CPU, with how far the
dispatch of operations runs ahead of the workers that free what they read. The least of the repetitions is what is
needed."""
RUNS = 50
SLACK = 64 * 1024
"""What is let pass above the stated bytes: scalars, and the order in which the workers free small arrays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """What a way of drawing keeps.

    Attributes:
        model: which, as the tables show it.
        way: of drawing.
        extra: bytes of the peak above the plain picture's; the least of some repetitions of both.
        stated: bytes that are stated for it; None where only the measurement says.
        why: what they are made of.
    """

    model: str
    way: str
    extra: int
    stated: int | None
    why: str

    @property
    def verdict(self) -> Verdict | None:
        """Whether it keeps no more than is stated."""
        if self.stated is None:
            return None
        return "met" if self.extra <= self.stated + SLACK else "missed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Bytes of what is kept.

    Attributes:
        residual: of one branch: target tokens x width.
        signal: of one step.
        velocity: what the scheduler steps with.
        branches: of a step.
    """

    residual: int
    signal: int
    velocity: int
    branches: int


def peaks(subject: Subject, sizes: Sizes) -> list[Peak]:
    """Measures the peaks of a model's pictures, drawn in each way."""
    model = subject.deep if subject.short is None else subject.short
    residuals = sizes.residual * sizes.branches
    linear = {"coefficients": ONE, "threshold": 1.5, "reconstruction": "linear"}
    recording: Callable[[Any], Any] = lambda model: steered(model, lambda info: VelocityRun(info, record=True))  # noqa: E731
    ways: list[tuple[str, int | None, str, Callable[[Any], AbstractContextManager[Any]]]] = [
        ("threshold 0", 0, "nothing", wrapping({"threshold": 0.0})),
        (
            "gate, reuse",
            residuals + sizes.signal,
            "one residual a branch, one signal",
            wrapping({"coefficients": ONE, "threshold": 1.5}),
        ),
        ("gate, linear", 2 * residuals + sizes.signal, "two residuals a branch, one signal", wrapping(linear)),
        ("plan", 2 * sizes.velocity, "two velocities", wrapping({"plan": range(0, STEPS, 2)})),
        ("recording", 2 * sizes.velocity, "two velocities; all others outside MLX", recording),
        ("calibrating", None, "outputs and signals of two steps, and their differences", _measuring),
    ]
    extra = over_plain(model, lambda: subject.draw(model, STEPS), [wrap for *_, wrap in ways])
    return [
        Peak(model=subject.name, way=way, extra=more, stated=stated, why=why)
        for (way, stated, why, _), more in zip(ways, extra, strict=True)
    ]


def over_plain(
    model: Any, draw: Callable[[], Any], wraps: Sequence[Callable[[Any], AbstractContextManager[Any]]]
) -> list[int]:
    """Returns by how much each way's peak lies above the plain one's: the least of `REPEATS` of either, in turns."""
    draw()
    found: list[list[int]] = [[] for _ in range(len(wraps) + 1)]
    for _ in range(REPEATS):
        for of_way, wrap in zip(found, (nullcontext, *wraps), strict=True):
            with wrap(model):
                of_way.append(peak_of(draw))
    plain, *others = map(min, found)
    return [least - plain for least in others]


def growth(model: Any, draw: Callable[[Any, int], Any], *, runs: int = RUNS) -> int:
    """Draws many pictures of changing sizes with one wrapped model, and returns by how many bytes what stays grows.

    Args:
        model: a pipeline.
        draw: makes a picture of a side in pixels, (pipeline, side) to whatever.
        runs: how many, at least six.
    """
    sides = (128, 192, 256)
    left: dict[int, list[int]] = {side: [] for side in sides}
    with teacache.wrap(model, coefficients=ONE, threshold=1.5):
        for run in range(runs):
            side = sides[run % len(sides)]
            draw(model, side)
            mx.clear_cache()
            left[side].append(mx.get_active_memory())
    return max(found[-1] - found[0] for found in left.values())


def _measuring(model: Any) -> AbstractContextManager[Any]:
    adapter, _ = find_adapter(model)
    return steered(model, lambda info: MeasuringRun(info, target=target_tokens(adapter, info)))


def peak_of(draw: Callable[[], Any]) -> int:
    """Returns by how many bytes MLX's memory rises while something is drawn."""
    mx.synchronize()
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    draw()
    return int(mx.get_peak_memory()) - int(before)
