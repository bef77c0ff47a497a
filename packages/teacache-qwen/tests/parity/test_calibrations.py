"""Whose numbers each pipeline is given."""

from __future__ import annotations

from typing import Any

import pytest
from mflux.models.common.config.model_config import ModelConfig
from mflux.models.qwen.variants.edit.qwen_image_edit import QwenImageEdit
from mflux.models.qwen.variants.txt2img.qwen_image import QwenImage

import teacache
from teacache.testing.spies import expected_warnings, record_latents

from .pipelines import ARGUMENTS, qwen_image


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
        (ModelConfig.qwen_image(), QwenImage, True),
        (ModelConfig.qwen_image(), QwenImageEdit, False),
        (ModelConfig.qwen_image_edit(), QwenImageEdit, False),
        (ModelConfig.qwen_image_edit_2511(), QwenImageEdit, False),
    ],
    ids=lambda value: getattr(value, "model_name", getattr(value, "__name__", value)),
)
def test_editing_borrows_no_numbers(config: Any, cls: type, calibrated: bool) -> None:
    """Red when text-to-image numbers are lent to editing, or text-to-image has none."""
    found = teacache.supports(config, cls)
    assert found is not None
    assert (found.family, found.calibrated, found.distilled) == ("qwen", calibrated, False)
