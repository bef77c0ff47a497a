"""The reliability suite on Z-Image, and its guidance as it is: equal prompts make both branches equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from teacache.testing.reliability import POLICIES
from teacache.testing.reliability.mflux import MfluxReliability
from teacache.testing.spies import expected_warnings
from teacache_zimage import ADAPTER

from .pipelines import ARGUMENTS, PROMPT, z_image


class TestZImage(MfluxReliability):
    adapter = ADAPTER
    arguments: ClassVar[dict[str, Any]] = ARGUMENTS
    others: ClassVar[dict[str, dict[str, Any]]] = {
        "size": {"height": 96, "width": 96},
        "prompt length": {"prompt": " "},
        "negative prompt": {"negative_prompt": "green ring"},
        "guidance": {"guidance": 0.0},
        "scheduler": {"scheduler": "flow_match_euler_discrete"},
    }

    def make_model(self) -> Any:
        return z_image(n_layers=2)  # the signal runs the first

    @pytest.mark.parametrize("policy", POLICIES)
    def test_equal_prompts_make_equal_branches(self, model: Any, policy: str) -> None:
        """Red when equal branches are taken for one, or decide otherwise than guidance off."""
        equal = {"negative_prompt": PROMPT}
        with expected_warnings(), self.wrap(model, **POLICIES[policy]) as handle:
            (_, guided), (_, alone) = (self.run(model, handle, **arguments) for arguments in (equal, {"guidance": 0.0}))
        assert [record.action for record in guided] == [record.action for record in alone]
        if policy == "gate":
            assert {record.branches for record in guided} == {2} and {record.branches for record in alone} == {1}


@pytest.mark.slow
class TestZImageThoroughly(TestZImage):
    thorough = True

    @pytest.mark.parametrize("policy", POLICIES)
    def test_fifty_runs_in_turn(self, model: Any, policy: str) -> None:
        """Red when what a run leaves behind grows slowly: the picture moves, or memory is lost, after many."""
        self.alternate(model, policy, 25)

    def test_a_long_random_life(self, tmp_path: Path) -> None:
        """Red when some order of actions, of thousands, leaves something behind or makes another picture."""
        self.live("zimage", tmp_path)
