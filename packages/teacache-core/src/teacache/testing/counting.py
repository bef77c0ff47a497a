"""Counts evaluations and scalars read from MLX, and who asked for them. Imports mlx; never mflux."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

SCALARS = ("item", "__float__", "__int__", "__bool__")
EVALUATIONS = ("eval", "async_eval")


@dataclass(slots=True)
class Counts:
    """What was asked of MLX.

    Attributes:
        evaluations: calls of `mx.eval` and `mx.async_eval` that had something to compute, by whom: "ours" or "theirs".
        scalars: numbers read out of arrays, by whom.
    """

    evaluations: dict[str, int] = field(default_factory=lambda: {"ours": 0, "theirs": 0})
    scalars: dict[str, int] = field(default_factory=lambda: {"ours": 0, "theirs": 0})


@contextmanager
def counted() -> Iterator[Counts]:
    """Counts for as long as the context is open. Not for threads: MLX's own functions are replaced meanwhile."""
    counts = Counts()
    before = {name: getattr(mx, name) for name in EVALUATIONS}
    read = {name: getattr(mx.array, name) for name in SCALARS}

    def evaluation(original: Callable[..., Any]) -> Callable[..., Any]:
        def evaluate(*arrays: Any) -> Any:
            if _pending(arrays):
                counts.evaluations[_asker()] += 1
            return original(*arrays)

        return evaluate

    def scalar(original: Callable[..., Any]) -> Callable[..., Any]:
        def value(array: mx.array) -> Any:
            counts.scalars[_asker()] += 1
            return original(array)

        return value

    try:
        for name, original in before.items():
            setattr(mx, name, evaluation(original))
        for name, original in read.items():
            setattr(mx.array, name, scalar(original))
        yield counts
    finally:
        for name, original in before.items():
            setattr(mx, name, original)
        for name, original in read.items():
            setattr(mx.array, name, original)


def _pending(arrays: Any) -> bool:
    """Whether there is anything to compute: an evaluated array has no operation behind it in MLX's own drawing."""
    pairs: Any = tree_flatten(list(arrays))
    leaves = [leaf for _, leaf in pairs if isinstance(leaf, mx.array)]
    drawing = io.StringIO()
    if leaves:
        mx.export_to_dot(drawing, *leaves)
    return "rectangle" in drawing.getvalue()


def _asker() -> str:
    """Who called the function that called this one."""
    name = sys._getframe(2).f_globals.get("__name__", "")
    ours = name.split(".")[0] == "teacache" and not name.startswith("teacache.testing.")
    return "ours" if ours else "theirs"
