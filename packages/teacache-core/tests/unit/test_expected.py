"""What the quality oracle asks of a checkpoint comes from its calibration's evidence."""

from __future__ import annotations

from typing import Any

import pytest

from teacache.calibration import BODY_OUTPUT_CHANGE, Calibration, GateNumbers, Recipe, SignalSource
from teacache.testing.oracles import expected_of

pytestmark = pytest.mark.unit


def known(threshold: float | None = 0.2, distilled: bool = False, **evidence: Any) -> Calibration:
    return Calibration(
        checkpoint="lab/Model-1",
        pipelines=("P",),
        status="published",
        distilled=distilled,
        evidence={"source": "a paper", **evidence},
        gate=GateNumbers(coefficients=(0.0, 0.0, 0.0, 1.0, 0.0), threshold=threshold),
        signal=SignalSource(tensor="x"),
        change=BODY_OUTPUT_CHANGE,
        recipe=Recipe(steps=25, guidance=3.5),
    )


def test_a_published_point_is_a_band_of_one_step_around_it() -> None:
    """Red when FLUX.1-dev's 6 of 25 is not asked for as 5 to 7, or its published SSIM floor is not kept."""
    expected = expected_of(known(reused=6, ssim_floor=0.8), steps=25)
    assert (expected.band, expected.least_ssim, expected.status) == ((5, 7), 0.8, "published")
    assert expected.options == {} and expected.source == "a paper"


def test_a_published_likeness_gets_the_margin() -> None:
    """Red when one prompt's SSIM on another machine is demanded to the last digit, or not at all."""
    assert expected_of(known(reused=10, ssim=0.99), steps=25).least_ssim == 0.98
    assert expected_of(known(reused=10), steps=25).least_ssim is None


def test_a_sweep_is_read_at_the_threshold_in_use() -> None:
    """Red when the figures of another threshold are expected."""
    swept = {"sweep_threshold": (0.1, 0.2), "sweep_reused": (4.0, 8.5), "sweep_worst_ssim": (0.999, 0.99)}
    expected = expected_of(known(**swept), steps=25)
    assert (expected.band, expected.least_ssim, expected.status) == ((6, 11), 0.98, "measured")
    assert expected_of(known(threshold=0.3, **swept), steps=25).status == "by construction"


def test_no_band_lets_an_idle_cache_pass() -> None:
    """Red when a low published figure makes "nothing reused" a success."""
    assert expected_of(known(reused=1), steps=25).band == (1, 2)
    assert expected_of(known(reused=24), steps=25).band == (23, 23)


def test_outside_the_recipe_a_plan_says_how_many() -> None:
    """Red when a gate that refuses its recipe is called broken, or when figures of other settings are expected."""
    expected = expected_of(known(reused=6), steps=10)
    assert expected.band == (4, 4) and list(expected.options["plan"]) == [0, 2, 4, 6, 8]
    assert expected.least_ssim is None and "no figures" in expected.source


def test_a_distilled_checkpoint_reuses_nothing() -> None:
    """Red when a checkpoint of a few steps is held to reuse."""
    assert expected_of(known(distilled=True, reused=0), steps=8).band == (0, 0)
