"""FLUX.2 Klein for teacache: where its body begins and ends, what its gate compares. Imports neither mlx nor mflux."""

from __future__ import annotations

from typing import TYPE_CHECKING

from teacache import Adapter, BlockCall, Body, Pipeline, Signal, hookimpl

if TYPE_CHECKING:
    import mlx.core as mx


def modulated_input(call: BlockCall) -> mx.array:
    """What attention reads of the image in the first block: normed, scaled and shifted by the time embedding."""
    shift, scale, _ = call["temb_mod_params_img"][0]
    modulated: mx.array = (1 + scale) * call.block.norm1(call["hidden_states"]) + shift
    return modulated


ADAPTER = Adapter(
    name="flux2",
    contract=1,
    transformer="mflux.models.flux2:Flux2Transformer",
    pipelines=(
        Pipeline(cls="mflux.models.flux2:Flux2Klein", factories=("_predict",)),
        # With the key-value cache the first step is predicted by _predict and all others by _cached_predict.
        Pipeline(cls="mflux.models.flux2:Flux2KleinEdit", factories=("_predict", "_cached_predict"), summary="editing"),
    ),
    body=Body(
        blocks=("transformer_blocks", "single_transformer_blocks"),
        image="hidden_states",
        text="encoder_hidden_states",
        returns=("text", "image"),
        tail="norm_out",
    ),
    signal=Signal(read=modulated_input, tensor="modulated image input of block 0"),
    calibrations="teacache_flux2:calibrations",
    tolerance="teacache_flux2:tolerance.toml",
    toy="teacache_flux2.toy:TOY",
    host_versions=("0.21", "0.24"),
)


@hookimpl
def teacache_adapters() -> list[Adapter]:
    """Registers the family."""
    return [ADAPTER]
