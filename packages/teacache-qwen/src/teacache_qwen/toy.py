"""The toy of Qwen-Image. Imports mflux only inside functions."""

from __future__ import annotations

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
SIZES = {
    "in_channels": WIDTH,
    "out_channels": WIDTH // 4,
    "num_layers": 3,
    "attention_head_dim": 128,  # the rotary embedding's axes are fixed and add up to 128
    "num_attention_heads": 1,
    "joint_attention_dim": scenes.WORD_WIDTH,
}


class Words(nn.Module):
    """The text encoder's face that Qwen-Image's prompt encoder calls: vectors and their mask. No parameters."""

    encode = WordEncoder()

    def __call__(self, input_ids: mx.array, attention_mask: mx.array) -> tuple[mx.array, mx.array]:
        """The vectors, and the mask as it came."""
        return Words.encode(input_ids), attention_mask


def transformer() -> nn.Module:
    """A new small transformer of mflux's class, with random weights."""
    from mflux.models.qwen.model.qwen_transformer.qwen_transformer import QwenTransformer

    return QwenTransformer(**SIZES)


def sized(width: int, blocks: int) -> nn.Module:
    """A transformer of this width."""
    from mflux.models.qwen.model.qwen_transformer.qwen_transformer import QwenTransformer

    return QwenTransformer(**{**SIZES, "num_layers": blocks, "num_attention_heads": width // 128})


def pipeline(small: nn.Module) -> Any:
    """The family's pipeline around the transformer, with stand-ins for words and pictures."""
    from mflux.models.common.config.model_config import ModelConfig
    from mflux.models.qwen.variants.txt2img.qwen_image import QwenImage

    return pipeline_object(
        QwenImage,
        toy_config(ModelConfig.qwen_image(), "qwen"),
        small,
        vae=PictureCodec(),
        text_encoder=Words(),
        tokenizers={"qwen": WordTokenizer()},
    )


def velocity(small: nn.Module, tokens: mx.array, words: mx.array, sigmas: mx.array) -> mx.array:
    """Training forward: see `teacache.testing.toys.toy.Toy`."""
    side = round(tokens.shape[1] ** 0.5) * codec.PIXELS_PER_TOKEN
    embed = small.time_text_embed
    # Qwen's forward knows one time for the whole batch: each scene's own one enters at the embedding.
    with replaced(small, "time_text_embed", lambda _, hidden: embed(sigmas, hidden)):
        return small(
            t=0.0,
            config=SimpleNamespace(height=side, width=side),
            hidden_states=tokens,
            encoder_hidden_states=words,
            encoder_hidden_states_mask=mx.ones(words.shape[:2], dtype=mx.int32),
        )


TOY = Toy(
    family="qwen",
    package="teacache_qwen",
    width=WIDTH,
    transformer=transformer,
    pipeline=pipeline,
    velocity=velocity,
    description=f"QwenTransformer(**{SIZES})",
    sized=sized,
)
