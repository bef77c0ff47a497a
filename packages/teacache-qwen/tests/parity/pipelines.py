"""mflux's Qwen-Image pipelines at a small size, with random weights.

Loop, scheduler, callbacks and transformer are mflux's; words and VAE stand in.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import PIL.Image
import pytest
from mflux.models.common.config.model_config import ModelConfig
from mflux.models.qwen.model.qwen_transformer.qwen_transformer import QwenTransformer
from mflux.models.qwen.variants.edit.qwen_image_edit import QwenImageEdit
from mflux.models.qwen.variants.txt2img.qwen_image import QwenImage
from mlx import nn
from mlx.utils import tree_flatten, tree_unflatten

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


def filled(module: Any, dtype: mx.Dtype = mx.float32) -> Any:
    """Random weights, the same at every call: matrices that keep the variance, scales near 1, small biases."""
    values = []
    for index, (name, value) in enumerate(tree_flatten(module.parameters())):
        bound = (3 / value.shape[-1]) ** 0.5 if value.ndim == 2 else 0.1
        noise = mx.random.uniform(-bound, bound, value.shape, key=mx.random.key(index))
        is_scale = value.ndim == 1 and name.endswith("weight")
        values.append((name, (1 + noise if is_scale else noise).astype(dtype)))
    module.update(tree_unflatten(values))
    mx.eval(module.parameters())
    return module


def _pipeline(cls: type, config: Any, dtype: mx.Dtype, **sizes: Any) -> Any:
    transformer: nn.Module = filled(QwenTransformer(**SIZES, **sizes), dtype)
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


def qwen_image(dtype: mx.Dtype = mx.float32) -> Any:
    """Text to image, and image to image."""
    return _pipeline(QwenImage, ModelConfig.qwen_image(), dtype)


def qwen_image_edit(dtype: mx.Dtype = mx.float32) -> Any:
    """Editing, as Edit and Edit-2509 do it. Takes ``image_paths``."""
    return _pipeline(QwenImageEdit, ModelConfig.qwen_image_edit(), dtype)


def qwen_image_edit_2511(dtype: mx.Dtype = mx.float32) -> Any:
    """Editing as Edit-2511 does it: reference tokens keep the modulation of timestep 0."""
    return _pipeline(QwenImageEdit, ModelConfig.qwen_image_edit_2511(), dtype, zero_cond_t=True)


def picture(folder: Path, *, side: int = SIDE, seed: int = 0) -> Path:
    """A picture of coloured noise, saved once."""
    path = folder / f"picture-{side}-{seed}.png"
    if not path.exists():
        coarse = np.random.default_rng(seed).integers(0, 255, (4, 4, 3), dtype=np.uint8)
        PIL.Image.fromarray(coarse).resize((side, side)).save(path)
    return path
