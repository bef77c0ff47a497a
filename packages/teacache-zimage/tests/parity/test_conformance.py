"""The shared suite on every Z-Image pipeline of mflux, and the settings that only they have."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from teacache.testing.conformance import AdapterConformance
from teacache.testing.materials import picture
from teacache_zimage import ADAPTER

from .pipelines import ARGUMENTS, PROMPT, controls, z_image, z_image_turbo, z_image_turbo_controlnet


class Conformance(AdapterConformance):
    adapter = ADAPTER
    steps = 6
    arguments: ClassVar[dict[str, Any]] = ARGUMENTS
    variation: ClassVar[dict[str, Any]] = {"height": 48}


class TestZImage(Conformance):
    variation: ClassVar[dict[str, Any]] = {"height": 48, "guidance": 0.0}

    def make_model(self) -> Any:
        return z_image()

    def test_image_to_image(self, model: Any, tmp_path: Path) -> None:
        """Red when a late first step is counted from 0, or when no residual is asked for in the first step."""
        self.holds(model, image_path=picture(tmp_path), image_strength=0.3)

    def test_guidance_off(self, model: Any) -> None:
        """Red when two branches are expected where the pipeline calls the model once."""
        self.holds(model, guidance=0.0)

    @pytest.mark.parametrize("negative", ["green ring", PROMPT])
    def test_negative_prompts(self, model: Any, negative: str) -> None:
        """Red when the branches are told apart by what the text says: equal prompts are two branches too."""
        self.holds(model, negative_prompt=negative)

    def test_padded_picture(self, model: Any) -> None:
        """Red when the target tokens end before the padding, or run into the text: 36 tokens, padded to 64."""
        self.holds(model, height=96, width=96)


def test_the_distilled_checkpoint_runs_without_guidance() -> None:
    """Red when guidance that Turbo ignores still counts as a second branch."""
    suite = TestZImage()
    _, stats = suite.wrapped(z_image_turbo(), threshold=0.5, coefficients=[0.0, 0.0, 0.0, 0.1, 0.0])
    assert {record.branches for record in stats.records} == {1}
    assert stats.reused > 0


class TestZImageTurboControlnet(Conformance):
    @pytest.fixture(autouse=True)
    def _controls(self, tmp_path: Path) -> None:
        self.arguments = {"prompt": PROMPT, "height": 64, "width": 64, "controls": controls(tmp_path)}

    def make_model(self) -> Any:
        return z_image_turbo_controlnet()

    def test_two_controls(self, model: Any) -> None:
        """Red when the residual misses what a second ControlNet call added."""
        self.holds(model, controls=self.arguments["controls"] * 2, controlnet_strength=0.5)
