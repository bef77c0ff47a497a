"""The documentation's example of an mflux family that no package here describes, held to the whole suite."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import mlx.core as mx
import pytest
from mlx.utils import tree_map_with_path

from teacache.testing.conformance import AdapterConformance
from teacache.testing.toys.standins import pipeline_object

PAGE = Path(__file__).parents[4] / "docs/writing-an-adapter.md"
PROMPT = "a red circle"
SIZES = {
    "hidden_size": 64,
    "num_attention_heads": 2,
    "num_layers": 3,
    "ffn_hidden_size": 96,
    "text_in_dim": 24,
    "rope_axes_dim": [8, 12, 12],
}

if not PAGE.is_file():
    pytest.skip("the documentation is not there", allow_module_level=True)


def documented() -> Any:
    """The adapter that the page shows."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(next(block for block in blocks if "ERNIE = Adapter(" in block), names)
    return names["ERNIE"]


class Codec:
    """Takes the VAE's place: the picture is not looked at."""

    def decode_packed_latents(self, latents: mx.array, tiling_config: Any = None) -> mx.array:
        return mx.zeros((1, 3, 16 * latents.shape[2], 16 * latents.shape[3]))


def ernie(guidance: float) -> Any:
    from mflux.models.common.config.model_config import ModelConfig
    from mflux.models.ernie_image.model.ernie_transformer.transformer import ErnieTransformer
    from mflux.models.ernie_image.variants.txt2img.ernie_image import ErnieImage

    transformer = ErnieTransformer(**SIZES)

    def filled(name: str, value: mx.array) -> mx.array:
        seed = sum(name.encode())
        bound = (3 / value.shape[-1]) ** 0.5 if value.ndim > 1 else 0.1
        noise = mx.random.uniform(-bound, bound, value.shape, key=mx.random.key(seed))
        return 1 + noise if value.ndim == 1 and name.endswith("weight") else noise

    transformer.update(tree_map_with_path(filled, transformer.parameters()))
    branches = 2 if guidance > 1 else 1
    words = mx.random.normal((branches, 5, 24), key=mx.random.key(1))
    lengths = mx.array([3, 5][-branches:])
    cache = {(PROMPT, None, guidance): (words, lengths)}
    mx.eval(transformer.parameters(), words)
    return pipeline_object(ErnieImage, ModelConfig.ernie_image(), transformer, vae=Codec(), prompt_cache=cache)


class TestErnieWithGuidance(AdapterConformance):
    """Both branches in one call with batch 2, blocks called by position, a factory of four arguments."""

    adapter = documented()
    installed = False
    steps = 6
    arguments: ClassVar[dict[str, Any]] = {"prompt": PROMPT, "height": 64, "width": 48, "guidance": 3.0}
    variation: ClassVar[dict[str, Any]] = {"height": 48}

    def make_model(self) -> Any:
        return ernie(3.0)
