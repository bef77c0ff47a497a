"""The reliability suite on Qwen-Image, and its guidance as it is: two branches, always."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from teacache.testing.reliability import POLICIES
from teacache.testing.reliability.mflux import MfluxReliability
from teacache.testing.spies import expected_warnings
from teacache_qwen import ADAPTER

from .pipelines import ARGUMENTS, PROMPT, qwen_image


class TestQwenImage(MfluxReliability):
    adapter = ADAPTER
    arguments: ClassVar[dict[str, Any]] = ARGUMENTS
    others: ClassVar[dict[str, dict[str, Any]]] = {
        "size": {"height": 48, "width": 80},
        "prompt length": {"prompt": " "},
        "negative prompt": {"negative_prompt": "green ring"},
        "guidance": {"guidance": 1.0},
        "scheduler": {"scheduler": "flow_match_euler_discrete"},
    }

    def make_model(self) -> Any:
        return qwen_image(num_layers=1)

    @pytest.mark.parametrize("policy", POLICIES)
    def test_guidance_is_always_two_branches(self, model: Any, policy: str) -> None:
        """Red when guidance 1, or equal prompts, make one branch of the two that mflux calls."""
        runs: list[dict[str, Any]] = [{"guidance": 1.0}, {"guidance": 4.0}, {"negative_prompt": PROMPT}]
        with expected_warnings(), self.wrap(model, **POLICIES[policy]) as handle:
            records = [self.run(model, handle, **arguments)[1] for arguments in runs]
        computed = [{record.branches for record in one if record.action == "compute"} for one in records]
        assert computed == [{2}, {2}, {2}]
        assert all([r.action for r in one] == [r.action for r in records[0]] for one in records)


@pytest.mark.slow
class TestQwenImageThoroughly(TestQwenImage):
    thorough = True

    @pytest.mark.parametrize("policy", POLICIES)
    def test_fifty_runs_in_turn(self, model: Any, policy: str) -> None:
        """Red when what a run leaves behind grows slowly: the picture moves, or memory is lost, after many."""
        self.alternate(model, policy, 25)

    def test_a_long_random_life(self, tmp_path: Path) -> None:
        """Red when some order of actions, of thousands, leaves something behind or makes another picture."""
        self.live("qwen", tmp_path)
