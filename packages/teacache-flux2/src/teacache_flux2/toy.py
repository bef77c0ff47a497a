"""The toy of FLUX.2 Klein. Imports mflux only inside functions."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx import nn

from teacache.testing.toys import codec, scenes
from teacache.testing.toys.standins import PictureCodec, WordEncoder, WordTokenizer, pipeline_object, toy_config
from teacache.testing.toys.toy import Toy

WIDTH = 128
SIZES = {
    "in_channels": WIDTH,
    "num_layers": 2,
    "num_single_layers": 4,
    "attention_head_dim": 32,
    "num_attention_heads": 4,
    "joint_attention_dim": scenes.WORD_WIDTH,
    "axes_dims_rope": (8, 8, 8, 8),
}


class Words(WordEncoder):
    """The text encoder's face that FLUX.2's prompt encoder calls."""

    def get_prompt_embeds(self, input_ids: mx.array, attention_mask: mx.array, hidden_state_layers: Any) -> mx.array:
        """The vectors; there are no layers to choose from."""
        return self(input_ids, attention_mask)


class Codec(PictureCodec):
    """The VAE's face that FLUX.2 calls: packed latents (B, 128, h, w), and batch norm that changes nothing."""

    def __init__(self) -> None:
        from mflux.models.flux2.model.flux2_vae.common.batch_norm_stats import Flux2BatchNormStats

        super().__init__(channels=WIDTH // 4)
        self.bn = Flux2BatchNormStats(num_features=WIDTH, eps=0.0)
        self.bn.freeze()

    def decode_packed_latents(self, packed_latents: mx.array, tiling_config: Any = None) -> mx.array:
        """A picture (B, 3, 16h, 16w); tiling changes nothing."""
        batch, width, height, columns = packed_latents.shape
        tokens = packed_latents.reshape(batch, width, height * columns).transpose(0, 2, 1)
        return self.decode(codec.to_grid(tokens, height, columns))


def transformer() -> nn.Module:
    """A new small transformer of mflux's class, with random weights."""
    from mflux.models.flux2.model.flux2_transformer.transformer import Flux2Transformer

    return Flux2Transformer(**SIZES)


def sized(width: int, blocks: int) -> nn.Module:
    """A transformer of this width; a quarter of its blocks keep image and text apart (Klein 4B: 5 of 25)."""
    from mflux.models.flux2.model.flux2_transformer.transformer import Flux2Transformer

    double = max(1, blocks // 4)
    sizes = {"num_layers": double, "num_single_layers": blocks - double, "num_attention_heads": width // 128}
    return Flux2Transformer(in_channels=WIDTH, joint_attention_dim=scenes.WORD_WIDTH, **sizes)


def pipeline(small: nn.Module) -> Any:
    """The family's pipeline around the transformer, with stand-ins for words and pictures."""
    from mflux.models.common.config.model_config import ModelConfig
    from mflux.models.flux2.variants.txt2img.flux2_klein import Flux2Klein

    return pipeline_object(
        Flux2Klein,
        toy_config(ModelConfig.flux2_klein_base_4b(), "flux2"),
        small,
        vae=Codec(),
        text_encoder=Words(),
        tokenizers={"qwen3": WordTokenizer()},
    )


def velocity(small: nn.Module, tokens: mx.array, words: mx.array, sigmas: mx.array) -> mx.array:
    """Training forward: see `teacache.testing.toys.toy.Toy`."""
    from mflux.models.flux2.latent_creator.flux2_latent_creator import Flux2LatentCreator
    from mflux.models.flux2.model.flux2_text_encoder.prompt_encoder import Flux2PromptEncoder

    side = round(tokens.shape[1] ** 0.5)
    return small(
        hidden_states=tokens,
        encoder_hidden_states=words,
        timestep=sigmas,
        img_ids=Flux2LatentCreator.prepare_grid_ids(mx.zeros((1, 1, side, side)), t_coord=0),
        txt_ids=Flux2PromptEncoder.prepare_text_ids(words[:1]),
    )


TOY = Toy(
    family="flux2",
    package="teacache_flux2",
    width=WIDTH,
    transformer=transformer,
    pipeline=pipeline,
    velocity=velocity,
    description=f"Flux2Transformer(**{SIZES})",
    sized=sized,
)
