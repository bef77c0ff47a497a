"""What a computed step makes good of the gap before it, against a model whose answer to an error is known."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from teacache.pieces import Pieces
from teacache.policies import correction
from teacache.policies.plan import Plan, plan_all, plan_from_kernel
from teacache.run import RunInfo
from teacache.velocity import VelocityRun
from teacache.walks import Args, Kwargs

pytestmark = pytest.mark.unit

STEPS = 24


def schedule(steps: int = STEPS) -> np.ndarray:
    """A shifted flow-matching schedule, N + 1 falling levels."""
    levels = np.linspace(1, 1 / steps, steps)
    return np.append(3 * levels / (1 + 2 * levels), 0.0)


def bent(seed: int = 0) -> np.ndarray:
    """Velocities that bend along the schedule, N x 60."""
    a, b, c = np.random.default_rng(seed).standard_normal((3, 60))
    return np.stack([a * np.sin(3 * t) + b * np.cos(5 * t) + c * t**3 for t in schedule()[:-1]])


def followed(plan: Plan, velocities: np.ndarray) -> Iterator[tuple[mx.array, np.ndarray]]:
    """Runs a plan on a model that answers an error in the latents by the error over sigma.

    Yields:
        Per step the velocity that the run takes, and how far the latents then are from the plain run's.
    """
    sigmas = schedule()
    info = RunInfo(sigmas=tuple(map(float, sigmas)))
    run, error = VelocityRun(info, plan=plan), np.zeros(velocities.shape[1])
    for step, velocity in enumerate(velocities):
        predicted = mx.array(velocity + error / sigmas[step])
        taken = run.velocity(run.call(_Plain(predicted), (), {}))
        error = error + (sigmas[step + 1] - sigmas[step]) * (np.array(taken) - velocity)
        run.end_step(step, None)
        yield taken, error


class _Plain(Pieces):
    def __init__(self, output: mx.array) -> None:
        self.output = output

    def plain(self, args: Args, kwargs: Kwargs) -> mx.array:
        return self.output


@pytest.mark.parametrize("count", [6, 8])
def test_latents_end_nearer_to_the_plain_run(count: int) -> None:
    """Red when a correction has the wrong sign, another gap's factors, or a step's length in the wrong place."""
    velocities = bent()
    plan = plan_from_kernel(velocities @ velocities.T, schedule(), computed_steps=count)
    behind = [m for j, m in itertools.pairwise(plan.computed) if m > j + 1]
    corrected, carried = (
        sum(
            float(np.linalg.norm(error)) for step, (_, error) in enumerate(followed(each, velocities)) if step in behind
        )
        for each in (plan, replace(plan, corrections=()))
    )
    assert corrected < 0.7 * carried


def test_whole_correction_leaves_what_no_direction_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when the fit forgets that the velocity answers the error, or that the step shrinks it.

    Velocities in two dimensions: both lie along what the fit may use, so that nothing is left after the first gap.
    """
    monkeypatch.setattr(correction, "SHARE", 1.0)
    velocities = bent()[:, :2]
    computed = (0, 1, 5, *range(6, STEPS))
    factors = correction.corrections(velocities @ velocities.T, schedule(), computed, (0.5,) * len(computed))
    plan = Plan(computed, (0.5,) * len(computed), corrections=factors)
    errors = [float(np.linalg.norm(error)) for _, error in followed(plan, velocities)]
    assert errors[4] > 1e-3
    assert errors[5] < 1e-3 * errors[4]


def test_only_the_step_behind_a_gap_is_corrected() -> None:
    """Red when a step that follows a computed one is changed, or the first or an uncalled one."""
    velocities = bent()
    plan = plan_from_kernel(velocities @ velocities.T, schedule(), computed_steps=12)
    gaps = [m > j + 1 for j, m in itertools.pairwise(plan.computed)]
    assert any(gaps) and not all(gaps)
    assert [factors != (0.0, 0.0) for factors in plan.corrections[:-1]] == gaps
    assert plan.corrections[-1] == (0.0, 0.0)
    assert plan_all(STEPS).corrections == ()


def test_a_plan_of_all_steps_takes_the_models_own_velocities() -> None:
    """Red when the velocity of a computed step without a gap is touched at all."""
    velocities = bent().astype(np.float32).astype(np.float64)
    every = plan_from_kernel(velocities @ velocities.T, schedule(), computed_steps=STEPS)
    for (taken, _), velocity in zip(followed(every, velocities), velocities, strict=True):
        assert np.array_equal(np.array(taken), velocity)


def test_velocities_without_direction_are_left_alone() -> None:
    """Red when a velocity that never changes is divided by its change."""
    same = np.ones((STEPS, STEPS))
    factors = correction.corrections(same, schedule(), (0, 1, 5, STEPS - 1), (0.0,) * 4)
    assert np.isfinite(factors).all() and not np.any(factors)
