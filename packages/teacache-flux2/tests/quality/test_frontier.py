"""What planned pictures of the trained toy are worth against the same calls spent on fewer steps."""

from __future__ import annotations

import mlx.core as mx
import pytest

from teacache.bench.controls import step_cache_plan
from teacache.bench.frontier import Picture, Toy, plain_run
from teacache.bench.rows import Case, Settings, cases
from teacache.policies.kernel import Kernel
from teacache.testing import toy_pipeline
from teacache.testing.spies import snapshot

SETTINGS = Settings(prompts=2, seeds=1, polynomial_prompts=1, speeds=(2.0, 3.0))
RECORDED, COMPARED = cases(SETTINGS)
GAINS = {15: 6.0, 10: 4.0}
"""Computed steps of 30, and the least mean gain in dB."""


@pytest.fixture(scope="module")
def toy() -> Toy:
    return Toy("flux2", toy_pipeline("flux2"), SETTINGS)


@pytest.fixture(scope="module")
def kernel(toy: Toy) -> Kernel:
    """From one prompt that is not compared."""
    return toy.record().kernel


@pytest.fixture(scope="module")
def plain(toy: Toy) -> dict[Case, Picture]:
    return {case: toy.made(case, 30, plain_run)[0] for case in COMPARED}


@pytest.mark.parametrize("count", GAINS)
def test_planned_pictures_are_nearer_than_fewer_steps(
    count: int, toy: Toy, kernel: Kernel, plain: dict[Case, Picture]
) -> None:
    """Red when the plan or its coefficients miss: the same calls spent on a shorter schedule would then do as well."""
    gains = []
    for case in COMPARED:
        planned, computed, _, expected, _ = toy.planned(case, 30, count, kernel)
        fewer, steps, _ = toy.made(case, count, plain_run)
        assert computed == steps == count and expected is not None
        gains.append(plain[case].psnr(planned) - plain[case].psnr(fewer))
    assert min(gains) > 0
    assert sum(gains) / len(gains) >= GAINS[count]


def test_pictures_are_compared_before_rounding(plain: dict[Case, Picture]) -> None:
    """Red when the values kept are another picture's, or rounded: equal bytes would then hide what differs."""
    one, other = plain.values()
    assert one.psnr(one) == 99.0 and one.psnr(other) < 20
    shown = (one.values[0].transpose(1, 2, 0) * 255).round()
    assert abs(shown - mx.array(list(one.image.tobytes())).reshape(shown.shape)).max() <= 1
    assert (one.values * 255 % 1 != 0).any()


def test_the_benchmark_leaves_the_model_as_it_was() -> None:
    """Red when the hook on the codec, a class or a callback stays behind after a picture."""
    model = toy_pipeline("flux2")
    toy = Toy("flux2", model, SETTINGS)
    pipeline = toy.adapter.pipelines[0]
    before, codec = snapshot(model, toy.adapter, pipeline), dict(vars(model.vae))
    toy.made(COMPARED[0], 4, plain_run)
    assert snapshot(model, toy.adapter, pipeline) == before and dict(vars(model.vae)) == codec


@pytest.mark.parametrize("count", [20, 15, 10, 7])
def test_the_rule_is_mfluxs_own(count: int) -> None:
    """Red when the StepCache that plans are compared with is not the one that mflux ships."""
    cache = pytest.importorskip("mflux.models.common.step_cache.step_cache", reason="since mflux 0.24").StepCache
    sigmas = (mx.linspace(1, 0, 31) ** 0.7).tolist()
    skipped = cache.select_skip_steps(list(range(30)), mx.array(sigmas), (30 - count) / 30)
    assert set(range(30)) - set(step_cache_plan(sigmas, count).computed) == set(skipped)
