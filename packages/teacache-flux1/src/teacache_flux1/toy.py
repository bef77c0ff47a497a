"""The toy of FLUX.1. Imports mflux only inside functions."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
from mlx import nn

from teacache.testing.toys import codec, scenes
from teacache.testing.toys.standins import (
    PictureCodec,
    WordEncoder,
    WordTokenizer,
    pipeline_object,
    replaced,
    toy_config,
)
from teacache.testing.toys.toy import Toy

WIDTH = 64
HEAD = 128  # the rotary embedding's axes are fixed and add up to 128: one head
SIZES = {"num_transformer_blocks": 2, "num_single_transformer_blocks": 3}

FULL = 3072
"""The real width, of which FLUX.1's classes have the multiples written in."""
WORDS = (4096, 768)
"""The real widths of the words, both written in."""


class PooledWords(WordEncoder):
    """The pooled encoder's face: the mean of the words."""

    def __call__(self, input_ids: mx.array, attention_mask: mx.array | None = None) -> mx.array:
        """Word numbers (B, W) to one vector each, (B, WORD_WIDTH)."""
        return super().__call__(input_ids).mean(axis=1)


def transformer() -> nn.Module:
    """A new small transformer of mflux's class, with random weights."""
    return _built(HEAD, **SIZES)


def sized(width: int, blocks: int) -> nn.Module:
    """A transformer of this width; a third of its blocks keep image and text apart, as in the real one (19 of 57)."""
    double = max(1, blocks // 3)
    return _built(width, num_transformer_blocks=double, num_single_transformer_blocks=blocks - double)


def _built(width: int, **blocks: int) -> nn.Module:
    from mflux.models.common.config.model_config import ModelConfig
    from mflux.models.flux.model.flux_transformer.ada_layer_norm_continuous import AdaLayerNormContinuous
    from mflux.models.flux.model.flux_transformer.transformer import Transformer

    wide = Transformer(toy_config(ModelConfig.dev(), "flux1"), **blocks)  # its weights are lazy: none is computed
    _narrow(wide, width)
    wide.norm_out = AdaLayerNormContinuous(width, width)
    return wide


def _narrow(module: nn.Module, width: int) -> None:
    for name, value in list(module.items()):
        if isinstance(value, list):
            module[name] = [_narrowed(one, width) if isinstance(one, nn.Module) else one for one in value]
        elif isinstance(value, nn.Module):
            module[name] = _narrowed(value, width)
    if hasattr(module, "num_heads"):
        module.num_heads = width // HEAD
    for wide, narrow in _norms().items():
        if type(module) is wide:
            module.__class__ = narrow


def _narrowed(module: nn.Module, width: int) -> nn.Module:
    def narrow(size: int) -> int:
        if size in WORDS:
            return scenes.WORD_WIDTH
        return size if size % FULL else size // FULL * width

    if isinstance(module, nn.Linear):
        outputs, inputs = module.weight.shape
        return nn.Linear(narrow(inputs), narrow(outputs), bias="bias" in module)
    if isinstance(module, nn.LayerNorm):
        return nn.LayerNorm(width, eps=module.eps, affine=False)
    _narrow(module, width)
    return module


@cache
def _norms() -> dict[type, type]:
    """FLUX.1's norms that slice at written-in places, and subclasses that slice by their own width."""
    from mflux.models.flux.model.flux_transformer.ada_layer_norm_zero import AdaLayerNormZero
    from mflux.models.flux.model.flux_transformer.ada_layer_norm_zero_single import AdaLayerNormZeroSingle

    class Norm(AdaLayerNormZero):
        parts = 6

        def __call__(self, hidden_states: mx.array, text_embeddings: mx.array) -> tuple[mx.array, ...]:
            modulation = self.linear(nn.silu(text_embeddings))
            shift, scale, *others = mx.split(modulation, self.parts, axis=-1)
            return self.norm(hidden_states) * (1 + scale[:, None]) + shift[:, None], *others

    class SingleNorm(AdaLayerNormZeroSingle):
        parts = 3
        __call__ = Norm.__call__

    return {AdaLayerNormZero: Norm, AdaLayerNormZeroSingle: SingleNorm}


def pipeline(small: nn.Module) -> Any:
    """The family's pipeline around the transformer, with stand-ins for words and pictures."""
    from mflux.models.common.config.model_config import ModelConfig
    from mflux.models.flux.variants.txt2img.flux import Flux1

    return pipeline_object(
        Flux1,
        toy_config(ModelConfig.dev(), "flux1"),
        small,
        vae=PictureCodec(),
        t5_text_encoder=WordEncoder(),
        clip_text_encoder=PooledWords(),
        tokenizers={"t5": WordTokenizer(), "clip": WordTokenizer()},
    )


def velocity(small: nn.Module, tokens: mx.array, words: mx.array, sigmas: mx.array) -> mx.array:
    """Training forward: see `teacache.testing.toys.toy.Toy`."""
    from mflux.models.common.config.model_config import ModelConfig

    batch = tokens.shape[0]
    side = round(tokens.shape[1] ** 0.5) * codec.PIXELS_PER_TOKEN
    config = SimpleNamespace(
        height=side, width=side, guidance=1.0, num_train_steps=1000, precision=ModelConfig.precision,
        scheduler=SimpleNamespace(sigmas=mx.zeros(1)),
    )  # fmt: skip
    times = (sigmas * config.num_train_steps).astype(config.precision)
    guidance = (mx.linspace(1, 5, batch) * config.num_train_steps).astype(config.precision)
    embed = small.time_text_embed
    with ExitStack() as stack:
        # FLUX.1's forward knows one time for a batch of one: each scene's own one enters at the embedding.
        stack.enter_context(replaced(small, "time_text_embed", lambda _, pooled, __: embed(times, pooled, guidance)))
        for module in small.modules():
            if hasattr(module, "batch_size"):
                stack.enter_context(replaced(module, "batch_size", batch))
        return small(
            t=0, config=config, hidden_states=tokens, prompt_embeds=words, pooled_prompt_embeds=words.mean(axis=1)
        )


TOY = Toy(
    family="flux1",
    package="teacache_flux1",
    width=WIDTH,
    transformer=transformer,
    pipeline=pipeline,
    velocity=velocity,
    description=f"Transformer(dev, **{SIZES}) narrowed to one head of {HEAD}",
    sized=sized,
)
