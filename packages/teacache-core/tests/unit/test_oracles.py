"""The oracles on the smallest model: what they say of correct code, and that they refuse to say more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

import teacache
from teacache.distance import FAR, distance, distances, worst
from teacache.errors import OptionError, OracleError, ToleranceError
from teacache.stats import RunStats
from teacache.testing.conformance import AdapterConformance, overrides
from teacache.testing.denoiser import ADAPTER, Denoiser, denoise
from teacache.testing.oracles import (
    Check,
    Result,
    Subject,
    drift,
    drift_of_core,
    equivalence,
    neutrality,
    quality,
    surface,
)
from teacache.testing.oracles.drift import Pins, load_pins, save_pins, shipped
from teacache.testing.oracles.surface import read_surface
from teacache.testing.spies import Latents

pytestmark = pytest.mark.unit

STEPS = 7


def generate(model: Any, handle: teacache.Handle | None = None, **overrides: Any) -> Latents:
    return denoise(model, handle, seed=overrides.get("seed", 3), steps=STEPS, guidance=3.0)


SUBJECT = Subject(adapter=ADAPTER, make_model=Denoiser, generate=generate, steps=STEPS, installed=False)


def test_correct_code_passes() -> None:
    """Red when an oracle fails what is right: every later failure would be explained away."""
    for result in (neutrality(SUBJECT), equivalence(SUBJECT)):
        assert result.passed, str(result)
        assert {check.verdict for check in result.checks} == {"passed"}


def test_neutrality_asks_in_both_orders_of_three_settings() -> None:
    """Red when a setting or an order is dropped, so that less is asked than the documentation says."""
    names = [check.name for check in neutrality(SUBJECT).checks]
    for setting in ("threshold 0", "shadow", "plan of all steps"):
        asked = [name.removeprefix(f"{setting}: ") for name in names if name.startswith(setting)]
        assert asked == ["as plain", "path taken", "given back", "plain again", "wrapped first"]


def test_neutrality_sees_a_path_that_was_not_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when equal bytes are enough: a wrapper that never traces would be called neutral."""
    run = Subject.run

    def plainly(subject: Subject, model: Any, **options: Any) -> tuple[Latents, RunStats | None]:
        return run(subject, model, threshold=0.0)

    monkeypatch.setattr(Subject, "run", plainly)
    assert [check.name for check in neutrality(SUBJECT).failures] == [
        "shadow: path taken",
        "plan of all steps: path taken",
    ]


def test_quality_needs_a_cache_that_works() -> None:
    """Red when a picture that is perfect because nothing was reused passes."""
    assert quality(SUBJECT, band=(1, 5), options={"coefficients": [0, 0, 0, 0, 1], "threshold": 2.5}).passed
    idle = quality(SUBJECT, band=(1, 5), options={"threshold": 0.0}, least_psnr=20.0)
    assert [check.name for check in idle.failures] == ["reused steps in the band"]
    assert idle.checks[1].figures["measured"] == float("inf")


def test_a_failed_result_is_an_error_with_its_table() -> None:
    """Red when a failure passes for a success, is not explained, or cannot be written as JSON."""
    failed = quality(SUBJECT, band=(6, 6), options={"threshold": 0.0})
    with pytest.raises(OracleError, match=r"FAILED(?s:.*)reused 0(?s:.*)does less than it should"):
        failed.require()
    data = json.loads(failed.to_json())
    assert data["passed"] is False and data["evidence"]["mlx"] and data["checks"][1]["figures"]["measured"] == "inf"


def test_nothing_judged_is_not_passed() -> None:
    """Red when an oracle that could judge nothing counts as passed."""
    checks = (Check(name="x", verdict="not judged"),)
    assert not Result(oracle="drift", question="?", subject="s", checks=checks, evidence={}).passed


def test_unknown_parts_are_refused() -> None:
    """Red when a misspelt part is silently not asked."""
    with pytest.raises(OptionError, match="computed, reused, compiled, runs"):
        equivalence(SUBJECT, parts=("reuse",))


def test_distances_are_those_of_the_numbers() -> None:
    """Red when a measure is wrong, or when NaN or another shape counts as near."""
    a, b = np.array([1.0, 2.0]), np.array([1.0, 4.0])
    measured = distance(a, b)
    assert (measured.max_abs, measured.mean_abs) == (2.0, 1.0)
    assert measured.max_rel == pytest.approx(0.5) and measured.cosine == pytest.approx(9 / (5 * 17) ** 0.5)
    assert distance(a, a).exact and not measured.exact
    assert distance(a, np.array([1.0, np.nan])) == distance(a, a[:1]) == FAR
    assert distances([a], [a, b])[1] == FAR and worst(distances([a, a], [a, b])).max_abs == 2.0


class Swapped(Denoiser):
    """The same model after its authors turned the block's arguments into keywords."""

    def __call__(self, x: mx.array, sigma: float, shift: float = 0.0) -> mx.array:
        tokens, time = self.embed(x) + shift, mx.array([sigma, 1 - sigma] * 8)
        for block in self.blocks:
            tokens = block(tokens=tokens, time=time)
        return self.head(tokens)


def test_the_surface_says_what_changed() -> None:
    """Red when a changed block call is not noticed, or is reported without what it was."""
    pinned = read_surface(SUBJECT, Denoiser())
    assert pinned["block arguments"] == "0, 1" and pinned["block returns"] == "image alone"
    assert surface(SUBJECT, pinned).passed
    changed = Subject(adapter=ADAPTER, make_model=Swapped, generate=generate, steps=STEPS, installed=False)
    failed = [check for check in surface(changed, pinned).failures if check.name == "block arguments"]
    assert [check.says for check in failed] == ["Swapped: block arguments was 0, 1; it is now time, tokens."]


class Hollow:
    """A mixin that makes every test of the suite look at an untouched model."""

    def wrapped(self, model: Any, **options: Any) -> Any:
        raise NotImplementedError


class Silent(Hollow, AdapterConformance):  # type: ignore[misc]
    """A suite that takes a test out without a word, one by a mixin, and replaces one with a reason."""

    adapter = ADAPTER

    test_two_models_do_not_meet = None  # type: ignore[assignment]

    @overrides("this model has one object only")
    def test_wrapping_twice_is_refused(self, model: Any) -> None:
        raise NotImplementedError


def test_a_silent_override_fails() -> None:
    """Red when an adapter can take a test out of the suite, itself or by a mixin, and nobody hears of it."""
    with pytest.raises(AssertionError, match=r"^Silent.test_two_models_do_not_meet, Hollow.wrapped replace"):
        Silent().test_no_test_is_overridden_in_silence()
    with pytest.raises(OptionError, match="no reason"):
        overrides(" ")


def test_the_watchman_cannot_be_replaced() -> None:
    """Red when the test that finds silent overrides can be overridden in silence."""
    with pytest.raises(OptionError, match="keeps the suite whole"):
        type("Deaf", (AdapterConformance,), {"test_no_test_is_overridden_in_silence": lambda self: None})


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An installed package with one data file, pinned."""
    name = f"moving_{tmp_path.name.replace('-', '_')}"
    folder = tmp_path / name
    (folder / "calibrations").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "calibrations" / "dev.toml").write_text("schema = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    save_pins(name, Pins(files=shipped(name), revisions={"lab/Model-1": "a" * 40}, surface={"X": {"tail": "head"}}))
    return name


def test_drift_says_what_moved(package: str, tmp_path: Path) -> None:
    """Red when a changed file, a new one, or weights of another revision go unnoticed."""
    still = drift(ADAPTER, package=package)
    assert still.passed and [check.verdict for check in still.checks] == ["passed", "not judged"]
    assert load_pins(package).surface == {"X": {"tail": "head"}}
    (tmp_path / package / "calibrations" / "dev.toml").write_text("schema = 2\n")
    (tmp_path / package / "calibrations" / "new.toml").write_text("schema = 1\n")
    (tmp_path / "hub" / "models--lab--Model-1" / "snapshots" / ("b" * 40)).mkdir(parents=True)
    says = " ".join(check.says for check in drift(ADAPTER, package=package).failures)
    assert "dev.toml is not the file that was pinned" in says and "new.toml is not pinned" in says
    assert "another revision" in says


def test_nothing_that_core_ships_has_moved() -> None:
    """Red when a data file of core is not the pinned one: `teacache tolerance pin core` pins it again."""
    assert drift_of_core().passed, str(drift_of_core())


def test_drift_needs_something_that_can_move() -> None:
    """Red when an adapter that ships nothing is reported as unmoved."""
    with pytest.raises(ToleranceError, match="ships no data"):
        drift(ADAPTER)
