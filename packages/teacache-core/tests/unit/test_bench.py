"""What plans are compared with, and how the benchmark's rows become a page. Without pictures."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from teacache.bench.controls import (
    MeanCacheRun,
    MultistepRun,
    PublishedPlan,
    left_in_latents,
    published_plans,
    step_cache_plan,
    uniform_plan,
)
from teacache.bench.frontier_page import numbers, page
from teacache.bench.rows import FEWER, GATE, GATE_LINEAR, OWN_PLAN, PLAIN, PLAN, Row, Settings, cases
from teacache.bench.summary import summaries, transferred, verdicts
from teacache.cli.lines import Lines
from teacache.errors import OptionError
from teacache.hosts.loop import loop_run
from teacache.policies import replay_gate
from teacache.policies.plan import Plan, plan_from_kernel
from teacache.run import Run, RunInfo
from teacache.steering import MeasuringRun, steered
from teacache.testing.denoiser import ADAPTER, Denoiser, denoise
from teacache.velocity import VelocityRun

pytestmark = pytest.mark.unit

SIGMAS = (1.0, 0.8, 0.7, 0.4, 0.2, 0.0)


def taken(run: Run, velocities: list[float]) -> list[float]:
    """The velocities that a run steps with, from those that a model would predict."""
    found = []
    for step, velocity in enumerate(velocities):
        found.append(float(run.velocity(mx.array([velocity])).item()))
        run.end_step(step)
    return found


def test_the_multistep_solver_is_exact_on_a_line() -> None:
    """Red when a stretch's length is taken of the wrong steps: on a line only the first stretch leaves an error."""
    grid = Plan((0, 1, 3), (0.0,) * 3)
    velocities = taken(MultistepRun(RunInfo(sigmas=SIGMAS), plan=grid), [2 * sigma for sigma in SIGMAS[:-1]])
    way = sum(
        velocity * (b - a) for velocity, (a, b) in zip(velocities[1:], itertools.pairwise(SIGMAS[1:]), strict=True)
    )
    exact = SIGMAS[-1] ** 2 - SIGMAS[1] ** 2
    euler_at_first = 2 * SIGMAS[0] * (SIGMAS[1] - SIGMAS[0])
    assert velocities[0] * (SIGMAS[1] - SIGMAS[0]) == pytest.approx(euler_at_first)
    # Over stretch [j, m] with i before it AB2 takes the line through (i, j) at the stretch's middle: exact for a line.
    assert way == pytest.approx(exact, abs=1e-6)


def test_the_published_correction_is_the_papers() -> None:
    """Red when the window counts computed steps only, the sign is turned, or carried steps are left out."""
    run = MeanCacheRun(RunInfo(sigmas=SIGMAS), published=PublishedPlan((0, 1, 4), (0, 2)))
    found = taken(run, [3.0, 2.0, 99.0, 99.0, 1.0])
    latents, log = 0.0, []
    for step in range(5):
        if step in (2, 3):
            start, before, sigma = log[step - 2]
            mean = (latents - start) / (SIGMAS[step] - sigma)
            turn = (before - mean) / (SIGMAS[step] - sigma)
            velocity = log[-1][1] - turn * (SIGMAS[step + 1] - SIGMAS[step])
        else:
            velocity = (3.0, 2.0, 0.0, 0.0, 1.0)[step]
        log.append((latents, velocity, SIGMAS[step]))
        latents += (SIGMAS[step + 1] - SIGMAS[step]) * velocity
    assert found == pytest.approx([velocity for _, velocity, _ in log], abs=1e-5)
    assert found[2] != 2.0


def test_a_window_of_one_is_plain_reuse() -> None:
    """Red when the shortest window already corrects."""
    run = MeanCacheRun(RunInfo(sigmas=SIGMAS), published=PublishedPlan((0, 1, 4), (0, 1)))
    assert taken(run, [3.0, 2.0, 99.0, 99.0, 1.0]) == pytest.approx([3.0, 2.0, 2.0, 2.0, 1.0])


@pytest.mark.parametrize("model", ["qwen-image", "z-image-base"])
def test_published_lists_fit_their_gaps(model: str) -> None:
    """Red when a list was copied with a number missing."""
    for count, plan in published_plans(model).items():
        gaps = [after - before - 1 for before, after in itertools.pairwise(plan.computed)]
        assert len(plan.computed) == count and (plan.computed[0], plan.computed[-1]) == (0, 49)
        assert [window > 0 for window in plan.window] == [gap > 0 for gap in gaps]


@pytest.mark.parametrize("count", [20, 10, 7])
def test_other_plans_compute_what_is_asked(count: int) -> None:
    """Red when a control is given more or fewer model calls than the plan."""
    sigmas = np.linspace(1, 0, 31) ** 0.8
    for plan in (uniform_plan(30, count), step_cache_plan(sigmas.tolist(), count)):
        assert len(plan.computed) == count and (plan.computed[0], plan.computed[-1]) == (0, 29)


def test_what_a_plan_leaves_is_what_the_planner_counts() -> None:
    """Red when the benchmark's account of a plan differs from the planner's own."""
    angle, sigmas = np.linspace(0, 2, 12), np.linspace(1, 0, 13).tolist()
    products = np.cos(angle[:, None] - angle[None, :])
    plan = plan_from_kernel(products, sigmas, computed_steps=5)
    assert plan.expected_error == pytest.approx(left_in_latents(plan, products, sigmas), rel=1e-6)
    assert left_in_latents(plan, np.ones((12, 12)), sigmas) == pytest.approx(0)


def test_measuring_changes_nothing_and_measures_both() -> None:
    """Red when the run that a calibration is made from moves the latents, or its kernel is not a plain recording's."""
    model, sigmas = Denoiser(), np.linspace(1, 0, 9).tolist()
    runs: list[VelocityRun] = []
    latents = []
    for make in (
        lambda info: VelocityRun(info, record=True),
        lambda info: MeasuringRun(info, target=None),
    ):
        x = mx.random.normal((1, 9, 4), key=mx.random.key(3))
        keep = lambda info, make=make: runs.append(make(info)) or runs[-1]  # noqa: E731
        with (
            steered(model, keep, adapter=ADAPTER) as session,
            loop_run(session, RunInfo(sigmas=tuple(sigmas))) as steps,
        ):
            for k in steps:
                x = x + (sigmas[k + 1] - sigmas[k]) * steps.velocity(model(x, sigmas[k]))
        latents.append(np.array(x))
    assert (
        latents[0].tobytes()
        == latents[1].tobytes()
        == denoise(model, None, seed=3, steps=8, guidance=1.0)[-1].tobytes()
    )
    assert type(model) is Denoiser
    assert np.array_equal(runs[0].kernel().products, runs[1].kernel().products)
    assert all(record.signal_change and record.body_change for record in runs[1].records[1:])


def row(method: str, psnr: float, fine: float, *, prompt: str = "one", asked: int = 15, toy: str = "fish") -> Row:
    return Row(
        toy=toy, prompt=prompt, seed=1, steps=30, asked=asked, method=method, computed=asked, seconds=1.0,
        psnr=psnr, ssim=0.9, fine_psnr=fine, fine_ssim=0.9, expected_error=0.01 if method == PLAN else None, grown=0.5,
    )  # fmt: skip


def rows(plan: float, plan_fine: float, prompt: str = "one") -> list[Row]:
    """One pair: fewer steps has 30 dB against both references, the gate 40, the plain picture 35 against the fine."""
    return [
        row(PLAIN, 99, 35, prompt=prompt, asked=30),
        row(PLAN, plan, plan_fine, prompt=prompt),
        row(GATE, 38, 33, prompt=prompt),
        row(GATE_LINEAR, 40, 34, prompt=prompt),
        row(FEWER, 30, 30, prompt=prompt),
        row(OWN_PLAN, 50, 34, prompt=prompt),
    ]


def test_a_pair_counts_as_won_against_both_references_only() -> None:
    """Red when a pair that lost against the fine reference is counted as won, or the gain is taken of the fine one."""
    settings = Settings(speeds=(2.0,))
    won = verdicts(rows(50, 34), settings)[0]
    assert (won.wins, won.pairs, won.gain, won.over_gate, won.over_linear) == (1, 1, 20.0, 12.0, 10.0) and won.holds
    assert verdicts(rows(50, 29), settings)[0].wins == 0
    assert not verdicts(rows(35, 34), settings)[0].holds  # below the gate
    assert not verdicts([*rows(50, 34), *rows(29, 34, "two")], settings)[0].holds


def test_the_page_lists_each_pair_that_lost_and_why() -> None:
    """Red when a losing pair is left out of the page, or told as one that won."""
    text = page([*rows(50, 34), *rows(29, 29, "two")], Settings(speeds=(2.0,)), made_with="nothing", picture=None)
    lost = text.split("## Pairs that the plan lost")[1]
    assert "| fish | two | 1 | 15 | 29.0 | 30.0 |" in lost and "its own recording it wins" in lost
    assert "| one |" not in lost
    assert [s.wins for s in summaries(rows(29, 34)) if s.method == PLAN] == [0]


def test_the_numbers_are_json_with_every_picture() -> None:
    """Red when the file beside the page cannot be read, or a picture or a column is left out of it."""
    read = json.loads(numbers(rows(50, 34), Settings(speeds=(2.0,)), made_with="nothing"))
    assert [Row(**dict(zip(read["columns"], row, strict=True))) for row in read["rows"]] == rows(50, 34)
    assert read["verdicts"][0]["holds"] is True


def test_other_step_counts_are_judged_by_themselves() -> None:
    """Red when pictures of another step count are judged among the main ones, or their losses pass."""
    other = [replace(one, steps=50, asked=50 if one.method == PLAIN else 25) for one in rows(29, 34)]
    everything = [*rows(50, 34), *other]
    assert [(t["steps"], t["asked"], t["wins"], t["holds"]) for t in transferred(everything, Settings())] == [
        (50, 25, 0, False)
    ]
    assert verdicts(everything, Settings(speeds=(2.0,)))[0].holds


def test_compared_scenes_are_never_recorded() -> None:
    """Red when a plan is tried on the prompt or the noise that it was recorded from."""
    recorded, compared = cases(Settings(prompts=5, seeds=2))
    assert len(compared) == 10 and len({(case.prompt, case.seed) for case in compared}) == 10
    assert not {case.prompt for case in recorded} & {case.prompt for case in compared}
    assert not {case.seed for case in recorded} & {case.seed for case in compared}


def test_interrupted_work_goes_on(tmp_path: Path) -> None:
    """Red when results are lost, counted twice, mixed with other settings, or half a line breaks the file."""
    path, settings = tmp_path / "work.jsonl", {"steps": 30, "speeds": (2.0,)}
    Lines(path, settings).append({"row": 1})
    with path.open("a", encoding="utf-8") as file:
        file.write('{"row": 2, "psn')
    again = Lines(path, settings)
    assert again.rows == [{"row": 1}]
    again.append({"row": 2})
    assert Lines(path, settings).rows == [{"row": 1}, {"row": 2}]
    with pytest.raises(OptionError, match="other settings"):
        Lines(path, {"steps": 20})
    assert Lines(path, settings).rows == [{"row": 1}, {"row": 2}]


def test_the_threshold_matches_the_count() -> None:
    """Red when the gate is compared at other calls than the plan although a threshold would give them."""
    from teacache.bench.frontier import matching_threshold

    changes, line = [0.3, 0.2, 0.1, 0.09, 0.1, 0.11, 0.13, 0.15, 0.2, 0.3], [0.0, 0.0, 0.0, 1.0, 0.0]
    for count in (9, 7, 5):
        threshold = matching_threshold(changes, line, count)
        reused = replay_gate(changes, coefficients=line, calibrated_range=None, threshold=threshold)
        assert len(reused) - sum(reused) == count
