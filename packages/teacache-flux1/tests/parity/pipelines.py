"""All of mflux's FLUX.1 pipelines at a small size, with random weights.

Loop, scheduler, callbacks, transformer and ControlNet are mflux's; words, VAE, depth model and Redux encoders stand in.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import PIL.Image
import PIL.ImageDraw
from mflux.models.common.config.model_config import ModelConfig
from mflux.models.flux.variants.controlnet.flux_controlnet import Flux1Controlnet
from mflux.models.flux.variants.controlnet.transformer_controlnet import TransformerControlnet
from mflux.models.flux.variants.depth.flux_depth import Flux1Depth
from mflux.models.flux.variants.fill.flux_fill import Flux1Fill
from mflux.models.flux.variants.in_context.flux_in_context_dev import Flux1InContextDev
from mflux.models.flux.variants.in_context.flux_in_context_fill import Flux1InContextFill
from mflux.models.flux.variants.kontext.flux_kontext import Flux1Kontext
from mflux.models.flux.variants.redux.flux_redux import Flux1Redux
from mflux.models.flux.variants.txt2img.flux import Flux1
from mlx import nn
from mlx.utils import tree_flatten, tree_unflatten

from teacache.testing.toys.scenes import WORD_WIDTH
from teacache.testing.toys.standins import PictureCodec, WordEncoder, WordTokenizer, pipeline_object
from teacache_flux1 import toy

HEIGHT, WIDTH = 32, 48  # pixels; 2 x 3 tokens, so that rows and columns cannot be mistaken
PROMPT = "red circle left, blue square right, white background"


def small(config: ModelConfig) -> nn.Module:
    """The toy's transformer for the checkpoint of a pipeline, with the same random weights at every call."""
    transformer = toy.transformer()
    transformer.x_embedder = nn.Linear(config.x_embedder_input_dim(), toy.HEAD)
    if not config.supports_guidance:
        transformer.time_text_embed.guidance_embedder = None
    return _randomised(transformer)


def small_controlnet(config: ModelConfig) -> nn.Module:
    """A ControlNet of the same width with fewer blocks than the transformer has, as the published ones."""
    net, donor = TransformerControlnet(config, num_transformer_blocks=0), small(config)
    for name in ("x_embedder", "time_text_embed", "context_embedder"):
        net[name] = donor[name]
    net.transformer_blocks, net.single_transformer_blocks = (
        donor.transformer_blocks[:1],
        donor.single_transformer_blocks,
    )
    net.controlnet_x_embedder = nn.Linear(64, toy.HEAD)
    net.controlnet_blocks = [nn.Linear(toy.HEAD, toy.HEAD) for _ in net.transformer_blocks]
    net.controlnet_single_blocks = [nn.Linear(toy.HEAD, toy.HEAD) for _ in net.single_transformer_blocks]
    return _randomised(net)


def _randomised(module: nn.Module) -> nn.Module:
    filled = []
    for index, (name, value) in enumerate(tree_flatten(module.parameters())):
        noise = mx.random.normal(value.shape, key=mx.random.key(index), scale=value.shape[-1] ** -0.5)
        is_scale = value.ndim == 1 and name.endswith("weight")
        filled.append((name, 1 + noise if is_scale else noise))
    module.update(tree_unflatten(filled))
    mx.eval(module.parameters())
    return module


class _Codec(PictureCodec):
    """The VAE's face that the ControlNet's edge maps need."""

    scaling_factor, shift_factor = 0.3611, 0.1159


class _DepthModel:
    """Takes the brightness of a picture for its depth."""

    def create_depth_map(self, image_path: Path | str) -> SimpleNamespace:
        with PIL.Image.open(image_path) as picture:
            return SimpleNamespace(depth_image=picture.convert("L").convert("RGB"))


class _PictureTokens(nn.Module):
    """Redux's vision tower and embedder in one: a few vectors as wide as a word."""

    def __call__(self, picture: mx.array) -> tuple[mx.array, None]:
        shades = picture.astype(mx.float32).reshape(-1)
        return mx.sin(mx.arange(5 * WORD_WIDTH) * shades.mean()).reshape(1, 5, WORD_WIDTH), None


def pipeline(cls: type, config: ModelConfig, **attributes: Any) -> Any:
    """A pipeline object of mflux's class under the name of a real checkpoint."""
    return pipeline_object(
        cls,
        config,
        attributes.pop("transformer", None) or small(config),
        vae=_Codec(),
        t5_text_encoder=WordEncoder(),
        clip_text_encoder=toy.PooledWords(),
        tokenizers={"t5": WordTokenizer(), "clip": WordTokenizer()},
        **attributes,
    )


def controlnet(config: ModelConfig) -> Any:
    """A ControlNet pipeline: edges or upscaling, as the configuration says."""
    return pipeline(Flux1Controlnet, config, transformer_controlnet=small_controlnet(config))


def redux() -> Any:
    """Its configuration says FLUX.1-dev, as mflux's does: only the encoders come from another checkpoint."""
    return pipeline(Flux1Redux, ModelConfig.dev(), image_encoder=_PictureTokens(), image_embedder=nn.Identity())


MAKERS: dict[str, Callable[[], Any]] = {
    "Flux1": lambda: pipeline(Flux1, ModelConfig.dev()),
    "Flux1Kontext": lambda: pipeline(Flux1Kontext, ModelConfig.dev_kontext()),
    "Flux1Fill": lambda: pipeline(Flux1Fill, ModelConfig.dev_fill()),
    "Flux1Depth": lambda: pipeline(Flux1Depth, ModelConfig.dev_depth(), depth_pro=_DepthModel()),
    "Flux1Redux": redux,
    "Flux1Controlnet": lambda: controlnet(ModelConfig.dev_controlnet_canny()),
    "Flux1InContextDev": lambda: pipeline(Flux1InContextDev, ModelConfig.dev()),
    "Flux1InContextFill": lambda: pipeline(Flux1InContextFill, ModelConfig.dev_fill()),
}
"""One factory for each pipeline class: the same small model at every call."""


def arguments(name: str, folder: Path) -> dict[str, Any]:
    """What `generate_image` of a pipeline needs, beside seed and number of steps; pictures are drawn into a folder."""
    common = {"prompt": PROMPT, "height": HEIGHT, "width": WIDTH, "guidance": 3.5}
    picture, mask = folder / "picture.png", folder / "mask.png"
    if not mask.exists():
        _draw(picture, (240, 240, 230), (210, 40, 40))
        _draw(mask, (0, 0, 0), (255, 255, 255))
    own: dict[str, dict[str, Any]] = {
        "Flux1": {},
        "Flux1Kontext": {"image_path": picture},
        "Flux1Fill": {"image_path": picture, "masked_image_path": mask},
        "Flux1Depth": {"image_path": picture},
        "Flux1Redux": {"redux_image_paths": [picture], "redux_image_strengths": [0.8]},
        "Flux1Controlnet": {"controlnet_image_path": picture, "controlnet_strength": 0.7},
        "Flux1InContextDev": {"image_path": picture},
        "Flux1InContextFill": {"left_image_path": picture},
    }
    return {**common, **own[name]}


def _draw(path: Path, ground: tuple[int, int, int], colour: tuple[int, int, int]) -> None:
    picture = PIL.Image.new("RGB", (WIDTH, HEIGHT), ground)
    PIL.ImageDraw.Draw(picture).ellipse((4, 6, 28, 28), fill=colour)
    picture.save(path)
