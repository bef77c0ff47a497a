"""The models of the speed benchmark: the families' own classes with random weights, or real weights. No mflux here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import mlx.core as mx

from teacache.bench.memory import Sizes
from teacache.bench.speed import Subject
from teacache.errors import UnknownModelError
from teacache.gated import GatedRun
from teacache.plugins import find_adapter
from teacache.run import Run, RunInfo
from teacache.steering import steered, target_tokens
from teacache.testing.toys.toy import fill_randomly, find_toy

PROMPT = "red circle left, blue square right, white background"
SHORT = 2
"""Blocks of the model that is cut: the least with one of each kind."""

TWO_BRANCHES = {"flux2", "zimage"}
"""Families whose guidance is a second branch that can be left out. FLUX.1's is inside the model, Qwen-Image always runs
both."""

BEHIND_FIRST_BLOCK = {"zimage"}
"""Families whose signal is read behind the first block."""


def small_pipeline(family: str, *, width: int, blocks: int) -> Any:
    """Returns a family's pipeline around a transformer of this size, with random weights in float32.

    Raises:
        UnknownModelError: the family's adapter brings none.
    """
    toy = find_toy(family)
    if toy.sized is None:
        raise UnknownModelError(
            f"The adapter {family!r} brings no model for benchmarks. Its author names one with Toy(sized=...)."
        )
    transformer = toy.sized(width, blocks)
    fill_randomly(transformer)
    return toy.pipeline(transformer)


def draw(model: Any, steps: int, *, side: int, guidance: float, prompt: str = PROMPT, seed: int = 1) -> Any:
    """Makes one picture by the pipeline's own `generate_image`."""
    return model.generate_image(
        seed=seed, prompt=prompt, num_inference_steps=steps, height=side, width=side, guidance=guidance
    )


def subjects(families: Sequence[str], *, width: int, blocks: int, side: int) -> Iterator[Subject]:
    """Yields what is measured of each family, one after the other: guidance off, and on where it is another branch."""
    for family in families:
        deep = small_pipeline(family, width=width, blocks=blocks)
        short = small_pipeline(family, width=width, blocks=SHORT)
        floor = small_pipeline(family, width=width, blocks=1) if family in BEHIND_FIRST_BLOCK else None
        for guidance in (1.0, 3.0) if family in TWO_BRANCHES else (3.0,):
            name = f"{family}, guidance {'on' if guidance > 1 else 'off'}" if family in TWO_BRANCHES else family

            def make(model: Any, steps: int, guidance: float = guidance) -> Any:
                return draw(model, steps, side=side, guidance=guidance)

            yield Subject(name=name, deep=deep, short=short, draw=make, floor=floor)


def sizes_of(subject: Subject) -> Sizes:
    """Returns the bytes of what the cache keeps of a subject's pictures, read off a run of the gate."""
    model = subject.deep if subject.short is None else subject.short
    adapter, _ = find_adapter(model)
    seen: list[_Looking] = []

    def make(info: RunInfo) -> Run:
        seen.append(_Looking(info, target=target_tokens(adapter, info), policy=None))
        return seen[-1]

    with steered(model, make):
        subject.draw(model, 2)
    return Sizes(**seen[-1].sizes)


class _Looking(GatedRun):
    """Looks at what a measuring run keeps, before it lets go of it."""

    def close(self) -> None:
        outputs = [array for stored in self._stored.values() for array in stored.outputs]
        if outputs and self._previous_signal is not None:
            self.sizes = {
                "residual": outputs[0].nbytes,
                "signal": self._previous_signal.nbytes,
                "branches": len(outputs),
                "velocity": self._latents,
            }
        super().close()

    def end_step(self, index: int, latents: mx.array | None = None) -> Any:
        self._latents = 0 if latents is None else latents.nbytes
        return super().end_step(index, latents)
