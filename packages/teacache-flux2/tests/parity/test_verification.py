"""`wrap(verify=True)` where it is hardest: compiled entries, and a key-value cache that the first step fills."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import teacache
from teacache.testing.materials import picture
from teacache.testing.spies import expected_warnings, record_latents, same

from .pipelines import ARGUMENTS, klein, klein_edit_kv


@pytest.mark.parametrize("make", [klein, klein_edit_kv])
def test_verifying_moves_nothing(make: Callable[[], Any], tmp_path: Path) -> None:
    """Red when the two more forwards of a verification change the picture, or the two paths differ."""
    model = make()
    given = {**ARGUMENTS, "seed": 3, "num_inference_steps": 4}
    if make is klein_edit_kv:
        given["image_paths"] = [picture(tmp_path)]
    plain = record_latents(model, **given)
    with expected_warnings(), teacache.wrap(model, threshold=0.0, verify=True) as handle:
        verified = record_latents(model, **given)
    assert handle.verification is not None and handle.verification.distance.exact
    assert same(plain, verified)
