"""FLUX.1 for teacache: where its body begins and ends, and what its gate compares. Imports neither mlx nor mflux."""

from __future__ import annotations

from typing import TYPE_CHECKING

from teacache import Adapter, BlockCall, Body, Pipeline, Signal, hookimpl

if TYPE_CHECKING:
    import mlx.core as mx

OTHER_TRANSFORMER = (
    "it runs a transformer of its own (TransformerConcept), whose blocks also bring the attention maps of the "
    "heatmap: a reused step would have none. Use Flux1 where no heatmap is wanted."
)


def modulated_input(call: BlockCall) -> mx.array:
    """What attention reads of the image in the first block: normed, scaled and shifted by the time embedding."""
    modulated: mx.array = call.block.norm1(call["hidden_states"], call["text_embeddings"])[0]
    return modulated


ADAPTER = Adapter(
    name="flux1",
    contract=1,
    transformer="mflux.models.flux:Transformer",
    pipelines=(
        Pipeline(cls="mflux.models.flux:Flux1"),
        # The reference's tokens stand behind the target's, as many; config.image_seq_len counts the target's alone.
        Pipeline(cls="mflux.models.flux:Flux1Kontext", summary="editing"),
        # Masked picture, mask and depth map widen the tokens and add none; Redux adds to the text tokens.
        Pipeline(cls="mflux.models.flux:Flux1Fill", summary="inpainting"),
        Pipeline(cls="mflux.models.flux:Flux1Depth", summary="depth-guided"),
        Pipeline(cls="mflux.models.flux:Flux1Redux", summary="image variation"),
        Pipeline(cls="mflux.models.flux:Flux1Controlnet", summary="ControlNet"),
        # Reference and target side by side in one picture of twice the width, and config.image_seq_len counts both.
        Pipeline(cls="mflux.models.flux:Flux1InContextDev", summary="in-context"),
        Pipeline(cls="mflux.models.flux:Flux1InContextFill", summary="in-context editing"),
    ),
    body=Body(
        blocks=("transformer_blocks", "single_transformer_blocks"),
        image="hidden_states",
        text="encoder_hidden_states",
        returns=("text", "image"),
        tail="norm_out",
        drop_on_reuse=("controlnet_block_samples", "controlnet_single_block_samples"),
    ),
    signal=Signal(read=modulated_input, tensor="modulated image input of block 0"),
    branch_key="prompt_embeds",
    refused={
        "mflux.models.flux:Flux1Concept": OTHER_TRANSFORMER,
        "mflux.models.flux:Flux1ConceptFromImage": OTHER_TRANSFORMER,
    },
    calibrations="teacache_flux1:calibrations",
    tolerance="teacache_flux1:tolerance.toml",
    toy="teacache_flux1.toy:TOY",
    host_versions=("0.21", "0.24"),
)


@hookimpl
def teacache_adapters() -> list[Adapter]:
    """Registers the family."""
    return [ADAPTER]
