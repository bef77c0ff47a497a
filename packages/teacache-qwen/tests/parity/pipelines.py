"""mflux's Qwen-Image pipelines at a small size, with random weights.

Loop, scheduler, callbacks and transformer are mflux's; words and VAE stand in.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import pytest
from mflux.models.common.config.model_config import ModelConfig
from mflux.models.qwen.model.qwen_transformer.qwen_transformer import QwenTransformer
from mflux.models.qwen.variants.edit.qwen_image_edit import QwenImageEdit
from mflux.models.qwen.variants.txt2img.qwen_image import QwenImage
from mlx import nn

from teacache.testing.materials import filled
from teacache.testing.toys.scenes import WORD_WIDTH
from teacache.testing.toys.standins import PictureCodec, WordEncoder, WordTokenizer, pipeline_object

SIDE = 64  # pixels; 4 x 4 tokens
PROMPT = "red circle left, blue square right, white background"
SIZES = {"num_layers": 3, "num_attention_heads": 1, "joint_attention_dim": WORD_WIDTH}

NEEDS_2511 = pytest.mark.skipif(
    not hasattr(ModelConfig, "qwen_image_edit_2511"), reason="mflux before 0.22 has no Edit-2511"
)

ARGUMENTS = {"prompt": PROMPT, "height": SIDE, "width": SIDE, "guidance": 3.0}


class Words(WordTokenizer):
    """Takes the place of the tokenizer, and of the one that also reads the reference pictures."""

    def tokenize_with_image(self, prompt: str, images: list[Any], **_: Any) -> tuple[mx.array, ...]:
        output = self.tokenize(prompt)
        return output.input_ids, output.attention_mask, mx.zeros((1, 1)), mx.ones((len(images), 3))


class Encoder(WordEncoder):
    """A blank prompt gives fewer tokens than others, as the real one does: the branches differ in text length."""

    def __call__(self, input_ids: mx.array, attention_mask: mx.array, **_: Any) -> tuple[mx.array, mx.array]:  # type: ignore[override]
        count = input_ids.shape[1] if input_ids.any() else 3
        return super().__call__(input_ids)[:, :count], attention_mask[:, :count]


class Codec(PictureCodec):
    """Qwen's VAE has a time axis."""

    def encode(self, image: mx.array) -> mx.array:
        return super().encode(image)[:, :, None]


def _pipeline(cls: type, config: Any, dtype: mx.Dtype, **sizes: Any) -> Any:
    transformer: nn.Module = filled(QwenTransformer(**{**SIZES, **sizes}), dtype)
    words, encoder = Words(), Encoder()
    return pipeline_object(
        cls,
        config,
        transformer,
        vae=Codec(),
        text_encoder=encoder,
        qwen_vl_encoder=encoder,
        tokenizers={"qwen": words, "qwen_vl": words},
    )


def qwen_image(dtype: mx.Dtype = mx.float32, **sizes: Any) -> Any:
    """Text to image, and image to image."""
    return _pipeline(QwenImage, ModelConfig.qwen_image(), dtype, **sizes)


def qwen_image_edit(dtype: mx.Dtype = mx.float32) -> Any:
    """Editing, as Edit and Edit-2509 do it. Takes ``image_paths``."""
    return _pipeline(QwenImageEdit, ModelConfig.qwen_image_edit(), dtype)


def qwen_image_edit_2511(dtype: mx.Dtype = mx.float32) -> Any:
    """Editing as Edit-2511 does it: reference tokens keep the modulation of timestep 0."""
    return _pipeline(QwenImageEdit, ModelConfig.qwen_image_edit_2511(), dtype, zero_cond_t=True)
