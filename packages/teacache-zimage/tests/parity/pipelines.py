"""mflux's Z-Image pipelines at a small size, with random weights.

Loop, scheduler, callbacks, transformer and ControlNet are mflux's; words and VAE stand in.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
from mflux.models.common.config.model_config import ModelConfig
from mflux.models.z_image.model.z_image_transformer.transformer import ZImageTransformer
from mflux.models.z_image.variants.controlnet.control_types import ControlSpec, ControlType
from mflux.models.z_image.variants.controlnet.transformer_controlnet import ZImageControlNet, ZImageControlNetConfig
from mflux.models.z_image.variants.controlnet.z_image_turbo_controlnet import ZImageTurboControlnet
from mflux.models.z_image.variants.z_image import ZImage
from mlx import nn

from teacache.testing.materials import filled, picture
from teacache.testing.toys.scenes import WORD_WIDTH, WORDS_PER_SCENE
from teacache.testing.toys.standins import PictureCodec, WordEncoder, WordTokenizer, pipeline_object

SIDE = 64  # pixels; 4 x 4 tokens, padded to 32
PROMPT = "red circle left, blue square right, white background"
WIDTH = {"dim": 64, "n_heads": 2, "n_refiner_layers": 1}
SIZES = {**WIDTH, "n_layers": 3, "cap_feat_dim": WORD_WIDTH, "axes_dims": [8, 12, 12]}

ARGUMENTS = {"prompt": PROMPT, "height": SIDE, "width": SIDE, "guidance": 3.0}


class Words(WordTokenizer):
    """Says every prompt that asks for something five times over.

    The transformer pads texts to 32 tokens: only so is the text of one branch longer than that of the other.
    """

    def tokenize(self, prompt: str | list[str], *_: Any, **__: Any) -> SimpleNamespace:
        output = super().tokenize(prompt)
        times = 5 if output.input_ids.any() else 1
        return SimpleNamespace(
            input_ids=mx.tile(output.input_ids, times), attention_mask=mx.tile(output.attention_mask, times)
        )


class Encoder(WordEncoder):
    """The text encoder's face that Z-Image's prompt encoder calls."""

    def __call__(self, input_ids: mx.array, attention_mask: mx.array | None = None) -> mx.array:
        return super().__call__(input_ids.reshape(-1, WORDS_PER_SCENE)).reshape(1, -1, WORD_WIDTH)


def _pipeline(cls: type, config: Any, dtype: mx.Dtype, sizes: dict[str, Any] | None = None, **attributes: Any) -> Any:
    transformer: nn.Module = filled(ZImageTransformer(**{**SIZES, **(sizes or {})}), dtype)
    return pipeline_object(
        cls,
        config,
        transformer,
        vae=PictureCodec(),
        text_encoder=Encoder(),
        tokenizers={"z_image": Words()},
        float32=False,
        **attributes,
    )


def z_image(dtype: mx.Dtype = mx.float32, **sizes: Any) -> Any:
    """Text to image, and image to image, with guidance."""
    return _pipeline(ZImage, ModelConfig.z_image(), dtype, sizes)


def z_image_turbo(dtype: mx.Dtype = mx.float32) -> Any:
    """The distilled checkpoint: the same class, which then ignores guidance."""
    return _pipeline(ZImage, ModelConfig.z_image_turbo(), dtype)


def z_image_turbo_controlnet(dtype: mx.Dtype = mx.float32) -> Any:
    """Takes ``controls``, and neither guidance nor a picture to start from."""
    sizes = ZImageControlNetConfig(control_layers_places=[0, 2], control_refiner_layers_places=[0], **WIDTH)
    controlnet = filled(ZImageControlNet(sizes), dtype)
    config = ModelConfig.z_image_turbo_controlnet_union_2_1()
    model = _pipeline(ZImageTurboControlnet, config, dtype, controlnet=controlnet)
    ZImageControlNet.from_transformer(controlnet, model.transformer)
    return model


def controls(folder: Path) -> list[ControlSpec]:
    """The edges of a picture."""
    return [ControlSpec(type=ControlType.canny, image_path=picture(folder))]
