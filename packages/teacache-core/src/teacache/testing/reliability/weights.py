"""Cases about weights that change while a model is wrapped. Needs pytest; never imports mflux."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten, tree_unflatten

from teacache.testing.reliability.base import ReliabilitySuite
from teacache.testing.spies import compile_disabled, expected_warnings, same, transformer_of


class Adapted(nn.Module):
    """A linear layer with a low-rank addition, as LoRA loaders put it in the layer's place."""

    def __init__(self, linear: Any) -> None:
        super().__init__()
        self.linear = linear
        outputs, inputs = linear.weight.shape
        self.down = mx.random.normal((inputs, 2), key=mx.random.key(1), scale=inputs**-0.5)
        self.up = mx.random.normal((2, outputs), key=mx.random.key(2), scale=0.5)

    def __call__(self, x: mx.array) -> mx.array:
        """The layer's output, and the addition's."""
        return self.linear(x) + (x @ self.down) @ self.up


def scale(model: Any, transformer: Any) -> None:
    """Loads other weights of the same shapes."""
    parameters: list[tuple[str, mx.array]] = tree_flatten(transformer.parameters())  # type: ignore[assignment]
    transformer.load_weights([(name, value * 1.02) for name, value in parameters])


def adapt(model: Any, transformer: Any) -> None:
    """Puts a LoRA on."""
    name, linear = _first_linear(transformer, nn.Linear)
    transformer.update_modules(tree_unflatten([(name, Adapted(linear))]))


def release(model: Any, transformer: Any) -> None:
    """Takes the LoRA off."""
    name, adapted = _first_linear(transformer, Adapted)
    transformer.update_modules(tree_unflatten([(name, adapted.linear)]))


def halve(model: Any, transformer: Any) -> None:
    """Sets another precision."""
    transformer.set_dtype(mx.bfloat16)


def quantize_transformer(model: Any, transformer: Any) -> None:
    """Quantises the blocks alone."""
    nn.quantize(transformer, group_size=32, bits=8, class_predicate=lambda name, part: ".0." in name and _fits(part))


def quantize_all(model: Any, transformer: Any) -> None:
    """Quantises all that is wrapped."""
    nn.quantize(model, group_size=32, bits=8, class_predicate=lambda _, part: _fits(part))


CHANGES: dict[str, Callable[[Any, Any], None]] = {
    "load_weights": scale,
    "LoRA on": adapt,
    "LoRA off": release,
    "quantize, transformer": quantize_transformer,
    "quantize, pipeline": quantize_all,
    "set_dtype": halve,
}
"""What is done to the weights, in an order in which each can follow the one before."""


class LiveWeights(ReliabilitySuite):
    """Live weights: changed while wrapped, the next picture is plain mflux's with those weights."""

    def test_changed_weights_make_the_plain_picture(self) -> None:
        """Red when a compiled piece, a residual or a copy keeps the old weights."""
        plain, gated, planned = self.make_model(), self.make_model(), self.make_model()
        few: dict[str, Any] = {"num_inference_steps": 3}
        with (
            expected_warnings(),
            self.wrap(gated, mode="shadow") as gate,
            self.wrap(planned, plan=[0, 1, 2]) as plan,
        ):
            for change, apply in CHANGES.items():
                for model in (plain, gated, planned):
                    apply(model, transformer_of(model, self.pipeline_of(model)))
                # Each graph that is new costs a second of g++ on the CPU.
                with nullcontext() if self.thorough or apply is scale else compile_disabled():
                    expected = self.generate(plain, **few)
                    assert same(expected, self.generate(gated, gate, **few)), f"{change}, gate"
                    assert same(expected, self.generate(planned, plan, **few)), f"{change}, plan"

    def test_a_kernel_of_other_weights_is_not_used(self, model: Any) -> None:
        """Red when a recording survives a change of the weights: pictures would be planned from another model's."""
        transformer, plain = transformer_of(model, self.pipeline_of(model)), self.make_model()
        with compile_disabled(), expected_warnings(), self.wrap(model, speedup=2.0) as handle:
            self.run(model, handle)
            for change in (scale, adapt, release):
                change(model, transformer)
                change(plain, transformer_of(plain, self.pipeline_of(plain)))
                latents, records = self.run(model, handle)
                if change is release:  # the weights are those of the second recording again
                    assert {record.action for record in records} == {"compute", "reuse"}
                else:
                    assert {record.reason for record in records} == {"recording"}, change.__name__
                    assert same(latents, self.generate(plain)), change.__name__


def _first_linear(transformer: Any, kind: type) -> tuple[str, Any]:
    """The first layer of that kind inside a block, with its name."""
    layers = sorted(
        (name, part)
        for name, part in transformer.named_modules()
        if type(part) is kind and any(piece.isdigit() for piece in name.split("."))
    )
    return layers[0]


def _fits(part: Any) -> bool:
    return isinstance(part, nn.Linear) and part.weight.shape[-1] % 32 == 0
