"""The shared suite on every Qwen-Image pipeline of mflux, and the settings that only they have."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from teacache.testing.conformance import AdapterConformance
from teacache.testing.materials import picture
from teacache_qwen import ADAPTER

from .pipelines import ARGUMENTS, NEEDS_2511, PROMPT, qwen_image, qwen_image_edit, qwen_image_edit_2511


class Conformance(AdapterConformance):
    adapter = ADAPTER
    steps = 6
    arguments: ClassVar[dict[str, Any]] = ARGUMENTS
    variation: ClassVar[dict[str, Any]] = {"height": 48, "guidance": 1.0, "negative_prompt": "green ring"}


class TestQwenImage(Conformance):
    def make_model(self) -> Any:
        return qwen_image()

    def test_image_to_image(self, model: Any, tmp_path: Path) -> None:
        """Red when a late first step is counted from 0, or when no residual is asked for in the first step."""
        self.holds(model, image_path=picture(tmp_path), image_strength=0.3)

    @pytest.mark.parametrize("negative", ["green ring", PROMPT])
    def test_negative_prompts(self, model: Any, negative: str) -> None:
        """Red when the branches are told apart by what the text says: equal prompts are two branches too."""
        self.holds(model, negative_prompt=negative, guidance=1.0)


class Edit(Conformance):
    @pytest.fixture(autouse=True)
    def _references(self, tmp_path: Path) -> None:
        self.pictures = [str(picture(tmp_path, seed=seed)) for seed in range(2)]
        self.arguments = {**ARGUMENTS, "image_paths": self.pictures[:1]}

    def test_two_references(self, model: Any) -> None:
        """Red when the number of reference tokens is taken from the picture's own."""
        self.holds(model, image_paths=self.pictures)


class TestQwenImageEdit(Edit):
    def make_model(self) -> Any:
        return qwen_image_edit()


@NEEDS_2511
class TestQwenImageEdit2511(Edit):
    def make_model(self) -> Any:
        return qwen_image_edit_2511()
