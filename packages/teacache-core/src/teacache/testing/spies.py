"""Looks into a model from outside: what ran, what is left, what the latents were. Imports mlx; never mflux."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

from teacache.adapter import Adapter, Pipeline
from teacache.errors import TeaCacheWarning

Latents = list[np.ndarray[Any, Any]]


class LatentsRecorder:
    """An mflux callback that keeps the latents of every step, as float32 copies (exact for every half precision)."""

    def __init__(self) -> None:
        self.latents: Latents = []

    def call_in_loop(self, t: int, seed: int, prompt: str, latents: mx.array, config: Any, time_steps: Any) -> None:
        """Keeps the latents after a step."""
        self.latents.append(np.array(latents.astype(mx.float32)))


def record_latents(model: Any, **arguments: Any) -> Latents:
    """Runs an mflux pipeline's own `generate_image` and returns the latents after each of its steps."""
    recorder = LatentsRecorder()
    model.callbacks.register(recorder)
    try:
        model.generate_image(**arguments)
    finally:
        model.callbacks.in_loop.remove(recorder)
    return recorder.latents


def same(first: Latents, second: Latents) -> bool:
    """Tells whether two runs have the same latents, byte for byte, after every step."""
    return len(first) == len(second) and all(
        a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True)
    )


def transformer_of(model: Any, pipeline: Pipeline) -> Any:
    """Returns the transformer of a model."""
    return model if pipeline.transformer is None else getattr(model, pipeline.transformer)


class LastBlockSpy:
    """Counts the runs of the last block, and can make one of them fail. Undone by `remove`."""

    def __init__(
        self,
        transformer: Any,
        adapter: Adapter,
        *,
        fail_at: int | None = None,
        error: type[BaseException] = RuntimeError,
    ) -> None:
        self.runs = 0
        self._block = transformer[adapter.body.blocks[-1]][-1]
        self._class = type(self._block)
        spy, base = self, self._class

        class Spied(base):  # type: ignore[misc, valid-type]
            def __call__(self, *args: Any, **kwargs: Any) -> Any:
                spy.runs += 1
                if spy.runs == fail_at:
                    raise error("planted in the last block")
                return super().__call__(*args, **kwargs)

        self._block.__class__ = Spied

    def remove(self) -> None:
        """Gives the block its class back."""
        self._block.__class__ = self._class


def snapshot(model: Any, adapter: Adapter, pipeline: Pipeline) -> dict[str, Any]:
    """Everything of a model that wrapping may touch, for comparing before and after."""
    transformer = transformer_of(model, pipeline)
    registry = getattr(model, "callbacks", None)
    parameters: list[tuple[str, mx.array]] = tree_flatten(transformer.parameters())  # type: ignore[assignment]
    return {
        "class": type(transformer),
        "attributes": dict(vars(model)),
        "entries": {key: id(value) for key, value in transformer.items()},
        "blocks": {name: [id(block) for block in transformer[name]] for name in adapter.body.blocks},
        "list types": {name: type(transformer[name]) for name in adapter.body.blocks},
        "parameters": {name: id(value) for name, value in parameters},
        "callbacks": {key: list(value) for key, value in vars(registry).items()} if registry is not None else {},
    }


@contextmanager
def compile_disabled() -> Iterator[None]:
    """Runs with `mx.compile` switched off, for comparing eager with eager."""
    mx.disable_compile()
    try:
        yield
    finally:
        mx.enable_compile()


@contextmanager
def expected_warnings() -> Iterator[None]:
    """Lets teacache's own warnings pass where a test provokes them and looks at something else."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TeaCacheWarning)
        yield
