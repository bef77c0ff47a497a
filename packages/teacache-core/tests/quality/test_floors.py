"""The SSIM floors of the toys lie between what was measured and the picture of a cache that is wrong."""

from __future__ import annotations

import pytest

from teacache.testing.models import toy_calibration, toy_subject
from teacache.testing.oracles import expected_of, quality
from teacache.testing.planted import find_bug

pytestmark = pytest.mark.quality


@pytest.mark.parametrize("family", ["flux1", "flux2", "qwen", "zimage"])
def test_a_planted_bug_falls_below_the_floor(family: str) -> None:
    """Red when a toy's floor was derived so loosely that a residual added twice makes a good picture."""
    pytest.importorskip(f"teacache_{family}")
    calibration = toy_calibration(family)
    assert calibration is not None and calibration.recipe is not None
    recipe = calibration.recipe
    expected = expected_of(calibration, steps=recipe.steps)
    assert expected.status == "measured" and expected.least_ssim is not None
    subject = toy_subject(family, steps=recipe.steps, guidance=recipe.guidance, side=recipe.height or 128)
    with find_bug("residual added twice").plant():
        result = quality(subject, band=expected.band, least_ssim=expected.least_ssim)
    assert [check.name for check in result.failures] == ["SSIM"], str(result)
