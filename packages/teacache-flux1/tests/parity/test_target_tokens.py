"""Which tokens of each pipeline become the picture: residual and signal are taken on those."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import PIL.Image
import pytest
from mflux.models.common.config.config import Config

import teacache
from teacache.boundary import Boundary
from teacache.testing.conformance import ALTERNATE
from teacache.testing.spies import Latents, expected_warnings, record_latents, same

from .pipelines import HEIGHT, MAKERS, WIDTH, arguments

TOKENS = (HEIGHT // 16) * (WIDTH // 16)
ENTER_AND_TARGET = {
    "Flux1Kontext": (2 * TOKENS, TOKENS),  # the reference's tokens behind the target's
    "Flux1InContextDev": (2 * TOKENS, 2 * TOKENS),  # side by side: both halves are the picture that mflux returns
    "Flux1InContextFill": (2 * TOKENS, 2 * TOKENS),
}


class Spy:
    """Keeps what the body's boundary saw of a wrapped run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered: list[mx.array] = []
        self.signals: list[mx.array] = []
        self.before: list[mx.array] = []
        self.after: list[mx.array] = []
        probe, compute = Boundary.probe, Boundary.compute

        def probed(*args: Any) -> Any:
            signal, tokens = probe(*args)
            self.signals.append(signal)
            self.entered.append(tokens[0])
            return signal, tokens

        def computed(*args: Any) -> Any:
            output, before, after = compute(*args)
            self.before += before
            self.after += after
            return output, before, after

        monkeypatch.setattr(Boundary, "probe", probed)
        monkeypatch.setattr(Boundary, "compute", computed)


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    return Spy(monkeypatch)


def wrapped(model: Any, name: str, folder: Path, *, options: dict[str, Any] = ALTERNATE, **overrides: Any) -> Latents:
    with expected_warnings(), teacache.wrap(model, **options):
        return record_latents(model, seed=3, num_inference_steps=6, **{**arguments(name, folder), **overrides})


@pytest.mark.parametrize("name", MAKERS)
def test_residual_and_signal_cover_the_target(name: str, spy: Spy, tmp_path: Path) -> None:
    """Red when reference tokens are kept, or when a half of an in-context picture is left out."""
    wrapped(MAKERS[name](), name, tmp_path)
    enter, target = ENTER_AND_TARGET.get(name, (TOKENS, TOKENS))
    assert {tokens.shape[1] for tokens in spy.entered} == {enter}
    assert {array.shape[1] for array in (*spy.signals, *spy.before, *spy.after)} == {target}
    assert len(spy.signals) > len(spy.before) == len(spy.after) > 0


def test_kontext_signal_does_not_see_the_reference(spy: Spy, tmp_path: Path) -> None:
    """Red when the target is taken from the wrong end of the stream: the first signal would know the reference."""
    model = MAKERS["Flux1Kontext"]()
    other = tmp_path / "other.png"
    PIL.Image.new("RGB", (WIDTH, HEIGHT), (20, 60, 200)).save(other)
    wrapped(model, "Flux1Kontext", tmp_path)
    first, entered = spy.signals[0], spy.entered[0]
    spy.signals.clear()
    spy.entered.clear()
    wrapped(model, "Flux1Kontext", tmp_path, image_path=other)
    assert mx.array_equal(first, spy.signals[0])
    assert not mx.array_equal(entered, spy.entered[0])


@pytest.mark.parametrize("options", [ALTERNATE, {"plan": [0, 2, 5]}], ids=["gate", "plan"])
def test_in_context_dev_reuses_the_right_half_alone(options: dict[str, Any], tmp_path: Path) -> None:
    """Red when reuse moves the reference half, which mflux rewrites after each step, or spares the picture half."""
    model, name = MAKERS["Flux1InContextDev"](), "Flux1InContextDev"
    plain = record_latents(model, seed=3, num_inference_steps=6, **arguments(name, tmp_path))
    reused = wrapped(model, name, tmp_path, options=options)

    def halves(latents: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        return np.split(latents.reshape(HEIGHT // 16, 2 * (WIDTH // 16), -1), 2, axis=1)

    for step, (before, after) in enumerate(zip(plain, reused, strict=True)):
        (left, right), (left_reused, right_reused) = halves(before), halves(after)
        assert np.array_equal(left, left_reused)
        assert np.array_equal(right, right_reused) == (step == 0)


def test_in_context_fill_with_a_picture_to_repaint(tmp_path: Path) -> None:
    """Red when the mode with a right picture and its mask, which the shared suite does not draw, is traced wrongly."""
    model, name = MAKERS["Flux1InContextFill"](), "Flux1InContextFill"
    given = arguments(name, tmp_path)
    given |= {"right_image_path": given["left_image_path"], "masked_image_path": tmp_path / "mask.png"}
    plain = record_latents(model, seed=3, num_inference_steps=6, **given)
    assert same(plain, wrapped(model, name, tmp_path, options={"mode": "shadow", **ALTERNATE}, **given))
    assert not same(plain, wrapped(model, name, tmp_path, **given))


@pytest.mark.parametrize("name", MAKERS)
def test_what_mflux_counts(name: str, tmp_path: Path) -> None:
    """Red when mflux begins to count other tokens as the picture's: the adapter would have to say so."""
    seen: list[int] = []

    class Counter:
        def call_before_loop(self, latents: mx.array, config: Config, **_: Any) -> None:
            assert config.image_seq_len == latents.shape[1]
            seen.append(config.image_seq_len)

    model = MAKERS[name]()
    model.callbacks.register(Counter())
    record_latents(model, seed=3, num_inference_steps=1, **arguments(name, tmp_path))
    assert seen == [ENTER_AND_TARGET.get(name, (TOKENS, TOKENS))[1]]
