"""A second, slower way to reuse residuals, for comparison: it shares an adapter's description and no code with core.

It swaps the block lists for plain lists and counts calls. Eager only. Imports mlx; never mflux.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mlx.core as mx

from teacache.adapter import Adapter


@contextmanager
def reference_reuse(
    transformer: Any, adapter: Adapter, *, reused: Sequence[bool], branches: int, target: int | None
) -> Iterator[None]:
    """Makes the transformer reuse its residuals on the given steps, counting `branches` calls per step.

    Args:
        transformer: the model's transformer, not wrapped.
        adapter: its description.
        reused: one entry per step of the run that follows; True: reused.
        branches: calls of the transformer per step.
        target: number of target tokens; None for all.
    """
    body, base = adapter.body, type(transformer)
    residuals: dict[int, mx.array] = {}
    calls = 0

    def read(args: tuple[Any, ...], kwargs: dict[str, Any], argument: str | int) -> Any:
        return args[argument] if isinstance(argument, int) else kwargs[argument]

    class Reference(base):  # type: ignore[misc, valid-type]
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            step, branch = divmod(calls, branches)
            calls += 1
            container, key = (self, body.tail) if isinstance(body.tail, str) else body.tail(self)
            lists, tail = {name: self[name] for name in body.blocks}, container[key]
            entered: list[mx.array] = []

            def first(*block_args: Any, **block_kwargs: Any) -> Any:
                entered.append(read(block_args, block_kwargs, body.image) * 1)
                return lists[body.blocks[0]][0](*block_args, **block_kwargs)

            def stand_in(*block_args: Any, **block_kwargs: Any) -> Any:
                image = read(block_args, block_kwargs, body.image)
                count = residuals[branch].shape[-2]
                moved = mx.concatenate([image[..., :count, :] + residuals[branch], image[..., count:, :]], axis=-2)
                if body.returns is None:
                    return moved
                return tuple(
                    moved if stream == "image" else read(block_args, block_kwargs, body.text or 0)
                    for stream in body.returns
                )

            def tapped(tokens: mx.array, *tail_args: Any, **tail_kwargs: Any) -> Any:
                count = tokens.shape[-2] if target is None else target
                residuals[branch] = tokens[..., :count, :] - entered[0][..., :count, :]
                return tail(tokens, *tail_args, **tail_kwargs)

            try:
                if reused[step]:
                    for name in body.blocks:
                        self[name] = [stand_in] if name == body.blocks[0] else []
                    kwargs = {name: value for name, value in kwargs.items() if name not in body.drop_on_reuse}
                else:
                    self[body.blocks[0]] = [first, *lists[body.blocks[0]][1:]]
                    container[key] = tapped
                return super().__call__(*args, **kwargs)
            finally:
                for name, blocks in lists.items():
                    self[name] = blocks
                container[key] = tail

    transformer.__class__ = Reference
    try:
        yield
    finally:
        transformer.__class__ = base
