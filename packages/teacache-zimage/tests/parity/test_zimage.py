"""What only Z-Image has: one padded stream, a signal over all of it, and a ControlNet that reused steps do without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

import teacache
from teacache.adapter import BlockCall
from teacache.boundary import Boundary
from teacache.errors import CompileOptionError
from teacache.testing.conformance import ALTERNATE
from teacache.testing.spies import compile_disabled, expected_warnings, record_latents, same
from teacache_zimage import padded, residual_of_first_layer

from .pipelines import ARGUMENTS, PROMPT, controls, z_image, z_image_turbo_controlnet


@pytest.mark.parametrize(("tokens", "expected"), [(1, 32), (31, 32), (32, 32), (33, 64), (4096, 4096)])
def test_padding(tokens: int, expected: int) -> None:
    """Red when a full block of 32 gets another one, or when the padding is left out."""
    assert padded(tokens) == expected


@pytest.mark.parametrize(("side", "image", "texts"), [(64, 32, {64, 32}), (96, 64, {64, 32})])
def test_the_stream_is_image_padding_text(side: int, image: int, texts: set[int]) -> None:
    """Red when the signal is cut to the target tokens, or when mflux pads or orders its stream in another way."""
    model = z_image()
    layer = model.transformer.layers[0]
    calls: list[tuple[BlockCall, mx.array]] = []
    base = type(layer)

    class Spied(base):  # type: ignore[misc, valid-type]
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            output = super().__call__(*args, **kwargs)
            calls.append((BlockCall(block=self, args=args, kwargs=kwargs), output))
            return output

    layer.__class__ = Spied
    with compile_disabled():
        record_latents(model, **{**ARGUMENTS, "height": side, "width": side}, seed=3, num_inference_steps=2)
    layer.__class__ = base
    assert padded(side * side // 256) == image
    assert {call["x"].shape[1] - image for call, _ in calls} == texts
    for call, output in calls:
        signal = residual_of_first_layer(call)
        assert signal.shape == call["x"].shape
        assert mx.array_equal(signal, output - call["x"])


def test_residuals_are_those_of_image_and_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when the text behind the image is reused too: its length differs between the branches."""
    shapes = set()
    plain = Boundary.compute

    def compute(self: Boundary, *args: Any) -> Any:
        output, before, after = plain(self, *args)
        shapes.update(tokens.shape[1] for tokens in (*before, *after))
        return output, before, after

    monkeypatch.setattr(Boundary, "compute", compute)
    model = z_image()
    with expected_warnings(), teacache.wrap(model, **ALTERNATE, compile=False):
        record_latents(model, **ARGUMENTS, seed=3, num_inference_steps=6)
    assert shapes == {32}


class SpiedControlNet:
    """Keeps what a ControlNet gave in each step, and can spoil the steps with the given indices."""

    def __init__(self, model: Any, spoil: tuple[int, ...] = ()) -> None:
        self.samples: list[dict[int, mx.array]] = []
        base = type(model.controlnet)
        spy = self

        class Spied(base):  # type: ignore[misc, valid-type]
            def __call__(self, **kwargs: Any) -> Any:
                samples = super().__call__(**kwargs)
                if kwargs["t"] in spoil:
                    samples = {layer: sample * mx.nan for layer, sample in samples.items()}
                spy.samples.append(samples)
                return samples

        model.controlnet.__class__ = Spied


class Pending:
    """An mflux callback: how much memory the last ControlNet samples still take when they are asked for."""

    def __init__(self, spied: SpiedControlNet) -> None:
        self.spied = spied
        self.bytes: list[int] = []

    def call_in_loop(self, **_: Any) -> None:
        samples = list(self.spied.samples[-1].values())
        before = mx.get_active_memory()
        mx.eval(samples)
        self.bytes.append(mx.get_active_memory() - before)


@pytest.fixture
def arguments(tmp_path: Path) -> dict[str, Any]:
    """What `generate_image` of the ControlNet pipeline takes."""
    return {
        "prompt": PROMPT,
        "height": 64,
        "width": 64,
        "seed": 3,
        "num_inference_steps": 6,
        "controls": controls(tmp_path),
    }


def test_reused_steps_ignore_the_controlnet(arguments: dict[str, Any]) -> None:
    """Red when ControlNet samples are added on top of a residual that has them already."""
    sound, spoilt = z_image_turbo_controlnet(), z_image_turbo_controlnet()
    SpiedControlNet(spoilt, spoil=(1, 3))
    latents = []
    for model in (sound, spoilt):
        with expected_warnings(), teacache.wrap(model, **ALTERNATE) as handle:
            latents.append(record_latents(model, **arguments))
            assert handle.stats.last is not None
            assert handle.stats.last.timeline == "#.#.##"
    assert same(*latents)


def test_the_controlnet_is_felt(arguments: dict[str, Any]) -> None:
    """Red when the small ControlNet adds nothing: then the test above proves nothing."""
    latents = [
        record_latents(z_image_turbo_controlnet(), **arguments, controlnet_strength=strength) for strength in (0.0, 0.8)
    ]
    assert not same(*latents)


def test_reused_steps_do_not_run_the_controlnet(arguments: dict[str, Any]) -> None:
    """Red when the probe, or the evaluation at the end of a step, pulls in samples that nothing needs."""
    model = z_image_turbo_controlnet()
    spied = SpiedControlNet(model)
    with expected_warnings(), teacache.wrap(model, **ALTERNATE):
        pending = Pending(spied)
        model.callbacks.register(pending)
        record_latents(model, **arguments)
    assert [waiting > 0 for waiting in pending.bytes] == [False, True, False, True, False, False]


@pytest.mark.parametrize("compile", [True, False])
def test_compile_is_refused_with_a_controlnet(compile: bool) -> None:
    """Red when an option that has no effect here is taken in silence."""
    model = z_image_turbo_controlnet()
    with pytest.raises(CompileOptionError, match="no predict function"):
        teacache.wrap(model, threshold=0.2, compile=compile)
    assert not hasattr(type(model.transformer), "teacache_boundary")
