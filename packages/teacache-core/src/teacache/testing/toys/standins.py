"""Stand-ins that let a real pipeline class run without checkpoints: words, picture codec, an object without `__init__`.

Imports mlx; mflux only inside functions.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
from mlx import nn

from teacache.testing.toys import codec, scenes


def pipeline_object(cls: Any, config: Any, transformer: nn.Module, **attributes: Any) -> Any:
    """An instance of an mflux pipeline class that never ran its `__init__`, with what every `generate_image` reads."""
    from mflux.callbacks.callback_registry import CallbackRegistry

    pipeline = cls.__new__(cls)
    nn.Module.__init__(pipeline)
    common: dict[str, Any] = {
        "tiling_config": None,
        "prompt_cache": {},
        "bits": None,
        "lora_paths": None,
        "lora_scales": None,
    }
    for name, value in {**common, **attributes}.items():
        setattr(pipeline, name, value)
    pipeline.model_config = config
    pipeline.callbacks = CallbackRegistry()
    pipeline.transformer = transformer
    precision = "mflux.models.common.compute_precision"  # since mflux 0.24
    if importlib.util.find_spec(precision):
        pipeline.compute_precision = importlib.import_module(precision).ComputePrecision()
    return pipeline


def toy_config(config: Any, family: str) -> Any:
    """A copy of an mflux `ModelConfig` under the toy's own name, so that nothing takes it for real weights."""
    own = copy.copy(config)
    own.model_name = f"teacache/toy-{family}"
    own.base_model = None
    own.aliases = [f"toy-{family}"]
    own.transformer_overrides = {}
    own.text_encoder_overrides = {}
    return own


@contextmanager
def replaced(module: nn.Module, name: str, value: Any) -> Iterator[None]:
    """Put `value` in place of a module's attribute for the length of a `with` block."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


class WordTokenizer:
    """Reads a prompt in plain words; a blank prompt becomes the tokens of "nothing"."""

    def tokenize(self, prompt: str | list[str], *_: Any, **__: Any) -> SimpleNamespace:
        """Word numbers (B, W) and a mask of ones; lengths and other wishes of the caller change nothing."""
        prompts = [prompt] if isinstance(prompt, str) else prompt
        numbers = mx.array([scenes.word_numbers(scenes.parse(one)) for one in prompts])
        return SimpleNamespace(input_ids=numbers, attention_mask=mx.ones(numbers.shape, dtype=mx.int32))


class WordEncoder(nn.Module):
    """Word numbers (B, W) to vectors (B, W, WORD_WIDTH) out of the fixed table. No parameters."""

    def __call__(self, input_ids: mx.array, attention_mask: mx.array | None = None) -> mx.array:
        """The vectors; a mask changes nothing, all words count."""
        return mx.array(scenes.embed(np.array(input_ids)))


class PictureCodec(nn.Module):
    """Takes the place of a VAE: latents (B, C, 2h, 2w) to pictures (B, 3, 16h, 16w) and back. No parameters.

    Args:
        channels: C of the latents; a token of the transformer has 4 C numbers.
    """

    spatial_scale = codec.PIXELS_PER_TOKEN // codec.PATCH

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.latent_channels = channels

    def encode(self, image: mx.array) -> mx.array:
        """A picture (B, 3, H, W) in [-1, 1] as latents; each small pixel is the mean of its square."""
        if image.ndim == 5:
            image = image[:, :, 0]
        batch, _, height, width = image.shape
        scale = self.spatial_scale
        small = image.reshape(batch, 3, height // scale, scale, width // scale, scale).mean(axis=(3, 5))
        numbers = codec.patches(small.transpose(0, 2, 3, 1))
        tokens = numbers @ mx.array(codec.frame(4 * self.latent_channels) * codec.LATENT_SCALE)
        return codec.to_grid(tokens, height // codec.PIXELS_PER_TOKEN, width // codec.PIXELS_PER_TOKEN)

    def decode(self, latents: mx.array) -> mx.array:
        """Latents as a picture, its edges made steep by `enlarge`."""
        if latents.ndim == 5:
            latents = latents[:, :, 0]
        height, width = latents.shape[2] // 2, latents.shape[3] // 2
        tokens = codec.from_grid(latents.astype(mx.float32))
        numbers = tokens @ mx.array(codec.frame(tokens.shape[-1]).T / codec.LATENT_SCALE)
        return enlarge(codec.unpatch(numbers, height, width).transpose(0, 3, 1, 2), self.spatial_scale)


def enlarge(small: mx.array, factor: int, steepness: float = 3.0) -> mx.array:
    """Pictures (B, 3, h, w) at `factor` times their size, with edges as steep as drawn ones.

    Cubic interpolation, then each value is pushed to the nearer end of the range that the small picture has around
    its place, the more the wider that range is: edges become sharp, and the noise of flat areas is not enlarged.
    Nothing leaves the range. Continuous in `small`.
    """

    def grown(picture: mx.array, smooth: bool) -> mx.array:
        rows, columns = (mx.array(codec.enlarging(n, factor, smooth=smooth)) for n in picture.shape[2:])
        return rows @ picture @ columns.T

    height, width = small.shape[2:]
    padded = mx.pad(small, [(0, 0), (0, 0), (1, 1), (1, 1)], mode="edge")
    around = mx.stack([padded[:, :, y : y + height, x : x + width] for y in range(3) for x in range(3)])
    low, high = grown(around.min(axis=0), smooth=False), grown(around.max(axis=0), smooth=False)
    reach = mx.maximum(high - low, 1e-3)
    slope = 1 + (steepness - 1) * reach**2 / (reach**2 + 0.25**2)
    place = (grown(small, smooth=True) - low) / reach
    return low + reach * mx.clip((place - 0.5) * slope + 0.5, 0, 1)
