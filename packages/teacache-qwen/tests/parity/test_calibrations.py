"""Whose numbers each pipeline is given."""

from __future__ import annotations

import pytest
from mflux.models.common.config.model_config import ModelConfig
from mflux.models.qwen.variants.edit.qwen_image_edit import QwenImageEdit
from mflux.models.qwen.variants.txt2img.qwen_image import QwenImage

import teacache
from teacache.testing.spies import expected_warnings, record_latents

from .pipelines import ARGUMENTS, NEEDS_2511, qwen_image


def test_the_published_numbers_are_used() -> None:
    """Red when the shipped numbers do not fit the adapter that they are shipped with, and are never used."""
    with expected_warnings(), teacache.wrap(qwen := qwen_image(), threshold=0.25) as handle:
        record_latents(qwen, **ARGUMENTS | {"guidance": 4.0, "height": 32}, seed=3, num_inference_steps=40)
    stats = handle.stats.last
    assert stats is not None
    assert stats.checkpoint == "Qwen/Qwen-Image-2512"
    assert stats.policy.startswith("gate at threshold")


@pytest.mark.parametrize(
    ("config", "cls", "calibrated"),
    [
        ("qwen_image", QwenImage, True),
        ("qwen_image", QwenImageEdit, False),
        ("qwen_image_edit", QwenImageEdit, False),
        pytest.param("qwen_image_edit_2511", QwenImageEdit, False, marks=NEEDS_2511),
    ],
)
def test_editing_borrows_no_numbers(config: str, cls: type, calibrated: bool) -> None:
    """Red when text-to-image numbers are lent to editing, or text-to-image has none."""
    found = teacache.supports(getattr(ModelConfig, config)(), cls)
    assert found is not None
    assert (found.family, found.calibrated, found.distilled) == ("qwen", calibrated, False)
