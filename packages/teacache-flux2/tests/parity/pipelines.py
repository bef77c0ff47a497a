"""mflux's FLUX.2 Klein pipelines at a small size, with random weights.

Loop, scheduler, callbacks, transformer and key-value cache are mflux's; words and VAE stand in.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mflux.models.common.config.model_config import ModelConfig
from mflux.models.flux2.model.flux2_transformer.transformer import Flux2Transformer
from mflux.models.flux2.variants.edit.flux2_klein_edit import Flux2KleinEdit
from mflux.models.flux2.variants.txt2img.flux2_klein import Flux2Klein
from mlx import nn

from teacache.testing.materials import filled
from teacache.testing.toys.scenes import WORD_WIDTH
from teacache.testing.toys.standins import WordEncoder, WordTokenizer, pipeline_object
from teacache_flux2.toy import Codec

SIDE = 64  # pixels; 4 x 4 tokens
PROMPT = "red circle left, blue square right, white background"
SIZES = {
    "num_layers": 2,
    "num_single_layers": 2,
    "num_attention_heads": 2,
    "attention_head_dim": 32,
    "joint_attention_dim": WORD_WIDTH,
    "axes_dims_rope": (8, 8, 8, 8),
}

ARGUMENTS = {"prompt": PROMPT, "height": SIDE, "width": SIDE, "guidance": 2.0}


class Encoder(WordEncoder):
    """A blank prompt gives fewer tokens than others, so that the branches differ in text length."""

    def get_prompt_embeds(self, input_ids: mx.array, attention_mask: mx.array, hidden_state_layers: Any) -> mx.array:
        count = input_ids.shape[1] if input_ids.any() else 3
        return self(input_ids)[:, :count]


def _pipeline(cls: type, config: Any, dtype: mx.Dtype, **sizes: Any) -> Any:
    transformer: nn.Module = filled(Flux2Transformer(**{**SIZES, **sizes}), dtype)
    return pipeline_object(
        cls, config, transformer, vae=Codec(), text_encoder=Encoder(), tokenizers={"qwen3": WordTokenizer()}
    )


def klein(dtype: mx.Dtype = mx.float32, **sizes: Any) -> Any:
    """Text to image, and image to image."""
    return _pipeline(Flux2Klein, ModelConfig.flux2_klein_base_4b(), dtype, **sizes)


def klein_edit(dtype: mx.Dtype = mx.float32) -> Any:
    """Editing with the reference tokens in every step. Takes ``image_paths``."""
    return _pipeline(Flux2KleinEdit, ModelConfig.flux2_klein_base_4b(), dtype)


def klein_edit_kv(dtype: mx.Dtype = mx.float32) -> Any:
    """Editing with the reference tokens in the first step alone; the key-value cache serves the others."""
    return _pipeline(Flux2KleinEdit, ModelConfig.flux2_klein_9b_kv(), dtype)
