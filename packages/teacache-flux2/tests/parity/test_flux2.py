"""What only FLUX.2 Klein has: a key-value cache that takes the reference tokens out of all steps but the first."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

import teacache
from teacache.adapter import BlockCall
from teacache.boundary import Boundary
from teacache.errors import CompileOptionError
from teacache.testing.conformance import ALTERNATE
from teacache.testing.materials import picture
from teacache.testing.spies import compile_disabled, expected_warnings, record_latents, same
from teacache_flux2 import modulated_input

from .pipelines import ARGUMENTS, klein, klein_edit, klein_edit_kv

TARGET, REFERENCE = 16, 16


@pytest.fixture
def arguments(tmp_path: Path) -> dict[str, Any]:
    """What `generate_image` of the editing pipelines takes."""
    return {**ARGUMENTS, "seed": 3, "num_inference_steps": 6, "image_paths": [picture(tmp_path)]}


@pytest.fixture
def shapes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """Image tokens that enter the body, and target tokens before and behind it, of each computed branch."""
    seen: list[tuple[int, int, int]] = []
    compute = Boundary.compute

    def spied(self: Boundary, fn: Any, args: Any, kwargs: Any, target: Any, tokens: Any) -> Any:
        output, before, after = compute(self, fn, args, kwargs, target, tokens)
        entered = tokens[0].shape[1]
        seen.extend((entered, *(side.shape[1] for side in pair)) for pair in zip(before, after, strict=True))
        return output, before, after

    monkeypatch.setattr(Boundary, "compute", spied)
    return seen


@pytest.mark.parametrize("make", [klein_edit, klein_edit_kv])
def test_the_signal_is_what_attention_reads(make: Callable[[], Any], arguments: dict[str, Any]) -> None:
    """Red when the reference tokens of the key-value cache's first step take the modulation of the wrong timestep."""
    model = make()
    block = model.transformer.transformer_blocks[0]
    calls: list[tuple[BlockCall, mx.array]] = []

    class Block(type(block)):  # type: ignore[misc]
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            self.call = BlockCall(block=self, args=args, kwargs=kwargs)
            return super().__call__(*args, **kwargs)

    class Attention(type(block.attn)):  # type: ignore[misc]
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            calls.append((block.call, kwargs["hidden_states"]))
            return super().__call__(*args, **kwargs)

    block.__class__, block.attn.__class__ = Block, Attention
    with compile_disabled():
        record_latents(model, **{**arguments, "num_inference_steps": 2})
    assert calls[0][1].shape[1] == TARGET + REFERENCE
    for call, read in calls:
        assert mx.array_equal(modulated_input(call), read)


def test_residuals_are_those_of_the_target_tokens(shapes: list[Any], arguments: dict[str, Any]) -> None:
    """Red when reference tokens are reused too: they cost memory, and change nothing in the picture."""
    model = klein_edit()
    with expected_warnings(), teacache.wrap(model, **ALTERNATE, compile=False):
        record_latents(model, **arguments)
    assert set(shapes) == {(TARGET + REFERENCE, TARGET, TARGET)}


def test_the_first_step_of_the_key_value_cache_serves_the_second(shapes: list[Any], arguments: dict[str, Any]) -> None:
    """Red when step 0, which enters the body with more tokens than it leaves it, has no residual for the others."""
    model = klein_edit_kv()
    with expected_warnings(), teacache.wrap(model, **ALTERNATE) as handle:
        record_latents(model, **arguments)
        assert handle.stats.last is not None
        assert handle.stats.last.timeline == "#.#.##"
        assert {record.branches for record in handle.stats.last.records} == {2}
    first, later = shapes[:2], shapes[2:]
    assert set(first) == {(TARGET + REFERENCE, TARGET, TARGET)}
    assert set(later) == {(TARGET, TARGET, TARGET)}


def test_the_key_value_cache_outlives_reused_steps(arguments: dict[str, Any]) -> None:
    """Red when a reused step empties the key-value cache, or a probe writes into it: step 2 reads what step 0 wrote."""
    model = klein_edit_kv()
    caches: list[Any] = []
    create = type(model)._new_kv_cache

    class Kept(type(model)):  # type: ignore[misc]
        def _new_kv_cache(self) -> Any:
            caches.append(create(self))
            return caches[-1]

    model.__class__ = Kept
    plain = record_latents(model, **arguments)
    with expected_warnings(), teacache.wrap(model, **ALTERNATE):
        cached = record_latents(model, **arguments)
    assert same(plain[:1], cached[:1])
    slots = [slot for cache in caches for slot in (*cache._double, *cache._single)]
    half = len(slots) // 2
    assert all(slot is not None and slot[0].shape[2] == REFERENCE for slot in slots)
    for (key, value), (other_key, other_value) in zip(slots[:half], slots[half:], strict=True):
        assert mx.array_equal(key, other_key)
        assert mx.array_equal(value, other_value)


class Memory:
    """What mflux's low-RAM mode does: lets go of the transformer between the loop and decoding."""

    def __init__(self, model: Any) -> None:
        self.model, self.freed = weakref.ref(model), False

    def call_after_loop(self, **_: Any) -> None:
        model = self.model()
        transformer, model.transformer = weakref.ref(model.transformer), None
        gc.collect()
        self.freed = transformer() is None


@pytest.mark.parametrize("make", [klein, klein_edit, klein_edit_kv])
def test_the_transformer_can_be_freed_before_decoding(make: Callable[[], Any], arguments: dict[str, Any]) -> None:
    """Red when a compiled piece, an entry or a residual outlives the predict functions that the pipeline deletes."""
    model = make()
    if make is klein:
        del arguments["image_paths"]
    memory = Memory(model)
    model.callbacks.register(memory)
    with expected_warnings(), teacache.wrap(model, **ALTERNATE) as handle:
        record_latents(model, **arguments)
        assert handle.stats.last is not None
        assert handle.stats.last.reused == 2
    assert memory.freed


def test_compiling_is_refused_with_the_key_value_cache(arguments: dict[str, Any]) -> None:
    """Red when the user gets MLX's words about argument trees, or when the refusal leaves a run open."""
    model = klein_edit_kv()
    plain = record_latents(model, **arguments)
    with expected_warnings(), teacache.wrap(model, **ALTERNATE, compile=True) as handle:
        with pytest.raises(CompileOptionError, match="Flux2KVCache"):
            record_latents(model, **arguments)
        assert handle.stats.runs == []
        record_latents(model, **arguments, use_kv_cache=False)
        assert handle.stats.runs[0].reused == 2
    assert same(plain, record_latents(model, **arguments))


@pytest.mark.parametrize("words", [mx.float32, mx.bfloat16])
def test_half_precision_weights_are_reused(words: mx.Dtype) -> None:
    """Red when words of another precision, which raise that of the blocks, make every residual look foreign."""
    model = klein(mx.bfloat16)
    encode = type(model.text_encoder).__call__

    class Rounded(type(model.text_encoder)):  # type: ignore[misc]
        def __call__(self, *args: Any) -> mx.array:
            return encode(self, *args).astype(words)

    model.text_encoder.__class__ = Rounded
    with expected_warnings(), teacache.wrap(model, **ALTERNATE, compile=False) as handle:
        record_latents(model, **ARGUMENTS, seed=3, num_inference_steps=6)
        assert handle.stats.last is not None
        assert handle.stats.last.timeline == "#.#.##"
