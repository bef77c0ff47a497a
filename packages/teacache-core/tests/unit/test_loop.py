"""A model without mflux: one list of blocks, positional arguments, a single returned array, a loop of its own."""

from __future__ import annotations

import dataclasses
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

import teacache
from teacache.errors import AdapterDescriptionError, BranchWarning, NothingReusedWarning, OptionError, RunError
from teacache.testing.conformance import ALTERNATE, AdapterConformance
from teacache.testing.denoiser import ADAPTER, Denoiser, call_each_step, denoise
from teacache.testing.spies import Latents, expected_warnings, same

pytestmark = pytest.mark.unit


class TestDenoiser(AdapterConformance):
    """The whole suite, through the loop host, one branch."""

    adapter = ADAPTER
    installed = False
    guidance = 1.0

    def make_model(self) -> Denoiser:
        return Denoiser()

    def generate(self, model: Any, handle: teacache.Handle | None = None, **overrides: Any) -> Latents:
        steps = overrides.get("num_inference_steps", self.steps)
        return denoise(model, handle, seed=overrides.get("seed", 3), steps=steps, guidance=self.guidance)


class TestGuidedDenoiser(TestDenoiser):
    """The same with two branches a step."""

    guidance = 3.0


def wrapped(model: Denoiser, **options: Any) -> teacache.Handle:
    return teacache.wrap(model, adapter=ADAPTER, **options)


def test_direct_calls_outside_a_run_are_plain() -> None:
    """Red when a wrapped model answers a call of its own with a residual of some run."""
    model, x = Denoiser(), mx.ones((1, 9, 4))
    plain = model(x, 0.5)
    with expected_warnings(), wrapped(model, **ALTERNATE) as handle:
        denoise(model, handle, seed=1, steps=8, guidance=1.0)
        assert mx.array_equal(model(x, 0.5), plain)


def test_one_call_too_many_is_plain_and_said() -> None:
    """Red when an unexpected third call of a step takes another branch's residual."""
    model, x = Denoiser(), mx.ones((1, 9, 4))
    plain = model(x, 0.9)
    with expected_warnings(), wrapped(model, **ALTERNATE) as handle, handle.run([1.0, 0.5, 0.2, 0.0]) as run:
        for k in run:
            model(x, 0.9)
            if k == 1:
                with pytest.warns(BranchWarning, match="called 2 times in step 1"):
                    extra = model(x, 0.9)
                assert mx.array_equal(extra, plain)


def test_another_shape_in_a_run_is_computed() -> None:
    """Red when a residual of one size is added to tokens of another."""
    model = Denoiser()
    sigmas = [1.0, 0.8, 0.6, 0.4, 0.0]
    with expected_warnings(), wrapped(model, **ALTERNATE) as handle, handle.run(sigmas) as run:
        for k in run:
            model(mx.ones((1, 9 if k != 1 else 12, 4)), 0.9)
    assert handle.stats.last is not None
    assert [record.reason for record in handle.stats.last.records][1] == "shape"
    assert handle.stats.last.records[1].action == "compute"


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_computed(bad: float) -> None:
    """Red when a change that is not finite passes for a small one."""
    model = Denoiser()
    with expected_warnings(), wrapped(model, **ALTERNATE) as handle, handle.run([1.0, 0.8, 0.6, 0.4, 0.0]) as run:
        for k in run:
            model(mx.full((1, 9, 4), bad if k == 1 else 1.0), 0.9)
    assert handle.stats.last is not None
    records = handle.stats.last.records
    assert [records[1].reason, records[2].reason] == ["non-finite", "non-finite"]
    assert {records[1].action, records[2].action} == {"compute"}


def test_a_batch_is_refused() -> None:
    """Red when several pictures share one decision and one residual."""
    model = Denoiser()
    with expected_warnings(), wrapped(model, **ALTERNATE) as handle:
        with pytest.raises(RunError, match="batch of 2"):
            call_each_step(model, handle, [1.0, 0.5, 0.0], batch=2)
        assert handle.stats.runs == []


def test_a_plan_without_velocity_is_an_error_and_no_wrong_picture() -> None:
    """Red when a loop that never asks for the carried velocity steps with the stand-in of a model call."""
    model = Denoiser()
    with expected_warnings(), wrapped(model, plan=[0, 3]) as handle:
        with pytest.raises(RunError, match=r"run\.velocity"):
            call_each_step(model, handle, np.linspace(1, 0, 8).tolist())
        assert handle.stats.runs == []


def test_a_loop_that_ends_early_does_not_count() -> None:
    """Red when half a run is counted as one."""
    model = Denoiser()
    with expected_warnings(), wrapped(model, **ALTERNATE) as handle:
        with handle.run([1.0, 0.5, 0.2, 0.0]) as run:
            for _ in run:
                model(mx.ones((1, 9, 4)), 0.9)
                break
        assert handle.stats.runs == []


def test_a_forward_that_does_not_iterate_is_named() -> None:
    """Red when blocks that are run by index are taken for a body that ran."""

    class ByIndex(Denoiser):
        def __call__(self, x: mx.array, sigma: float, shift: float = 0.0) -> mx.array:
            tokens = self.embed(x)
            for index in range(len(self.blocks)):
                tokens = self.blocks[index](tokens, mx.zeros(16))
            return self.head(tokens)

    model = ByIndex()
    with (
        expected_warnings(),
        wrapped(model, **ALTERNATE) as handle,
        pytest.raises(AdapterDescriptionError, match="iterate over its blocks"),
    ):
        call_each_step(model, handle, [1.0, 0.5, 0.0])


def test_a_run_without_reuse_says_why() -> None:
    """Red when a cache that never engages stays silent."""
    model = Denoiser()
    with wrapped(model, coefficients=[0, 0, 0, 0, 1], threshold=0.5) as handle:
        with pytest.warns(NothingReusedWarning, match="smallest predicted change is 1, not below the threshold 0.5"):
            denoise(model, handle, seed=1, steps=8, guidance=1.0)
        assert str(handle).startswith("0 of 8 steps reused: the smallest predicted change")
        with pytest.warns(NothingReusedWarning, match=r"too few steps \(2\)"):
            denoise(model, handle, seed=1, steps=2, guidance=1.0)


@pytest.mark.parametrize("sigmas", [[], [1.0]])
def test_a_schedule_without_steps_is_refused(sigmas: list[float]) -> None:
    """Red when a run without steps opens and never ends."""
    with (
        expected_warnings(),
        wrapped(Denoiser(), **ALTERNATE) as handle,
        pytest.raises(OptionError, match="noise level"),
    ):
        call_each_step(Denoiser(), handle, sigmas)


def test_a_restored_handle_opens_no_run() -> None:
    """Red when a handle that gave its model back still counts."""
    handle = wrapped(Denoiser(), threshold=0.0)
    handle.restore()
    with pytest.raises(OptionError, match="restored"), handle.run([1.0, 0.0]):
        pass


def test_each_step_is_reported_as_it_ends() -> None:
    """Red when a progress display sees the steps late, twice or not at all."""
    model, seen = Denoiser(), []
    with expected_warnings(), wrapped(model, on_step=seen.append, **ALTERNATE) as handle:
        latents = denoise(model, handle, seed=1, steps=8, guidance=1.0)
        assert handle.stats.last is not None and tuple(seen) == handle.stats.last.records
    assert len(latents) == 8 and not same(latents, denoise(model, None, seed=1, steps=8, guidance=1.0))


def test_branches_in_a_batch_may_also_come_alone() -> None:
    """Red when a model that carries both branches in one call is refused with guidance off, or three are taken."""
    both = dataclasses.replace(ADAPTER, branches_in_batch=2)
    model = Denoiser()
    with expected_warnings(), teacache.wrap(model, adapter=both, **ALTERNATE) as handle:
        call_each_step(model, handle, [1.0, 0.6, 0.3, 0.0], batch=1)
        call_each_step(model, handle, [1.0, 0.6, 0.3, 0.0], batch=2)
        assert [run.reused for run in handle.stats.runs] == [1, 1]
        with pytest.raises(RunError, match="batch of 3"):
            call_each_step(model, handle, [1.0, 0.5, 0.0], batch=3)
