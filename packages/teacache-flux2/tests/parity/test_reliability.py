"""The reliability suite on FLUX.2 Klein, and its guidance as it is: against a blank prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from teacache.testing.reliability import POLICIES
from teacache.testing.reliability.mflux import MfluxReliability
from teacache.testing.spies import expected_warnings, same
from teacache_flux2 import ADAPTER

from .pipelines import ARGUMENTS, klein


class TestFlux2Klein(MfluxReliability):
    adapter = ADAPTER
    arguments: ClassVar[dict[str, Any]] = ARGUMENTS
    others: ClassVar[dict[str, dict[str, Any]]] = {
        "size": {"height": 48, "width": 80},
        "prompt length": {"prompt": " "},
        "guidance": {"guidance": 1.0},
        "scheduler": {"scheduler": "linear"},
    }

    def make_model(self) -> Any:
        return klein(num_layers=1, num_single_layers=1)

    def test_equal_branches_decide_as_one(self, model: Any) -> None:
        """Red when the second branch of guidance has a say: with the prompt " " it equals the first."""
        options = {"coefficients": [0.0, 0.0, 0.0, 1.0, 0.0], "threshold": 0.6}
        with expected_warnings(), self.wrap(model, **options) as handle:
            pictures = [self.run(model, handle, prompt=" ", guidance=guidance) for guidance in (4.0, 1.0)]
        (_, guided), (_, alone) = pictures
        assert [(r.action, r.reason) for r in guided] == [(r.action, r.reason) for r in alone]
        changes = [[r.signal_change for r in records[1:]] for records in (guided, alone)]
        assert changes[0] == pytest.approx(changes[1], rel=1e-4)
        assert 0 < sum(r.action == "reuse" for r in alone) < self.steps - 2, "the gate decides nothing here"
        assert {record.branches for record in guided} == {2} and {record.branches for record in alone} == {1}

    @pytest.mark.parametrize("policy", POLICIES)
    def test_guidance_changes_between_runs(self, model: Any, policy: str) -> None:
        """Red when a run with one branch takes residuals, or a count of calls, of a run with two."""
        with expected_warnings(), self.wrap(model, **POLICIES[policy]) as handle:
            first = [self.run(model, handle, guidance=guidance) for guidance in (1.0, 4.0)]
            again = [self.run(model, handle, guidance=guidance) for guidance in (1.0, 4.0)]
        assert all(same(a[0], b[0]) and a[1] == b[1] for a, b in zip(first, again, strict=True))


@pytest.mark.slow
class TestFlux2KleinThoroughly(TestFlux2Klein):
    thorough = True

    @pytest.mark.parametrize("policy", POLICIES)
    def test_fifty_runs_in_turn(self, model: Any, policy: str) -> None:
        """Red when what a run leaves behind grows slowly: the picture moves, or memory is lost, after many."""
        self.alternate(model, policy, 25)

    def test_a_long_random_life(self, tmp_path: Path) -> None:
        """Red when some order of actions, of thousands, leaves something behind or makes another picture."""
        self.live("flux2", tmp_path)
