"""Whose numbers each pipeline is given: FLUX.1-dev's configuration stands behind several of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from mflux.models.common.config.model_config import ModelConfig
from mflux.models.flux.variants.txt2img.flux import Flux1

import teacache
from teacache.errors import NoCalibrationWarning
from teacache.testing.spies import expected_warnings, record_latents

from .pipelines import MAKERS, arguments, pipeline


@pytest.mark.parametrize(("config", "steps", "guidance"), [("dev", 25, 3.5), ("krea_dev", 28, 4.5)])
def test_text_to_image_has_numbers(config: str, steps: int, guidance: float, tmp_path: Path) -> None:
    """Red when the shipped numbers do not fit the adapter that they are shipped with, and are never used."""
    model = pipeline(Flux1, getattr(ModelConfig, config)())
    found = teacache.supports(model.model_config, Flux1)
    assert found is not None and found.calibrated and found.identity == "exact"
    with expected_warnings(), teacache.wrap(model) as handle:
        record_latents(
            model, **arguments("Flux1", tmp_path) | {"seed": 3, "num_inference_steps": steps, "guidance": guidance}
        )
    stats = handle.stats.last
    assert stats is not None and stats.checkpoint == model.model_config.model_name
    assert stats.policy.startswith("gate at threshold")


@pytest.mark.parametrize("name", MAKERS)
def test_no_other_pipeline_gets_those_numbers(name: str) -> None:
    """Red when text-to-image numbers are lent to a pipeline whose configuration says FLUX.1-dev too."""
    model = MAKERS[name]()
    found = teacache.supports(model.model_config, type(model))
    assert found is not None and (found.family, found.calibrated) == ("flux1", name == "Flux1")


def test_redux_on_dev_measures_instead_of_borrowing(tmp_path: Path) -> None:
    """Red when the gate that `supports` denies is used by `wrap` all the same, or left out in silence."""
    model = MAKERS["Flux1Redux"]()
    with pytest.warns(NoCalibrationWarning, match="Flux1Redux"), teacache.wrap(model, threshold=0.2) as handle:
        record_latents(model, seed=3, num_inference_steps=25, **arguments("Flux1Redux", tmp_path))
    stats = handle.stats.last
    assert stats is not None and stats.checkpoint is None and stats.reused == 0
