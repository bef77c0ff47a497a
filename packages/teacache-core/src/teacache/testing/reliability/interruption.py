"""Cases about runs that break off. Needs pytest; never imports mflux."""

from __future__ import annotations

from typing import Any

from teacache.store import Store
from teacache.testing.reliability.base import (
    COMPUTED_BY_ALL,
    POLICIES,
    ReliabilitySuite,
    each_policy,
    live_arrays,
    outcome,
)
from teacache.testing.spies import LastBlockSpy, compile_disabled, expected_warnings, transformer_of

Fault = tuple[int, type[BaseException]]


class Interruption(ReliabilitySuite):
    """Interruption: the same exception as without teacache, and nothing is left of the run."""

    @each_policy
    def test_an_error_in_a_block(self, model: Any, policy: str) -> None:
        """Red when it comes out as another one, when the run counts, or when its arrays live on or serve the next."""
        transformer = transformer_of(model, self.pipeline_of(model))
        few: list[Fault] = [(0, RuntimeError), (2, KeyboardInterrupt), (5, RuntimeError)]
        every: list[Fault] = [(step, error) for step in COMPUTED_BY_ALL for error in (RuntimeError, KeyboardInterrupt)]
        faults = every if self.thorough else few[::2] if policy == "gate" else few[1:2]
        plain = {}
        with compile_disabled(), expected_warnings():
            counter = LastBlockSpy(transformer, self.adapter)
            self.generate(model)
            counter.remove()
            calls = counter.runs // self.steps
            for step, error in faults:
                spy = LastBlockSpy(transformer, self.adapter, fail_at=step * calls + 1, error=error)
                plain[step, error] = outcome(lambda: self.generate(model))
                spy.remove()
            with self.wrap(model, **POLICIES[policy]) as handle:
                clean = self.run(model, handle)
                computed = [record.step for record in clean[1] if record.action == "compute"]
                arrays = live_arrays()
                for (step, error), expected in plain.items():
                    spy = LastBlockSpy(transformer, self.adapter, fail_at=computed.index(step) * calls + 1, error=error)
                    counted = len(handle.stats.runs)
                    found = outcome(lambda: self.generate(model, handle))
                    spy.remove()
                    assert found == expected, f"step {step}"
                    assert len(handle.stats.runs) == counted
                    if step or self.thorough:  # looking takes 0.2 s
                        assert live_arrays() <= arrays, f"arrays of the run that broke in step {step} are alive"
                    self.repeats(model, handle, clean, f"an error in step {step}")

    def test_a_broken_recording_is_thrown_away(self, model: Any) -> None:
        """Red when a recording that broke off is kept: later pictures would be planned from half a run."""
        transformer = transformer_of(model, self.pipeline_of(model))
        with compile_disabled(), expected_warnings(), self.wrap(model, speedup=2.0) as handle:
            spy = LastBlockSpy(transformer, self.adapter, fail_at=4)
            outcome(lambda: self.generate(model, handle))
            spy.remove()
            assert list(Store().all()) == []
            _, records = self.run(model, handle)
            assert {record.reason for record in records} == {"recording"}
            _, records = self.run(model, handle)
            assert [record.action for record in records].count("reuse") == self.steps // 2
