"""Whose numbers each pipeline is given."""

from __future__ import annotations

from typing import Any

import pytest
from mflux.models.common.config.model_config import ModelConfig
from mflux.models.flux2.variants.edit.flux2_klein_edit import Flux2KleinEdit
from mflux.models.flux2.variants.txt2img.flux2_klein import Flux2Klein

import teacache
from teacache.testing.spies import expected_warnings, record_latents

from .pipelines import ARGUMENTS, klein


def test_the_published_numbers_are_used() -> None:
    """Red when the shipped numbers do not fit the adapter that they are shipped with, and are never used."""
    with expected_warnings(), teacache.wrap(model := klein(), threshold=0.17) as handle:
        record_latents(model, **ARGUMENTS | {"guidance": 4.0, "height": 32}, seed=3, num_inference_steps=40)
    stats = handle.stats.last
    assert stats is not None
    assert stats.checkpoint == "black-forest-labs/FLUX.2-klein-base-4B"
    assert stats.policy.startswith("gate at threshold")


@pytest.mark.parametrize(
    ("config", "cls", "calibrated", "distilled"),
    [
        (ModelConfig.flux2_klein_base_4b(), Flux2Klein, True, False),
        (ModelConfig.flux2_klein_base_9b(), Flux2Klein, True, False),
        (ModelConfig.flux2_klein_base_4b(), Flux2KleinEdit, False, False),
        (ModelConfig.flux2_klein_4b(), Flux2Klein, False, True),
        (ModelConfig.flux2_klein_9b_kv(), Flux2KleinEdit, False, True),
    ],
    ids=lambda value: getattr(value, "model_name", getattr(value, "__name__", value)),
)
def test_editing_borrows_no_numbers(config: Any, cls: type, calibrated: bool, distilled: bool) -> None:
    """Red when text-to-image numbers are lent to editing, or a distilled checkpoint is not known as one."""
    found = teacache.supports(config, cls)
    assert found is not None
    assert (found.family, found.calibrated, found.distilled) == ("flux2", calibrated, distilled)
