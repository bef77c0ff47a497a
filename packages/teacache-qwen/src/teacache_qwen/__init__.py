"""Qwen-Image for teacache: where its body begins and ends, what its gate compares. Imports neither mlx nor mflux."""

from __future__ import annotations

from typing import TYPE_CHECKING

from teacache import Adapter, BlockCall, Body, Pipeline, Signal, hookimpl

if TYPE_CHECKING:
    import mlx.core as mx


def modulated_input(call: BlockCall) -> mx.array:
    """What attention reads of the image in the first block: normed, scaled and shifted by the time embedding."""
    block = call.block

    def modulation(embeddings: mx.array) -> mx.array:
        both: mx.array = block.img_mod_linear(block.img_mod_silu(embeddings))
        return both[..., : both.shape[-1] // 2]

    parameters = [modulation(call["text_embeddings"])]
    reference = call.kwargs.get("cond_embeddings")
    if reference is not None:  # Edit-2511: reference tokens are modulated with timestep 0
        parameters += [modulation(reference), call["is_cond_token"]]
    modulated: mx.array = block._modulate(block.img_norm1(call["hidden_states"]), *parameters)[0]
    return modulated


ADAPTER = Adapter(
    name="qwen",
    contract=1,
    transformer="mflux.models.qwen:QwenTransformer",
    pipelines=(
        Pipeline(cls="mflux.models.qwen:QwenImage"),
        Pipeline(cls="mflux.models.qwen:QwenImageEdit", summary="editing"),
    ),
    body=Body(
        blocks=("transformer_blocks",),
        image="hidden_states",
        text="encoder_hidden_states",
        returns=("text", "image"),
        tail="norm_out",
    ),
    signal=Signal(read=modulated_input, tensor="modulated image input of block 0"),
    branch_key="encoder_hidden_states",
    calibrations="teacache_qwen:calibrations",
    tolerance="teacache_qwen:tolerance.toml",
    toy="teacache_qwen.toy:TOY",
    host_versions=("0.21", "0.24"),
)


@hookimpl
def teacache_adapters() -> list[Adapter]:
    """Registers the family."""
    return [ADAPTER]
