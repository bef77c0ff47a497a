"""The reliability suite on FLUX.1, and its guidance as it is: inside the model, one branch."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from teacache.testing.reliability import POLICIES
from teacache.testing.reliability.mflux import MfluxReliability
from teacache.testing.spies import expected_warnings, same
from teacache_flux1 import ADAPTER

from .pipelines import MAKERS, PROMPT

ARGUMENTS = {"prompt": PROMPT, "height": 32, "width": 48, "guidance": 3.5}


class TestFlux1(MfluxReliability):
    adapter = ADAPTER
    arguments: ClassVar[dict[str, Any]] = ARGUMENTS
    others: ClassVar[dict[str, dict[str, Any]]] = {
        "size": {"height": 48, "width": 32},
        "prompt": {"prompt": "green ring"},
        "guidance": {"guidance": 1.0},
        "scheduler": {"scheduler": "flow_match_euler_discrete"},
    }

    def make_model(self) -> Any:
        model = MAKERS["Flux1"]()
        for name in ADAPTER.body.blocks:
            model.transformer[name] = model.transformer[name][:1]
        return model

    @pytest.mark.parametrize("policy", POLICIES)
    def test_guidance_is_one_branch(self, model: Any, policy: str) -> None:
        """Red when a strength of guidance changes how often the model is called, or how the gate decides."""
        with expected_warnings(), self.wrap(model, **POLICIES[policy]) as handle:
            runs = [self.run(model, handle, guidance=guidance) for guidance in (1.0, 3.5, 30.0)]
        actions = [[record.action for record in records] for _, records in runs]
        assert actions[0] == actions[1] == actions[2]
        assert {record.branches for _, records in runs for record in records} <= {0, 1}
        assert not same(runs[0][0], runs[1][0]), "guidance is not felt: the test proves nothing"


@pytest.mark.slow
class TestFlux1Thoroughly(TestFlux1):
    thorough = True

    @pytest.mark.parametrize("policy", POLICIES)
    def test_fifty_runs_in_turn(self, model: Any, policy: str) -> None:
        """Red when what a run leaves behind grows slowly: the picture moves, or memory is lost, after many."""
        self.alternate(model, policy, 25)

    def test_a_long_random_life(self, tmp_path: Path) -> None:
        """Red when some order of actions, of thousands, leaves something behind or makes another picture."""
        self.live("flux1", tmp_path)
