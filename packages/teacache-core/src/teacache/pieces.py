"""Probe, compute and reuse of one entry (a predict function or a transformer call), eager or compiled.

The decision sits in Python between the pieces: a gate inside a compiled function would be traced once and freeze.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mlx.core as mx

from teacache.boundary import Boundary
from teacache.walks import Args, Kwargs

# By type and not by isinstance: what mx.compile returns claims to be a plain function through __class__.
COMPILED = type(mx.compile(abs))


class Pieces:
    """The pieces of one entry. They hold the entry, and through it the model: never keep them beyond it.

    Args:
        boundary: steers the transformer that the entry calls.
        fn: the entry, as the pipeline would call it.
        target: number of target tokens; None for all.
        keep_output: compute also hands out the target tokens behind the body (for the change of the body).
        compile: None follows `fn`: compiled where it is; True compiles; False runs even a compiled `fn` eagerly.
    """

    def __init__(
        self,
        boundary: Boundary,
        fn: Callable[..., Any],
        *,
        target: int | None,
        keep_output: bool = False,
        compile: bool | None = None,
    ) -> None:
        compiled_entry = type(fn) is COMPILED
        self._fn = fn
        self._eager_only = compile is False and compiled_entry

        def probe(args: Args, kwargs: Kwargs) -> tuple[mx.array, list[mx.array]]:
            return boundary.probe(fn, args, kwargs, target)

        def compute(
            args: Args, kwargs: Kwargs, tokens: Sequence[mx.array] | None
        ) -> tuple[Any, list[mx.array], list[mx.array]]:
            output, before, after = boundary.compute(fn, args, kwargs, target, tokens)
            residuals = [behind - ahead for ahead, behind in zip(before, after, strict=True)]
            return output, residuals, after if keep_output else []

        def reuse(args: Args, kwargs: Kwargs, tokens: Sequence[mx.array] | None, residuals: Sequence[mx.array]) -> Any:
            return boundary.reuse(fn, args, kwargs, tokens, residuals)

        if compile or (compile is None and compiled_entry):
            probe, compute, reuse = mx.compile(probe), mx.compile(compute), mx.compile(reuse)
        self._probe, self._compute, self._reuse = probe, compute, reuse

    def plain(self, args: Args, kwargs: Kwargs) -> Any:
        """Calls the entry as if nothing were wrapped."""
        with self._mode():
            return self._fn(*args, **kwargs)

    def probe(self, args: Args, kwargs: Kwargs) -> tuple[mx.array, list[mx.array]]:
        """See `Boundary.probe`."""
        with self._mode():
            return self._probe(args, kwargs)

    def compute(
        self, args: Args, kwargs: Kwargs, tokens: Sequence[mx.array] | None
    ) -> tuple[Any, list[mx.array], list[mx.array]]:
        """Returns what the entry returns, one residual per branch, and the outputs where they are kept."""
        with self._mode():
            return self._compute(args, kwargs, tokens)

    def reuse(
        self, args: Args, kwargs: Kwargs, tokens: Sequence[mx.array] | None, residuals: Sequence[mx.array]
    ) -> Any:
        """See `Boundary.reuse`."""
        with self._mode():
            return self._reuse(args, kwargs, tokens, residuals)

    @contextmanager
    def _mode(self) -> Iterator[None]:
        if not self._eager_only or not compile_enabled():
            yield
            return
        mx.disable_compile()
        try:
            yield
        finally:
            mx.enable_compile()


def compile_enabled() -> bool:
    """Tells whether `mx.compile` compiles at the moment: MLX has a switch, but no way to read it."""
    traces = 0

    def count(x: mx.array) -> mx.array:
        nonlocal traces
        traces += 1
        return x

    compiled = mx.compile(count)
    compiled(mx.zeros(1))
    compiled(mx.zeros(1))
    return traces == 1
