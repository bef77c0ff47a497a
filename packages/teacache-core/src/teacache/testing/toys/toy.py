"""What a family says about its toy, and how a toy becomes a pipeline. Imports mlx; mflux only through the families."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten, tree_unflatten

from teacache.errors import UnknownModelError
from teacache.plugins import get_adapter

WEIGHTS = "toy_weights.safetensors"


@dataclass(frozen=True)
class Toy:
    """A family's toy: its own transformer class at a small size, and the pipeline around it.

    Attributes:
        family: name of the family, as `toy_pipeline` takes it.
        package: import package that carries `toy_weights.safetensors`.
        width: numbers per latent token.
        transformer: builds the transformer with fresh random weights.
        pipeline: builds the family's pipeline object around a transformer.
        velocity: training forward. (transformer, tokens (B, T, width), words (B, W, 64), sigmas (B,)) to the
            velocity noise - clean, (B, T, width), through the transformer's own `__call__`.
        description: how `transformer` builds it, for the metadata of the weights.
        sized: (width, blocks) to a transformer of that inner width, a multiple of 128, and so many blocks in all, for
            benchmarks; None where the family brings none.
    """

    family: str
    package: str
    width: int
    transformer: Callable[[], nn.Module]
    pipeline: Callable[[nn.Module], Any]
    velocity: Callable[[nn.Module, mx.array, mx.array, mx.array], mx.array]
    description: str = ""
    sized: Callable[[int, int], nn.Module] | None = None


def find_toy(family: str) -> Toy:
    """The toy that an installed adapter brings.

    Raises:
        AdapterNotInstalledError: no installed adapter has this name.
        UnknownModelError: the adapter brings no toy.
    """
    adapter = get_adapter(family)
    if adapter.toy is None:
        raise UnknownModelError(
            f"The adapter {family!r} brings no toy. Its author names one with Adapter(toy='module:NAME'), "
            "a teacache.testing.toys.toy.Toy."
        )
    module, _, name = adapter.toy.partition(":")
    toy: Toy = getattr(importlib.import_module(module), name)
    return toy


def toy_pipeline(family: str, *, weights: bool | str | Path = True) -> Any:
    """A pipeline of the family that draws coloured shapes, small enough for a CPU.

    The object is of mflux's own class, its transformer of mflux's own transformer class. Draw at 128 x 128:
    `toy_pipeline("flux2").generate_image(seed=1, prompt="red circle left, white background",
    num_inference_steps=30, height=128, width=128, guidance=2.0)`.

    Args:
        family: "flux1", "flux2", "qwen", "zimage", or the name of another adapter that brings a toy.
        weights: True for the trained weights of the package, False for random ones (the same at every call),
            or a safetensors file, as `teacache.testing.toys.training` writes it.

    Raises:
        AdapterNotInstalledError: no installed adapter has this name.
        UnknownModelError: the adapter brings no toy.
        FileNotFoundError: the weights are not there.
    """
    toy = find_toy(family)
    transformer = toy.transformer()
    if weights is False:
        fill_randomly(transformer)
    elif weights is True:
        with as_file(files(toy.package) / WEIGHTS) as path:
            load_weights(transformer, path)
    else:
        load_weights(transformer, Path(weights))
    return toy.pipeline(transformer)


def load_weights(transformer: nn.Module, path: Path) -> None:
    """Load a weight file into the transformer, in float32: half precision products are slow on a CPU."""
    if not path.exists():
        raise FileNotFoundError(
            f"There are no toy weights at {path}. Train some: teacache toy train FAMILY --out {path}"
        )
    loaded: Any = mx.load(str(path))
    transformer.load_weights([(name, value.astype(mx.float32)) for name, value in loaded.items()], strict=True)
    mx.eval(transformer.parameters())


def flat(tree: Any) -> dict[str, mx.array]:
    """The arrays of a nested tree by their dotted names."""
    pairs: Any = tree_flatten(tree)
    return dict(pairs)


def fill_randomly(transformer: nn.Module) -> None:
    """Fill in random matrices from a seed of their own, without touching MLX's global one; vectors stay as they are."""
    filled = []
    for index, (name, value) in enumerate(flat(transformer.parameters()).items()):
        value = value.astype(mx.float32)
        if value.ndim == 2:
            bound = value.shape[-1] ** -0.5
            value = mx.random.uniform(-bound, bound, value.shape, key=mx.random.key(index))
        filled.append((name, value))
    transformer.update(tree_unflatten(filled))
    mx.eval(transformer.parameters())
