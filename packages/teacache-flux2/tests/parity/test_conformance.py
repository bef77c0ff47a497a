"""The shared suite on every FLUX.2 Klein pipeline of mflux, and the settings that only they have."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from teacache.testing.conformance import AdapterConformance
from teacache.testing.materials import picture
from teacache_flux2 import ADAPTER

from .pipelines import ARGUMENTS, klein, klein_edit, klein_edit_kv


class Conformance(AdapterConformance):
    adapter = ADAPTER
    steps = 6
    arguments: ClassVar[dict[str, Any]] = ARGUMENTS
    variation: ClassVar[dict[str, Any]] = {"height": 48, "guidance": 1.0}


class TestFlux2Klein(Conformance):
    def make_model(self) -> Any:
        return klein()

    def test_guidance_off(self, model: Any) -> None:
        """Red when two branches are expected where the pipeline calls the model once."""
        self.holds(model, guidance=1.0)

    def test_image_to_image(self, model: Any, tmp_path: Path) -> None:
        """Red when a late first step is counted from 0, or when no residual is asked for in the first step."""
        self.holds(model, image_path=picture(tmp_path), image_strength=0.3)


class Edit(Conformance):
    @pytest.fixture(autouse=True)
    def _references(self, tmp_path: Path) -> None:
        self.pictures = [picture(tmp_path), picture(tmp_path, side=32, seed=1)]
        self.arguments = {**ARGUMENTS, "image_paths": self.pictures[:1]}

    def test_two_references_without_guidance(self, model: Any) -> None:
        """Red when the number of reference tokens is taken from the picture's own, or two branches are expected."""
        self.holds(model, image_paths=self.pictures, guidance=1.0)


class TestFlux2KleinEdit(Edit):
    def make_model(self) -> Any:
        return klein_edit()


class TestFlux2KleinEditWithKeyValueCache(Edit):
    def make_model(self) -> Any:
        return klein_edit_kv()

    def test_the_checkpoint_without_its_cache(self, model: Any) -> None:
        """Red when the key-value cache is expected of a checkpoint rather than seen in a run."""
        self.holds(model, use_kv_cache=False)
