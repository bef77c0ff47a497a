"""Z-Image for teacache: where its body begins and ends, what its gate compares. Imports neither mlx nor mflux."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from teacache import Adapter, BlockCall, Body, Pipeline, Signal, hookimpl

if TYPE_CHECKING:
    import mlx.core as mx

PADDING = 32
"""The transformer pads the image tokens, and the text tokens behind them, to multiples of this."""


def residual_of_first_layer(call: BlockCall) -> mx.array:
    """What the first layer adds to the whole stream: image, padding and text (what the published fit was made on)."""
    residual: mx.array = call.run() - call["x"]
    return residual


def final_layer(transformer: Any) -> tuple[MutableMapping[str, Any], str]:
    """Finds the tail among the layers of all patch sizes."""
    return transformer.all_final_layer, f"{transformer.patch_size}-{transformer.f_patch_size}"


def padded(tokens: int) -> int:
    """Counts the padding behind the image tokens to the picture."""
    return -(-tokens // PADDING) * PADDING


ADAPTER = Adapter(
    name="zimage",
    contract=1,
    transformer="mflux.models.z_image:ZImageTransformer",
    pipelines=(
        Pipeline(cls="mflux.models.z_image:ZImage", factories=("_predict",)),
        Pipeline(cls="mflux.models.z_image:ZImageTurboControlnet", summary="ControlNet"),
    ),
    body=Body(
        blocks=("layers",),
        image="x",
        tail=final_layer,
        drop_on_reuse=("controlnet_block_samples",),
    ),
    signal=Signal(read=residual_of_first_layer, tensor="residual of layer 0", tokens="all"),
    target_tokens=padded,
    branch_key="cap_feats",
    calibrations="teacache_zimage:calibrations",
    tolerance="teacache_zimage:tolerance.toml",
    toy="teacache_zimage.toy:TOY",
    host_versions=("0.21", "0.24"),
)


@hookimpl
def teacache_adapters() -> list[Adapter]:
    """Registers the family."""
    return [ADAPTER]
