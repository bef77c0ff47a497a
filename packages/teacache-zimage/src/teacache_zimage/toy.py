"""The toy of Z-Image. Imports mflux only inside functions."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx import nn

from teacache.testing.toys import codec, scenes
from teacache.testing.toys.standins import PictureCodec, WordEncoder, WordTokenizer, pipeline_object, toy_config
from teacache.testing.toys.toy import Toy

CHANNELS = 16
SIZES = {
    "in_channels": CHANNELS,
    "dim": 128,
    "n_layers": 3,
    "n_refiner_layers": 1,
    "n_heads": 1,
    "cap_feat_dim": scenes.WORD_WIDTH,
}


def transformer() -> nn.Module:
    """A new small transformer of mflux's class, with random weights."""
    from mflux.models.z_image.model.z_image_transformer.transformer import ZImageTransformer

    return ZImageTransformer(**SIZES)


def sized(width: int, blocks: int) -> nn.Module:
    """A transformer of this width with the two refiners for each stream that the real one has."""
    from mflux.models.z_image.model.z_image_transformer.transformer import ZImageTransformer

    sizes = {"dim": width, "n_heads": width // 128, "n_layers": blocks, "n_refiner_layers": 2}
    return ZImageTransformer(**{**SIZES, **sizes})


def pipeline(small: nn.Module) -> Any:
    """The family's pipeline around the transformer, with stand-ins for words and pictures."""
    from mflux.models.common.config.model_config import ModelConfig
    from mflux.models.z_image.variants.z_image import ZImage

    return pipeline_object(
        ZImage,
        toy_config(ModelConfig.z_image(), "zimage"),
        small,
        vae=PictureCodec(CHANNELS),
        text_encoder=WordEncoder(),
        tokenizers={"z_image": WordTokenizer()},
        float32=False,
    )


def velocity(small: nn.Module, tokens: mx.array, words: mx.array, sigmas: mx.array) -> mx.array:
    """Z-Image's forward takes one scene: this one takes a batch through the same modules in the same order."""
    side = round(tokens.shape[1] ** 0.5)
    latents = codec.to_grid(tokens, side, side)
    image, text = mx.vmap(lambda x, y: _patches(small, x, y)[:2])(latents, words)
    image_places, text_places = (small.rope_embedder(ids) for ids in _patches(small, latents[0], words[0])[2:])
    time = small.stream_t_emb(small.t_embedder((1 - sigmas) * small.t_scale), small.float32)
    key = f"{small.patch_size}-{small.f_patch_size}"

    image = small.all_x_embedder[key](image)
    for layer in small.noise_refiner:
        image = layer(x=image, attn_mask=_all(image), freqs_cis=image_places, t_emb=time)
    norm, embed = small.cap_embedder
    padding = mx.arange(text.shape[1])[:, None] >= words.shape[1]
    text = mx.where(padding, small.cap_pad_token, embed(norm(text)))
    for layer in small.context_refiner:
        text = layer(x=text, attn_mask=_all(text), freqs_cis=text_places)
    both, places = mx.concatenate([image, text], axis=1), mx.concatenate([image_places, text_places])
    for layer in small.layers:
        both = layer(x=both, attn_mask=_all(both), freqs_cis=places, t_emb=time)
    out = small.all_final_layer[key](both, time)[:, : tokens.shape[1]]
    return -codec.from_grid(mx.vmap(lambda x: _picture(small, x, side))(out))


def _patches(small: nn.Module, latents: mx.array, words: mx.array) -> tuple[mx.array, ...]:
    """Image and padded text tokens of one scene, and the positions of both."""
    image, text, _, image_ids, text_ids, _, _ = small._patchify(
        latents[:, None], words, patch_size=small.patch_size, f_patch_size=small.f_patch_size
    )
    return image, text, image_ids, text_ids


def _picture(small: nn.Module, tokens: mx.array, side: int) -> mx.array:
    size = (1, side * small.patch_size, side * small.patch_size)
    return small._unpatchify(tokens, size, small.patch_size, small.f_patch_size, small.out_channels)[:, 0]


def _all(stream: mx.array) -> mx.array:
    return mx.ones((1, stream.shape[1]), dtype=mx.bool_)


TOY = Toy(
    family="zimage",
    package="teacache_zimage",
    width=4 * CHANNELS,
    transformer=transformer,
    pipeline=pipeline,
    velocity=velocity,
    description=f"ZImageTransformer(**{SIZES})",
    sized=sized,
)
