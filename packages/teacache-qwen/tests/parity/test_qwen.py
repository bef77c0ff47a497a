"""What only Qwen-Image has: branches of different text length, reference tokens with a modulation of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

import teacache
from teacache.adapter import BlockCall
from teacache.boundary import Boundary
from teacache.errors import BranchWarning, CompileOptionError
from teacache.testing.conformance import ALTERNATE
from teacache.testing.materials import picture
from teacache.testing.spies import expected_warnings, record_latents
from teacache_qwen import modulated_input

from .pipelines import ARGUMENTS, NEEDS_2511, qwen_image, qwen_image_edit, qwen_image_edit_2511

TARGET, REFERENCE = 16, 16


def spied_calls(block: Any) -> list[tuple[BlockCall, mx.array]]:
    """Collects the calls of a block, each with what its attention reads of the image."""
    calls: list[tuple[BlockCall, mx.array]] = []
    block_class, attention_class = type(block), type(block.attn)

    class Block(block_class):  # type: ignore[misc, valid-type]
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            self["attn"].__class__ = Attention
            self.call = BlockCall(block=self, args=args, kwargs=kwargs)
            return super().__call__(*args, **kwargs)

    class Attention(attention_class):  # type: ignore[misc, valid-type]
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            calls.append((block.call, kwargs["img_modulated"]))
            return super().__call__(*args, **kwargs)

    block.__class__ = Block
    return calls


@pytest.mark.parametrize("make", [qwen_image_edit, pytest.param(qwen_image_edit_2511, marks=NEEDS_2511)])
def test_the_signal_is_what_attention_reads(make: Any, tmp_path: Path) -> None:
    """Red when the reference tokens of 2511 are read with the modulation of the wrong timestep."""
    model = make()
    calls = spied_calls(model.transformer.transformer_blocks[0])
    record_latents(model, **ARGUMENTS, seed=3, num_inference_steps=2, image_paths=[str(picture(tmp_path))])
    assert len(calls) == 4
    for call, read in calls:
        assert read.shape[1] == TARGET + REFERENCE
        assert mx.array_equal(modulated_input(call), read)


@NEEDS_2511
def test_reference_tokens_of_2511_are_modulated_apart(tmp_path: Path) -> None:
    """Red when `zero_cond_t` does not reach the small model: then the test above proves nothing."""
    signals = []
    for make in (qwen_image_edit, qwen_image_edit_2511):
        model = make()
        calls = spied_calls(model.transformer.transformer_blocks[0])
        record_latents(model, **ARGUMENTS, seed=3, num_inference_steps=2, image_paths=[str(picture(tmp_path))])
        signals.append(calls[0][1])
    assert mx.array_equal(signals[0][:, :TARGET], signals[1][:, :TARGET])
    assert not mx.array_equal(signals[0][:, TARGET:], signals[1][:, TARGET:])


def test_residuals_are_those_of_the_target_tokens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Red when reference tokens are reused too: they cost memory, and change nothing in the picture."""
    shapes = set()
    plain = Boundary.compute

    def compute(self: Boundary, *args: Any) -> Any:
        output, before, after = plain(self, *args)
        shapes.update(tokens.shape[1] for tokens in (*before, *after))
        return output, before, after

    monkeypatch.setattr(Boundary, "compute", compute)
    model = qwen_image_edit()
    with expected_warnings(), teacache.wrap(model, **ALTERNATE) as handle:
        record_latents(model, **ARGUMENTS, seed=3, num_inference_steps=6, image_paths=[str(picture(tmp_path))])
        assert handle.stats.last is not None
        assert handle.stats.last.target_tokens == TARGET
    assert shapes == {TARGET}


def test_branches_differ_in_text_length() -> None:
    """Red when the small model gives both branches the same length: then no test here has seen two."""
    model = qwen_image()
    record_latents(model, **ARGUMENTS, seed=3, num_inference_steps=2)
    ((text, _, negative, _),) = model.prompt_cache.values()
    assert text.shape[1] > negative.shape[1]


class OtherWords:
    """An mflux callback that gives the transformer other words in one step, as a callback that edits prompts would."""

    def __init__(self, model: Any, step: int) -> None:
        self.model, self.step, self.transformer = model, step, model.transformer

    def call_before_loop(self, **_: Any) -> None:
        self.model.transformer = self

    def call_after_loop(self, **_: Any) -> None:
        self.model.transformer = self.transformer

    def __call__(self, t: int, encoder_hidden_states: mx.array, **arguments: Any) -> mx.array:
        if t == self.step:
            encoder_hidden_states = -encoder_hidden_states
        return self.transformer(t=t, encoder_hidden_states=encoder_hidden_states, **arguments)


def test_other_words_are_not_served_with_the_old_residual() -> None:
    """Red when branches are told apart by their order alone."""
    model = qwen_image()
    with expected_warnings(), teacache.wrap(model, **ALTERNATE) as handle:
        model.callbacks.register(OtherWords(model, 1))
        with pytest.warns(BranchWarning, match="other text embeddings"):
            record_latents(model, **ARGUMENTS, seed=3, num_inference_steps=6)
        assert handle.stats.last is not None
        assert [record.action for record in handle.stats.last.records[:2]] == ["compute", "compute"]


@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float16])
def test_half_precision_weights_are_reused(dtype: mx.Dtype, tmp_path: Path) -> None:
    """Red when the float16 words that editing brings leave a residual of another dtype than the tokens."""
    model = qwen_image_edit(dtype)
    with expected_warnings(), teacache.wrap(model, **ALTERNATE) as handle:
        record_latents(model, **ARGUMENTS, seed=3, num_inference_steps=6, image_paths=[str(picture(tmp_path))])
        assert handle.stats.last is not None
        assert handle.stats.last.timeline == "#.#.##"


@pytest.mark.parametrize("compile", [True, False])
def test_compile_is_refused(compile: bool) -> None:
    """Red when an option that has no effect here is taken in silence."""
    model = qwen_image()
    with pytest.raises(CompileOptionError, match="no predict function"):
        teacache.wrap(model, threshold=0.2, compile=compile)
    assert not hasattr(type(model.transformer), "teacache_boundary")
