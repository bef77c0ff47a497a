"""The suite that every adapter passes, those of third parties too. Needs pytest; imports mlx; never mflux.

class TestMine(AdapterConformance):
    adapter = MY_ADAPTER

    def make_model(self):
        return a_small_model_with_random_weights()
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from teacache.calibration import load_calibrations
from teacache.errors import AlreadyWrappedError, OptionError
from teacache.plugins import find_adapter
from teacache.testing.counting import Counts, counted
from teacache.testing.oracles import Subject, equivalence, neutrality
from teacache.testing.spies import (
    LastBlockSpy,
    expected_warnings,
    same,
    snapshot,
    transformer_of,
)
from teacache.testing.suite import ALTERNATE, AdapterSuite
from teacache.tolerance import load_tolerance

__all__ = ["ALTERNATE", "AdapterConformance", "overrides"]

Test = TypeVar("Test", bound=Callable[..., Any])


def overrides(reason: str) -> Callable[[Test], Test]:
    """States why a test of the suite is replaced; without it the suite fails.

    Args:
        reason: a sentence for the reader of the test.
    """
    if not reason.strip():
        raise OptionError("overrides() was given no reason; expected a sentence.")

    def marked(test: Test) -> Test:
        test.overrides_because = reason  # type: ignore[attr-defined]
        return test

    return marked


class AdapterConformance(AdapterSuite):
    """Subclass it as ``class TestSomething`` with `adapter` and `make_model`; its attributes are `AdapterSuite`'s."""

    def subject_of(self, model: Any) -> Subject:
        """What the oracles look at: this model first, then fresh ones."""
        models = iter([model])
        return Subject(
            adapter=self.adapter,
            make_model=lambda: next(models, None) or self.make_model(),
            generate=self.generate,
            steps=self.steps,
            installed=self.installed,
        )

    def holds(self, model: Any, **arguments: Any) -> None:
        """Shadow equals plain and reuse equals the reference with other arguments."""
        self.arguments = {**self.arguments, **arguments}  # type: ignore[misc]
        self.test_shadow_equals_plain_bit_for_bit(model)
        self.test_reuse_equals_the_reference(model)

    def __init_subclass__(cls, **given: Any) -> None:
        """Keeps the test that looks for silent overrides from being one."""
        super().__init_subclass__(**given)
        if cls.test_no_test_is_overridden_in_silence is not AdapterConformance.test_no_test_is_overridden_in_silence:
            raise OptionError(
                f"{cls.__name__} replaces test_no_test_is_overridden_in_silence, which keeps the suite whole. "
                'Give the others a reason instead: @teacache.testing.conformance.overrides("the reason").'
            )

    # The tests.

    def test_no_test_is_overridden_in_silence(self) -> None:
        """Red when a class or a mixin replaces a test, or what tests share, without `overrides("why")`."""
        silent = [
            f"{cls.__name__}.{name}"
            for cls in type(self).__mro__[: type(self).__mro__.index(AdapterConformance)]
            for name, value in vars(cls).items()
            if name in _KEPT and not getattr(value, "overrides_because", None)
        ]
        assert not silent, (
            f"{', '.join(silent)} replace what every adapter is tested with. Say why, above the method: "
            '@teacache.testing.conformance.overrides("the reason").'
        )

    def test_wrap_finds_this_adapter_alone(self, model: Any) -> None:
        """Red when the adapter matches too little, or when another adapter claims the same class."""
        if not self.installed:
            pytest.skip("the adapter is handed in, not discovered")
        found, _ = find_adapter(model)
        assert found is self.adapter

    def test_neutral_in_both_orders(self, model: Any) -> None:
        """Red when threshold 0, shadow or a plan of all steps moves a byte, reuses a step or leaves something."""
        neutrality(self.subject_of(model)).require()

    def test_shadow_equals_plain_bit_for_bit(self, model: Any) -> None:
        """Red when the traced path rounds differently or skips a block, eager or compiled."""
        equivalence(self.subject_of(model), parts=("computed",)).require()

    def test_the_body_runs_on_computed_steps_only(self, model: Any) -> None:
        """Red when a reused step still runs blocks, or when a step is counted as reused and computed."""
        spy = LastBlockSpy(transformer_of(model, self.pipeline_of(model)), self.adapter)
        try:
            _, stats = self.wrapped(model, **ALTERNATE, **self.eager(model))
        finally:
            spy.remove()
        assert 0 < stats.reused < len(stats.records)
        assert stats.records[0].action == stats.records[-1].action == "compute"
        assert spy.runs == sum(record.branches for record in stats.records if record.action == "compute")

    def test_a_decision_costs_one_evaluation_and_one_scalar(self, model: Any) -> None:
        """Red when a step waits for MLX more often than stated: once more with the gate, never more with a plan."""

        def count(**options: Any) -> Counts:
            with counted() as counts:
                self.wrapped(model, **options, **self.eager(model))
            return counts

        # The evaluation at the end of a step takes the place of the host's own.
        planned, gated = count(plan=range(0, self.steps, 2)), count(**ALTERNATE)
        assert planned.evaluations["ours"] <= self.steps and planned.scalars["ours"] == 0
        assert self.steps < gated.evaluations["ours"] <= 2 * self.steps
        assert gated.scalars["ours"] == self.steps - 1, "there is no change on the first step"

    def test_reuse_equals_the_reference(self, model: Any) -> None:
        """Red when a residual is one step too old, added twice, of the other branch, or taken on the wrong tokens."""
        equivalence(self.subject_of(model), parts=("reused",)).require()

    def test_first_recorded_then_planned(self, model: Any) -> None:
        """Red when recording moves the latents, the next run is not planned, or a carried step calls the model."""
        plain = self.generate(model)
        spy = LastBlockSpy(transformer_of(model, self.pipeline_of(model)), self.adapter)
        try:
            with expected_warnings(), self.wrap(model, speedup=2.0, **self.eager(model)) as handle:
                spy.runs = 0
                recorded = self.generate(model, handle)
                after_recording = spy.runs
                planned = self.generate(model, handle)
                first, second = handle.stats.runs
        finally:
            spy.remove()
        if not self.eager(model):
            assert same(plain, recorded)
        assert first.reused == 0 and second.reused == self.steps - self.steps // 2
        assert not same(recorded, planned) and np.isfinite(planned[-1]).all()
        assert (spy.runs - after_recording) * self.steps == second.computed * after_recording

    def test_compiled_and_eager_decide_alike(self, model: Any) -> None:
        """Red when the decision is frozen inside a compiled function: a plain run first, then reuse."""
        options = self.eager(model)
        if not options:
            pytest.skip("this pipeline is eager anyway")
        self.generate(model)
        _, compiled = self.wrapped(model, **ALTERNATE)
        _, eager = self.wrapped(model, **ALTERNATE, **options)
        assert [record.action for record in compiled.records] == [record.action for record in eager.records]
        assert compiled.reused > 0

    def test_branches_share_one_decision(self, model: Any) -> None:
        """Red when one branch of guidance is reused while the other is computed."""
        _, stats = self.wrapped(model, **ALTERNATE)
        assert len({record.branches for record in stats.records}) == 1
        assert stats.timeline.startswith("#.#")

    def test_runs_are_isolated(self, model: Any) -> None:
        """Red when a residual, a signal or an accumulated change of one run serves the next."""
        with expected_warnings(), self.wrap(model, **ALTERNATE) as handle:
            first = self.generate(model, handle)
            self.generate(model, handle, **{"seed": 5, "num_inference_steps": self.steps + 3, **self.variation})
            second = self.generate(model, handle)
            runs = handle.stats.runs
        assert same(first, second)
        assert runs[0].records == runs[2].records and len(runs) == 3

    def test_restore_leaves_nothing(self, model: Any) -> None:
        """Red when a class, an attribute, a callback or a list stays behind; twice is as good as once."""
        pipeline = self.pipeline_of(model)
        before = snapshot(model, self.adapter, pipeline)
        with expected_warnings(), self.wrap(model, **ALTERNATE) as handle:
            self.generate(model, handle)
        handle.restore()
        assert snapshot(model, self.adapter, pipeline) == before

    def test_an_error_in_a_block_ends_the_run_and_nothing_else(self, model: Any) -> None:
        """Red when a broken run is counted, when its arrays serve the next, or when another exception comes out."""
        options = self.eager(model)
        clean, _ = self.wrapped(model, **ALTERNATE, **options)
        transformer = transformer_of(model, self.pipeline_of(model))
        with expected_warnings(), self.wrap(model, **ALTERNATE, **options) as handle:
            spy = LastBlockSpy(transformer, self.adapter, fail_at=2)
            try:
                with pytest.raises(RuntimeError, match="planted in the last block"):
                    self.generate(model, handle)
            finally:
                spy.remove()
            assert handle.stats.runs == []
            assert same(clean, self.generate(model, handle))

    def test_two_models_do_not_meet(self, model: Any) -> None:
        """Red when wrapping one object changes another of its class."""
        other = self.make_model()
        alone, _ = self.wrapped(model, **ALTERNATE)
        plain = self.generate(other)
        with expected_warnings(), self.wrap(model, **ALTERNATE) as handle:
            assert same(plain, self.generate(other))
            with self.wrap(other, **ALTERNATE) as second:
                assert same(alone, self.generate(model, handle))
                assert same(alone, self.generate(other, second))

    def test_weights_look_the_same_while_wrapped(self, model: Any, tmp_path: Any) -> None:
        """Red when wrapping hides or renames parameters: saving and loading would lose weights."""
        transformer = transformer_of(model, self.pipeline_of(model))
        before = dict(tree_flatten(transformer.parameters()))
        with expected_warnings(), self.wrap(model, **ALTERNATE) as handle:
            self.generate(model, handle)
            transformer.save_weights(str(tmp_path / "weights.safetensors"))
            transformer.load_weights(str(tmp_path / "weights.safetensors"))
        saved = mx.load(str(tmp_path / "weights.safetensors"))
        assert isinstance(saved, dict) and saved.keys() == before.keys()
        assert all(mx.array_equal(saved[name], value) for name, value in before.items())

    def test_wrapping_twice_is_refused(self, model: Any) -> None:
        """Red when a second wrap stacks on the first, or damages it."""
        plain = self.generate(model)
        with (
            expected_warnings(),
            self.wrap(model, threshold=0.0),
            pytest.raises(AlreadyWrappedError, match="restore"),
        ):
            self.wrap(model, threshold=0.0)
        assert same(plain, self.generate(model))

    def test_calibration_files_load(self) -> None:
        """Red when a shipped calibration is damaged, or was fitted on a tensor that the adapter does not read."""
        if self.adapter.calibrations is None:
            pytest.skip("the adapter ships no calibrations")
        for calibration in load_calibrations(self.adapter.calibrations):
            if calibration.gate is not None:
                assert calibration.signal is not None and calibration.signal.tensor == self.adapter.signal.tensor
                assert calibration.signal.tokens == self.adapter.signal.tokens

    def test_the_tolerance_file_is_worth_its_evidence(self) -> None:
        """Red when the shipped bounds are damaged, edited by hand, another adapter's or not carried by evidence."""
        if self.adapter.tolerance is None:
            pytest.skip("the adapter ships no tolerance")
        assert load_tolerance(self.adapter.tolerance).adapter == self.adapter.name


_SHARED = ("recordings_of_this_test_only", "model", "pipeline_of", "wrap", "wrapped", "subject_of", "eager")
_KEPT = frozenset(name for name in vars(AdapterConformance) if name.startswith("test_")) | {*_SHARED}
"""Tests, and what they share: a test that wraps nothing, or another model, is taken out as well."""
