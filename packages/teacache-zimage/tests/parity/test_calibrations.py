"""Whose numbers each pipeline is given."""

from __future__ import annotations

from typing import Any

import pytest
from mflux.models.common.config.model_config import ModelConfig
from mflux.models.z_image.variants.controlnet.z_image_turbo_controlnet import ZImageTurboControlnet
from mflux.models.z_image.variants.z_image import ZImage

import teacache
from teacache.testing.spies import expected_warnings, record_latents

from .pipelines import ARGUMENTS, z_image


def test_the_published_numbers_are_used() -> None:
    """Red when the shipped numbers do not fit the adapter that they are shipped with, and are never used."""
    with expected_warnings(), teacache.wrap(model := z_image(), threshold=0.12) as handle:
        record_latents(model, **ARGUMENTS | {"guidance": 4.0, "height": 32}, seed=3, num_inference_steps=40)
    stats = handle.stats.last
    assert stats is not None
    assert stats.checkpoint == "Tongyi-MAI/Z-Image"
    assert stats.policy.startswith("gate at threshold")


@pytest.mark.parametrize(
    ("config", "cls", "calibrated", "distilled"),
    [
        (ModelConfig.z_image(), ZImage, True, False),
        (ModelConfig.z_image_turbo(), ZImage, False, True),
        (ModelConfig.z_image_turbo_controlnet_union_2_1(), ZImageTurboControlnet, False, True),
    ],
    ids=lambda value: getattr(value, "model_name", getattr(value, "__name__", value)),
)
def test_turbo_is_known_to_be_distilled(config: Any, cls: type, calibrated: bool, distilled: bool) -> None:
    """Red when the base model's numbers are lent to Turbo, or the user is not told that Turbo has few steps."""
    found = teacache.supports(config, cls)
    assert found is not None
    assert (found.family, found.calibrated, found.distilled) == ("zimage", calibrated, distilled)
