"""What small models and pictures for tests are made of. Imports mlx; never mflux."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten


def filled(module: Any, dtype: mx.Dtype = mx.float32) -> Any:
    """Gives a module random weights, the same at every call, and returns it.

    Matrices keep the variance of what goes through, scales lie near 1, biases are small.
    """
    values: list[tuple[str, mx.array]] = []
    parameters: list[tuple[str, mx.array]] = tree_flatten(module.parameters())  # type: ignore[assignment]
    for index, (name, value) in enumerate(parameters):
        bound = (3 / value.shape[-1]) ** 0.5 if value.ndim == 2 else 0.1
        noise = mx.random.uniform(-bound, bound, value.shape, key=mx.random.key(index))
        is_scale = value.ndim == 1 and name.endswith("weight")
        values.append((name, (1 + noise if is_scale else noise).astype(dtype)))
    module.update(tree_unflatten(values))
    mx.eval(module.parameters())
    return module


def picture(folder: Path, *, side: int = 64, seed: int = 0) -> Path:
    """Returns the path of a picture of coloured noise, saved once."""
    import PIL.Image

    path = folder / f"picture-{side}-{seed}.png"
    if not path.exists():
        coarse = np.random.default_rng(seed).integers(0, 255, (4, 4, 3), dtype=np.uint8)
        PIL.Image.fromarray(coarse).resize((side, side)).save(path)
    return path
