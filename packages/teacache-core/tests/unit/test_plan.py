"""The planner and the kernel: pure numbers, checked against a direct simulation."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teacache.errors import KernelError, PlanError
from teacache.policies.kernel import Kernel
from teacache.policies.plan import (
    Plan,
    fewest_computed,
    plan_all,
    plan_from_curve,
    plan_from_kernel,
    plan_given,
)

pytestmark = pytest.mark.unit


def schedule(steps: int) -> np.ndarray:
    """A shifted flow-matching schedule, N + 1 falling levels."""
    levels = np.linspace(1, 1 / steps, steps)
    return np.append(3 * levels / (1 + 2 * levels), 0.0)


def bent(steps: int, seed: int = 0) -> np.ndarray:
    """Velocities that bend along the schedule, N x 60."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.standard_normal((3, 60))
    return np.stack([a * np.sin(3 * t) + b * np.cos(5 * t) + c * t**3 for t in schedule(steps)[:-1]])


def simulated(plan: Plan, velocities: np.ndarray, sigmas: np.ndarray) -> float:
    """The summed gap errors of a plan, by carrying the velocities over one by one."""
    total = 0.0
    for at, (j, m) in enumerate(itertools.pairwise(plan.computed)):
        miss = np.zeros(velocities.shape[1])
        for k in range(j + 1, m):
            carried = velocities[j]
            if at:
                i = plan.computed[at - 1]
                ratio = (sigmas[k] - sigmas[j]) / (sigmas[j] - sigmas[i])
                carried = carried + plan.coefficients[at] * ratio * (velocities[j] - velocities[i])
            miss = miss + (sigmas[k + 1] - sigmas[k]) * (velocities[k] - carried)
        total += float(np.linalg.norm(miss))
    return total / float(np.sqrt((velocities**2).sum(axis=1).mean()))


@settings(max_examples=20)
@given(steps=st.integers(2, 30), share=st.floats(0.2, 1.0), seed=st.integers(0, 5))
def test_expected_error_is_what_carrying_leaves(steps: int, share: float, seed: int) -> None:
    """Red when the closed form and the reconstruction drift apart: a sign, an index, a coefficient of another gap."""
    sigmas, velocities = schedule(steps), bent(steps, seed)
    count = max(fewest_computed(steps, 8), round(share * steps))
    plan = plan_from_kernel(velocities @ velocities.T, sigmas, computed_steps=count)
    assert plan.expected_error == pytest.approx(simulated(plan, velocities, sigmas), rel=1e-4, abs=1e-6)


@settings(max_examples=20)
@given(steps=st.integers(2, 30), seed=st.integers(0, 5))
def test_more_computed_steps_never_cost_more(steps: int, seed: int) -> None:
    """Red when the planner returns a worse plan for a larger budget."""
    velocities = bent(steps, seed)
    costs = [
        plan_from_kernel(velocities @ velocities.T, schedule(steps), computed_steps=count).expected_error
        for count in range(fewest_computed(steps, 8), steps + 1)
    ]
    assert all(cost is not None for cost in costs)
    assert all(later <= earlier + 1e-12 for earlier, later in itertools.pairwise(costs))
    assert costs[-1] == 0


@settings(max_examples=20)
@given(steps=st.integers(2, 30), max_reuse=st.integers(1, 8), share=st.floats(0, 1))
def test_plans_keep_their_bounds(steps: int, max_reuse: int, share: float) -> None:
    """Red when first or last step is carried, a gap is longer than allowed, or more steps are computed than wished."""
    fewest = fewest_computed(steps, max_reuse)
    count = fewest + round(share * (steps - fewest))
    velocities = bent(steps)
    plan = plan_from_kernel(velocities @ velocities.T, schedule(steps), computed_steps=count, max_reuse=max_reuse)
    curve = plan_from_curve([1.0] * (steps - 1), computed_steps=count, max_reuse=max_reuse)
    assert len(curve) == count
    for computed in (list(plan.computed), curve):
        assert computed[0] == 0 and computed[-1] == steps - 1 and len(computed) <= count
        assert all(0 < later - earlier <= max_reuse + 1 for earlier, later in itertools.pairwise(computed))
    assert len(plan.coefficients) == len(plan.computed)


def test_a_straight_velocity_costs_nothing() -> None:
    """Red when the coefficient of a gap cannot follow a line in sigma."""
    a, b = np.random.default_rng(1).standard_normal((2, 40))
    straight = np.stack([a + b * sigma for sigma in schedule(30)[:-1]])
    plan = plan_from_kernel(straight @ straight.T, schedule(30), computed_steps=6)
    assert plan.expected_error == pytest.approx(0, abs=1e-6)


def test_best_of_all_plans() -> None:
    """Red when dynamic programming misses a cheaper plan that trying all of them finds."""
    steps, count = 9, 5
    velocities, sigmas = bent(steps, 3), schedule(steps)
    gram = velocities @ velocities.T
    plan = plan_from_kernel(gram, sigmas, computed_steps=count)
    cheapest = min(
        simulated(_fitted(gram, sigmas, (0, *inner, steps - 1)), velocities, sigmas)
        for size in range(count - 1)
        for inner in itertools.combinations(range(1, steps - 1), size)
    )
    assert plan.expected_error == pytest.approx(cheapest, rel=1e-6)


def _fitted(gram: np.ndarray, sigmas: np.ndarray, computed: tuple[int, ...]) -> Plan:
    """The best coefficients of given computed steps, by least squares on each gap."""
    coefficients = [0.0]
    values, vectors = np.linalg.eigh(gram)
    velocities = vectors * np.sqrt(np.maximum(values, 0))
    for i, j, m in zip(computed, computed[1:], [*computed[2:], computed[-1]], strict=False):
        ks = np.arange(j + 1, m)
        ds = np.diff(sigmas)[ks]
        miss = ds @ (velocities[ks] - velocities[j])
        along = (ds * (sigmas[ks] - sigmas[j]) / (sigmas[j] - sigmas[i])).sum() * (velocities[j] - velocities[i])
        square = along @ along
        coefficients.append(float(np.clip(miss @ along / square, -0.5, 1.5)) if square > 0 else 0.0)
    return Plan(computed, tuple(coefficients))


def test_fifty_steps_are_planned_at_once() -> None:
    """Red when planning becomes something a user waits for; 20 times the 15 ms measured on two shared cores."""
    velocities = bent(50)
    begun = time.process_time()
    plan_from_kernel(velocities @ velocities.T, schedule(50), computed_steps=25)
    assert time.process_time() - begun < 0.3


def test_given_plans_keep_first_and_last() -> None:
    """Red when a plan of one's own loses the first or the last step, or takes an index that is no step."""
    assert plan_given([3, 5], 9).computed == (0, 3, 5, 8)
    assert plan_all(3).computed == (0, 1, 2)
    for wrong in ([-1], [9], [True]):
        with pytest.raises(PlanError, match="0 to 8"):
            plan_given(wrong, 9)


@pytest.mark.parametrize("count", [2, 31, 5.0, True])
def test_impossible_counts_are_refused(count: object) -> None:
    """Red when a count that no plan can have is silently changed."""
    with pytest.raises(PlanError, match="expected a whole number from 5"):
        plan_from_kernel(np.eye(30), schedule(30), computed_steps=count)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -1.0])
def test_curves_with_impossible_changes_are_refused(wrong: float) -> None:
    """Red when a change that is no change is planned with."""
    with pytest.raises(PlanError, match="negative or not finite"):
        plan_from_curve([0.1, wrong, 0.1], computed_steps=3)


def test_curve_spends_its_steps_where_the_change_is() -> None:
    """Red when the planner reuses across the large changes instead of the small ones."""
    assert plan_from_curve([1.0, 1.0, 1.0, 0.01, 0.01, 0.01, 0.01, 0.01], computed_steps=5) == [0, 1, 2, 3, 8]


@settings(max_examples=20)
@given(steps=st.integers(5, 40), other=st.integers(5, 60))
def test_kernels_move_to_other_schedules(steps: int, other: int) -> None:
    """Red when interpolation loses symmetry or makes the matrix indefinite, or changes it on its own schedule."""
    velocities = bent(steps)
    kernel = Kernel.of(schedule(steps)[:-1], velocities @ velocities.T)
    assert kernel.at(kernel.sigmas) == pytest.approx(kernel.products, abs=1e-9)
    moved = kernel.at(schedule(other)[:-1])
    assert moved == pytest.approx(moved.T) and np.linalg.eigvalsh(moved)[0] > -1e-9


def test_kernels_average_prompts_alike() -> None:
    """Red when one prompt of several weighs more than the others."""
    sigmas = schedule(10)[:-1]
    one, two, three = (Kernel.of(sigmas, bent(10, seed) @ bent(10, seed).T) for seed in range(3))
    merged = one.merge(two).merge(three)
    assert merged.prompts == 3
    assert merged.products == pytest.approx((one.products + two.products + three.products) / 3, abs=1e-9)


def test_coverage_ends_one_step_beyond_the_recording() -> None:
    """Red when a recording of a late start plans a run from pure noise."""
    sigmas = schedule(30)[:-1]
    late = Kernel.of(sigmas[15:], bent(30)[15:] @ bent(30)[15:].T)
    assert late.covers(sigmas[15:]) and late.covers(sigmas[14:]) and not late.covers(sigmas)


@pytest.mark.parametrize(
    ("sigmas", "products"),
    [
        ([1.0, 0.5], [[1.0, 0.0], [0.0, float("nan")]]),
        ([1.0, 0.5], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        ([1.0, 0.5], [[1.0, 2.0], [2.0, 1.0]]),
        ([1.0, 0.5], [[1.0, 0.5], [0.1, 1.0]]),
        ([1.0, 0.5], [[0.0, 0.0], [0.0, 0.0]]),
        ([0.5, 1.0], [[1.0, 0.0], [0.0, 1.0]]),
        ([1.0], [[1.0]]),
        ([1.0, 0.5], "text"),
        ([1.0, float("inf")], [[1.0, 0.0], [0.0, 1.0]]),
    ],
)
def test_impossible_kernels_are_refused(sigmas: list[float], products: object) -> None:
    """Red when numbers that cannot be inner products reach the planner."""
    with pytest.raises(KernelError, match="Record the model again"):
        Kernel.of(sigmas, products)
