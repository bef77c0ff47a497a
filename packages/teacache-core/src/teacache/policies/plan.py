"""Plans: which steps to compute, chosen before the run. Numbers in, step indices out. Imports numpy only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from teacache.errors import PlanError
from teacache.policies.correction import Correction, corrections

CLIP = (-0.5, 1.5)
"""Range of the fitted coefficient of a gap: 0 holds the velocity, 1 extends it on a line in sigma."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which steps a run computes, and how it carries the velocity over the others.

    On a step k behind the computed steps i < j the velocity is ``v_j + c * r * (v_j - v_i)`` with
    ``r = (s_k - s_j) / (s_j - s_i)`` and c the coefficient of the gap. The computed step m behind the gap is taken
    with ``v_m + (a * (v_m - v_j) + b * (v_j - v_i)) / ds_m``, a and b the gap's correction.

    Attributes:
        computed: indices of the computed steps within the run, rising, first and last step included.
        coefficients: one c per computed step, for the gap behind it; 0 where there is no gap.
        expected_error: sum over the gaps of the error that each leaves in the latents, relative to the latents' way
            along one unit of sigma (root mean square of the velocity), before it is corrected; None where no kernel
            says.
        corrections: one pair (a, b) per computed step, for the gap behind it; empty where no kernel says.
    """

    computed: tuple[int, ...]
    coefficients: tuple[float, ...]
    expected_error: float | None = None
    corrections: tuple[Correction, ...] = ()


def fewest_computed(steps: int, max_reuse: int) -> int:
    """Returns how few steps can be computed: the first, the last, and one behind every `max_reuse` reused ones."""
    return min(steps, 1 + math.ceil((steps - 1) / (max_reuse + 1)))


def plan_all(steps: int) -> Plan:
    """Returns the plan that computes every step."""
    return Plan(tuple(range(steps)), (0.0,) * steps, 0.0)


def plan_from_kernel(
    products: NDArray[np.float64], sigmas: Sequence[float], *, computed_steps: int, max_reuse: int = 8
) -> Plan:
    """Picks the computed steps of least total gap error, at most `computed_steps` of them.

    The error of a gap behind the computed steps i < j, ``|sum_k ds_k (v_k - v̂_k)|``, and the coefficient that makes
    it least follow from the inner products alone; dynamic programming over (i, j) finds the best gaps.

    Args:
        products: N x N inner products of the velocities at the run's steps (`Kernel.at`).
        sigmas: N + 1 noise levels: each step's start, and the last step's end.
        computed_steps: how many steps may be computed.
        max_reuse: most steps in a row that are not computed.

    Returns:
        The plan. One with fewer computed steps is returned where it costs less.

    Raises:
        PlanError: the count cannot be had, or the sizes do not fit.
    """
    steps = _checked(len(sigmas) - 1, computed_steps, max_reuse)
    if products.shape != (steps, steps):
        raise PlanError(f"The kernel is {products.shape}, but the run has {steps} steps.")
    max_reuse = min(max_reuse, max(steps - 2, 0))
    errors, coefficients = _gaps(products, np.asarray(sigmas, dtype=np.float64), max_reuse)
    cost = np.full(errors.shape[:2], np.inf)
    cost[0, 0] = 0.0
    origins: list[NDArray[np.intp]] = []
    least, ending = np.inf, (0, 0)
    for count in range(1, computed_steps):
        # Over the distance to the computed step before j: the cheapest way to reach j and then j + 1 + gap.
        ways = cost[:, :, None] + errors
        origins.append(ways.argmin(axis=1))
        reached = ways.min(axis=1)
        cost = np.full_like(cost, np.inf)
        for gap in range(max_reuse + 1):
            cost[gap + 1 :, gap + 1] = reached[: steps - gap - 1, gap]
        distance = int(cost[-1].argmin())
        if cost[-1, distance] < least:
            least, ending = float(cost[-1, distance]), (count, distance)
    if not np.isfinite(least):
        return plan_all(steps)
    count, distance = ending
    step, way, used = steps - 1, [steps - 1], [0.0]
    for origin in reversed(origins[:count]):
        gap, step = distance - 1, step - distance
        distance = int(origin[step, gap])
        way.append(step)
        used.append(float(coefficients[step, distance, gap]))
    scale = math.sqrt(max(float(np.trace(products)) / steps, 1e-30))
    computed, factors = tuple(reversed(way)), tuple(reversed(used))
    return Plan(computed, factors, least / scale, corrections(products, sigmas, computed, factors))


def plan_given(computed: Sequence[int], steps: int, *, coefficient: float = 0.25) -> Plan:
    """Returns the plan of given computed steps.

    Args:
        computed: step indices; the first and the last step are added.
        steps: how many steps the run has.
        coefficient: c of every gap. 1/4 is MeanCache's correction for even steps (arXiv:2601.19961, window 2).

    Raises:
        PlanError: an index is not a step of the run.
    """
    wrong = [index for index in computed if isinstance(index, bool) or not 0 <= index < steps]
    if wrong:
        raise PlanError(f"plan= holds {wrong}, but the run has the steps 0 to {steps - 1}. Leave them out.")
    way = tuple(sorted({0, steps - 1, *(int(index) for index in computed)}))
    return Plan(way, (0.0, *(coefficient for _ in way[1:])))


def plan_from_curve(body_change: Sequence[float], *, computed_steps: int, max_reuse: int = 8) -> list[int]:
    """Picks the computed steps where only the body's change per step is known.

    The cost of a reused step is the square of the change summed up since the last computed one; the sum over the run
    is made least.

    Args:
        body_change: relative change of the body from each step to the next, N-1 numbers for N steps.
        computed_steps: how many steps are computed.
        max_reuse: most steps in a row that are reused.

    Returns:
        The indices of the computed steps, rising, first and last included.

    Raises:
        PlanError: the count cannot be had, or a change is negative or not finite.
    """
    changes = np.asarray(body_change, dtype=np.float64)
    if changes.ndim != 1 or not np.isfinite(changes).all() or (changes < 0).any():
        raise PlanError("body_change holds numbers that are negative or not finite; expected one change per step.")
    steps = _checked(len(changes) + 1, computed_steps, max_reuse)
    summed = np.concatenate([[0.0], np.cumsum(changes)])
    best: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, (0,))}
    for _ in range(1, computed_steps):
        reached: dict[int, tuple[float, tuple[int, ...]]] = {}
        for j, (cost, way) in best.items():
            for m in range(j + 1, min(steps, j + max_reuse + 2)):
                total = cost + float(((summed[j + 1 : m] - summed[j]) ** 2).sum())
                if m not in reached or total < reached[m][0]:
                    reached[m] = (total, (*way, m))
        best = reached
    return list(best[steps - 1][1])


def _checked(steps: int, computed_steps: int, max_reuse: int) -> int:
    fewest = fewest_computed(steps, max_reuse)
    if type(computed_steps) is not int or not fewest <= computed_steps <= steps:
        raise PlanError(
            f"computed_steps={computed_steps!r} of {steps} steps: expected a whole number from {fewest} "
            f"(at most {max_reuse} steps in a row are carried) to {steps}."
        )
    return steps


def _gaps(
    products: NDArray[np.float64], sigmas: NDArray[np.float64], max_reuse: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Error and best coefficient of every gap.

    Returns:
        Two arrays over [j, distance, gap]: the computed step before the gap, how far the computed step i before it
        lies (0: there is none, which only j = 0 has), how many steps the gap has. Impossible ones cost infinity.
    """
    steps, delta = len(products), np.diff(sigmas)
    errors = np.full((steps, max_reuse + 2, max_reuse + 1), np.inf)
    coefficients = np.zeros_like(errors)
    for j in range(steps):
        before = j - np.arange(1, min(j, max_reuse + 1) + 1)
        if j == 0:
            errors[0, 0, 0] = 0.0
        errors[j, 1 : len(before) + 1, 0] = 0.0
        turn = products[j, j] - 2 * products[j, before] + products[before, before]
        for gap in range(1, min(max_reuse, steps - 1 - j) + 1):
            inside = slice(j + 1, j + 1 + gap)
            ds = delta[inside]
            row, held = ds @ products[inside], ds.sum()
            # What holding v_j misses, and its inner products with the velocities.
            square = float(ds @ row[inside] - 2 * held * row[j] + held * held * products[j, j])
            if j == 0:
                errors[0, 0, gap] = math.sqrt(max(square, 0.0))
                continue
            slope = (ds * (sigmas[inside] - sigmas[j])).sum() / (sigmas[j] - sigmas[before])
            along = slope * ((row[j] - row[before]) - held * (products[j, j] - products[j, before]))
            extended = slope**2 * turn
            usable = extended > 1e-12 * products[j, j]
            c = np.where(usable, np.clip(along / np.where(usable, extended, 1.0), *CLIP), 0.0)
            left = square - 2 * c * along + c * c * extended
            errors[j, 1 : len(before) + 1, gap] = np.sqrt(np.maximum(left, 0.0))
            coefficients[j, 1 : len(before) + 1, gap] = c
    return errors, coefficients
