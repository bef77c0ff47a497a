"""The oracles on real weights: off by default, `nox -s weights`. Nothing is downloaded: `hf download NAME` first.

Each checkpoint that an installed adapter describes and that lies in Hugging Face's cache is asked all four questions,
as `teacache check --model NAME --quantize BITS` asks them. TEACACHE_WEIGHTS_BITS sets the bits; without it the
calibration's, else 4.
"""

from __future__ import annotations

import os

import pytest

import teacache
from teacache.calibration import Calibration, load_calibrations
from teacache.cli import main
from teacache.testing.oracles.drift import present_revisions

BITS = "TEACACHE_WEIGHTS_BITS"


def described() -> list[Calibration]:
    """Every checkpoint with a text-to-image pipeline, toys aside."""
    found = []
    for row in teacache.adapters():
        if row.adapter is not None and row.adapter.calibrations is not None:
            from_text = {one.name for one in row.adapter.pipelines if one.summary == "text-to-image"}
            found += [one for one in load_calibrations(row.adapter.calibrations) if from_text & {*one.pipelines}]
    return [one for one in found if not one.checkpoint.startswith("teacache/")]


@pytest.mark.parametrize("calibration", described(), ids=lambda one: one.checkpoint)
def test_the_oracles_pass(calibration: Calibration) -> None:
    """Red when wrapping real weights moves a byte, reuses wrongly, or reuses another number of steps than published."""
    if not present_revisions(calibration.checkpoint):
        pytest.skip(f"not in the cache. Fetch it: hf download {calibration.checkpoint}")
    recipe = calibration.recipe
    bits = os.environ.get(BITS) or str((recipe.quantize if recipe else None) or 4)
    assert main(["check", "--model", calibration.checkpoint, "--quantize", bits]) == 0


def test_there_are_weights() -> None:
    """Red when no checkpoint is here: a tier in which all is skipped would pass and say nothing."""
    names = [one.checkpoint for one in described()]
    assert any(map(present_revisions, names)), f"No weights are here. Fetch some, for example: hf download {names[0]}"
