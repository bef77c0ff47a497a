"""What plans are compared with: other ways to spend the same model calls. Must not import mflux."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import mlx.core as mx
import numpy as np

from teacache.policies.kernel import Matrix
from teacache.policies.plan import Plan, plan_given
from teacache.run import RunInfo
from teacache.velocity import VelocityRun


def uniform_plan(steps: int, computed_steps: int) -> Plan:
    """Returns evenly spaced computed steps with c = 1/4, MeanCache's correction with window 2 (arXiv:2601.19961)."""
    return plan_given([round(float(step)) for step in np.linspace(0, steps - 1, computed_steps)], steps)


def step_cache_plan(sigmas: Sequence[float], computed_steps: int) -> Plan:
    """Returns the steps that mflux's StepCache computes, with plain reuse of the last velocity on the others.

    Its rule (mflux 0.24, `mflux.models.common.step_cache`, default signal): the steps whose sigma lies nearest to the
    one before are left out, but none of the first and the last tenth of the run.

    Args:
        sigmas: N + 1 noise levels.
        computed_steps: how many steps are to be computed; the protected ones may be more.
    """
    steps = len(sigmas) - 1
    signal = np.asarray(sigmas[:-1], dtype=np.float32)
    change = np.concatenate([[np.inf], np.abs(np.diff(signal))])
    protected = int(steps * 0.1)
    eligible = range(max(protected, 1), steps - protected) if steps >= 10 else range(0)
    left_out = sorted(eligible, key=lambda step: change[step])[: steps - computed_steps]
    computed = tuple(step for step in range(steps) if step not in left_out)
    return Plan(computed, (0.0,) * len(computed))


def left_in_latents(plan: Plan, products: Matrix, sigmas: Sequence[float]) -> float:
    """Returns the error that a plan's gaps leave, summed up, where the velocities have these inner products.

    What `plan_from_kernel` makes least for the kernel that it plans from, here for any other.
    """
    delta, total = np.diff(sigmas), 0.0
    for position, j in enumerate(plan.computed[:-1]):
        missed = np.zeros(len(products))
        for k in range(j + 1, plan.computed[position + 1]):
            missed[k] += delta[k]
            missed[j] -= delta[k]
            if position:
                i = plan.computed[position - 1]
                carried = delta[k] * plan.coefficients[position] * (sigmas[k] - sigmas[j]) / (sigmas[j] - sigmas[i])
                missed[j] -= carried
                missed[i] += carried
        total += math.sqrt(max(float(missed @ products @ missed), 0.0))
    return total


@dataclass(frozen=True, slots=True)
class PublishedPlan:
    """One of MeanCache's published lists.

    Attributes:
        computed: the steps on which the model runs.
        window: per gap between two computed steps, how many logged steps its correction looks back over.
    """

    computed: tuple[int, ...]
    window: tuple[int, ...]


def published_plans(model: str) -> dict[int, PublishedPlan]:
    """Returns MeanCache's published lists of a model for 50 steps, by the number of computed steps."""
    text = (files("teacache.bench") / "data" / "meancache_plans.json").read_text(encoding="utf-8")
    lists: dict[str, dict[str, list[int]]] = json.loads(text)["plans"][model]
    return {int(count): PublishedPlan(tuple(x["computed"]), tuple(x["window"])) for count, x in lists.items()}


class MultistepRun(VelocityRun):
    """Takes the computed steps of a plan as the grid of a second-order multistep solver (Adams-Bashforth 2).

    From grid point j to the next, with the one before it i: ``v_j + h' / (2 h) * (v_j - v_i)``, h and h' the lengths
    in sigma of the last and of this stretch; the first stretch is an Euler step.
    """

    def __init__(self, info: RunInfo, *, plan: Plan) -> None:
        super().__init__(info, plan=plan)
        ends = [*plan.computed[1:], info.steps]
        self._next = dict(zip(plan.computed, ends, strict=True))

    def velocity(self, predicted: mx.array) -> mx.array:
        """See `Run.velocity`."""
        super().velocity(predicted)
        return self._carried(predicted)

    def _carried(self, predicted: mx.array) -> mx.array:
        sigmas = self.info.active_sigmas
        j, last = self._computed[-1]
        wide = last.astype(mx.float32)
        if len(self._computed) > 1:
            i, before = self._computed[0]
            ratio = (sigmas[self._next[j]] - sigmas[j]) / (sigmas[j] - sigmas[i])
            wide = wide + 0.5 * ratio * (wide - before.astype(mx.float32))
        return wide.astype(predicted.dtype)


class MeanCacheRun(VelocityRun):
    """Follows one of MeanCache's published lists with its correction (arXiv:2601.19961, Apache-2.0 code).

    On a step k that is left out, with the log entry a `window` entries back (carried steps are logged too):
    ``u = (x_k - x_a) / (s_k - s_a)``, ``J = (v_a - u) / (s_k - s_a)``, and the velocity is that of the step before
    minus ``J * (s_{k+1} - s_k)``. The latents differ by the velocities taken, so none are kept.
    """

    def __init__(self, info: RunInfo, *, published: PublishedPlan) -> None:
        super().__init__(info, plan=plan_given(published.computed, info.steps, coefficient=0.0))
        gaps = zip(itertools.pairwise(published.computed), published.window, strict=True)
        self._window = {step: window for (start, end), window in gaps for step in range(start + 1, end)}
        self._log: list[mx.array] = []

    def velocity(self, predicted: mx.array) -> mx.array:
        """See `Run.velocity`."""
        taken = super().velocity(predicted)
        self._log.append(taken.astype(mx.float32))
        return taken

    def close(self) -> None:
        """See `Run.close`."""
        super().close()
        self._log = []

    def _carried(self, predicted: mx.array) -> mx.array:
        k, sigmas = len(self._log), self.info.active_sigmas
        a = max(0, k - self._window[k])
        way: Any = sum((sigmas[step + 1] - sigmas[step]) * self._log[step] for step in range(a, k))
        span = sigmas[k] - sigmas[a]
        turn = (self._log[a] - way / span) / span
        return (self._log[-1] - turn * (sigmas[k + 1] - sigmas[k])).astype(predicted.dtype)
