"""What the frontier benchmark measures: its settings, its methods, one row for each picture. Imports numpy only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from teacache.testing.toys.scenes import random_scene

EQUAL = 99.0
"""What equal pictures count, and the most that any counts, in dB."""

PLAIN = "plain"
PLAN = "plan"
OWN_PLAN = "plan, own recording"
PLAN_BARE = "plan, not corrected"
GATE = "gate, reuse"
GATE_LINEAR = "gate, linear"
STEP_CACHE = "StepCache rule"
UNIFORM = "uniform, c = 1/4"
FEWER = "fewer steps"
EVEN_AB2 = "even grid, AB2"
PLAN_AB2 = "plan's grid, AB2"
MEANCACHE = "MeanCache's list"

METHODS = (PLAN, PLAN_BARE, GATE, GATE_LINEAR, STEP_CACHE, UNIFORM, FEWER, EVEN_AB2, PLAN_AB2)

FINE = 4
"""The second reference has this many times the steps."""

PUBLISHED_STEPS = 50
"""What MeanCache's published lists are for."""

TRANSFER = {20: (10, 6), PUBLISHED_STEPS: (25, 17)}
"""Step counts that a kernel recorded at another count plans, with the counts of computed steps."""

LISTS = {"zimage": "z-image-base"}
"""The family's model among MeanCache's lists; Qwen-Image's for the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is measured.

    Attributes:
        prompts: random scenes, none of which is recorded.
        seeds: pictures of each.
        steps: of the plain picture.
        speeds: plain steps over computed steps.
        guidance: strength of guidance.
        polynomial_prompts: other scenes that the gate's polynomial is fitted on. The plan is made from the first.
        transfer: also plan other step counts.
    """

    prompts: int = 5
    seeds: int = 2
    steps: int = 30
    speeds: tuple[float, ...] = (1.5, 2.0, 3.0, 4.0)
    guidance: float = 2.0
    polynomial_prompts: int = 4
    transfer: bool = True

    def counts(self) -> list[int]:
        """Returns the numbers of computed steps."""
        return [math.floor(self.steps / speed) for speed in self.speeds]


@dataclass(frozen=True, slots=True)
class Case:
    """One pair of prompt and seed."""

    prompt: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One picture, compared with two references of its pair.

    Attributes:
        toy: the family.
        prompt: the scene.
        seed: of the noise.
        steps: of the plain picture that it stands for.
        asked: computed steps that were asked for.
        method: how they were chosen and what stands in for the others.
        computed: steps on which the model ran.
        seconds: wall time of the denoising loop.
        psnr: against the plain picture of `steps` steps, in dB, before the values are rounded to 8 bits; at most
            `EQUAL`.
        ssim: against the same, of the 8-bit pictures.
        fine_psnr: against the fine reference.
        fine_ssim: against the same.
        expected_error: of a plan.
        grown: of a plan: the picture's error over what the gaps leave in the latents, by this very run's kernel. Its
            scale is the toy's own: compare it between pairs.
    """

    toy: str
    prompt: str
    seed: int
    steps: int
    asked: int
    method: str
    computed: int
    seconds: float
    psnr: float
    ssim: float
    fine_psnr: float
    fine_ssim: float
    expected_error: float | None = None
    grown: float | None = None


def cases(settings: Settings) -> tuple[list[Case], list[Case]]:
    """Returns the cases to record and those to compare: random scenes, the same at every call, none twice."""
    rng = np.random.default_rng(11)
    texts: dict[str, None] = {}
    while len(texts) < settings.polynomial_prompts + settings.prompts:
        texts[random_scene(rng).prompt] = None
    drawn = list(texts)
    recorded = [Case(text, seed) for seed, text in enumerate(drawn[: settings.polynomial_prompts])]
    pairs = itertools.product(drawn[settings.polynomial_prompts :], range(settings.seeds))
    return recorded, [Case(text, 100 + number) for number, (text, _) in enumerate(pairs)]


def lost(rows: Sequence[Row], steps: int, asked: int) -> bool:
    """Tells whether the plan of one case is not better than fewer steps against both references."""
    plan, fewer = (
        next(row for row in rows if (row.steps, row.asked, row.method) == (steps, asked, method))
        for method in (PLAN, FEWER)
    )
    return plan.psnr <= fewer.psnr or plan.fine_psnr <= fewer.fine_psnr
