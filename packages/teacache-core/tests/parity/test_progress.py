"""What a user sees of the cache while and after mflux makes a picture: its bar, and the picture's metadata."""

from __future__ import annotations

import functools
import io
from pathlib import Path
from typing import Any

import pytest

import teacache
from teacache.errors import NothingReusedWarning
from teacache.report.metadata import read_metadata
from teacache.testing import toy_pipeline

pytest.importorskip("teacache_flux2")
tqdm = pytest.importorskip("tqdm").tqdm  # mflux brings it; core alone has none

STEPS = 8
PLAN = (0, 2, 5)


def make(model: Any, *, seed: int = 1) -> Any:
    return model.generate_image(
        seed=seed, prompt="red circle left", num_inference_steps=STEPS, height=64, width=64, guidance=1.0
    )


@pytest.fixture(scope="module")
def model() -> Any:
    return toy_pipeline("flux2", weights=False)


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The bars that mflux makes, shown after every step on a screen of our own."""
    from mflux.models.common.config import config

    made: list[Any] = []

    def bar(*args: Any, **kwargs: Any) -> Any:
        made.append(tqdm(*args, **kwargs, file=io.StringIO(), disable=False, mininterval=0, miniters=1, ncols=100))
        return made[-1]

    monkeypatch.setattr(config, "tqdm", functools.wraps(tqdm)(bar))
    return made


def test_the_bar_counts_computed_and_reused_steps(model: Any, bars: list[Any]) -> None:
    """Red when the bar does not show the cache at work, counts a step late, or still does so after restore."""
    with teacache.wrap(model, plan=PLAN):
        make(model)
    make(model)
    wrapped, plain = (bar.fp.getvalue().split("\r") for bar in bars)
    for done in range(1, STEPS):
        computed = len([step for step in (*PLAN, STEPS - 1) if step < done])
        (line,) = {line for line in wrapped if f" {done}/{STEPS} " in line}
        assert f"computed {computed}, reused {done - computed}]" in line
    assert not any("reused" in line for line in plain)


def test_a_disabled_bar_is_left_alone(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when TQDM_DISABLE, or a callback's own stand-in for the bar, breaks the picture."""
    from mflux.models.common.config import config

    monkeypatch.setattr(config, "tqdm", lambda steps: tqdm(steps, disable=True))
    with teacache.wrap(model, plan=PLAN) as handle:
        make(model)
        (own,) = (one for one in model.callbacks.in_loop if type(one).__module__ == "teacache.hosts.mflux")
        assert handle.stats.last is not None and handle.stats.last.reused == STEPS - 4
        own.call_in_loop(t=0, seed=1, prompt="", latents=None, config=None, time_steps=range(3))


def test_a_saved_picture_says_what_made_it(model: Any, tmp_path: Path) -> None:
    """Red when a field is left out, or does not come back from the PNG that mflux saves."""
    with teacache.wrap(model, plan=PLAN):
        make(model).save(tmp_path / "planned.png")
    with teacache.wrap(model, coefficients=[0, 0, 0, 1, 0], threshold=5.0):
        make(model).save(tmp_path / "gated.png")
    planned, gated = read_metadata(tmp_path / "planned.png"), read_metadata(tmp_path / "gated.png")
    assert planned is not None and gated is not None
    versions = planned.pop("versions")
    assert {*versions} == {"teacache-core", "teacache-flux2", "mflux", "mlx"}
    assert planned == {
        "policy": "given plan",
        "threshold": None,
        "steps": STEPS,
        "computed_steps": [*PLAN, STEPS - 1],
        "checkpoint": "teacache/toy-flux2",
        "identity": "exact",
        "calibration": None,
    }
    assert (gated["threshold"], gated["computed_steps"]) == (5.0, [0, STEPS - 1])


def test_the_calibration_that_decided_is_named(model: Any) -> None:
    """Red when a picture made by a calibrated gate does not say whose numbers it used."""
    with teacache.wrap(model, threshold=50.0) as handle:
        image = model.generate_image(
            seed=1, prompt="red circle left", num_inference_steps=30, height=64, width=64, guidance=2.0
        )
        assert handle.stats.last is not None and handle.stats.last.reused
    made = image.generation_parameters["teacache"]
    assert made["calibration"] == "teacache/toy-flux2 (calibrated)"
    assert made["identity"] == "exact" and made["threshold"] == 50.0


def test_a_plain_picture_carries_nothing(model: Any, tmp_path: Path) -> None:
    """Red when a picture in which nothing was reused differs in its metadata from a plain one."""
    with teacache.wrap(model, threshold=0), pytest.warns(NothingReusedWarning):
        make(model).save(tmp_path / "off.png")
    assert read_metadata(tmp_path / "off.png") is None
