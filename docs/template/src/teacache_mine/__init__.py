"""My model for teacache: where its body begins and ends, and what its gate compares. Imports no model library."""

from __future__ import annotations

from typing import Any

from teacache import Adapter, BlockCall, Body, Pipeline, Signal, hookimpl


def modulated_input(call: BlockCall) -> Any:
    """What the first block reads of its tokens; `call` has the block, and its arguments by position."""
    return call.block.norm(call[0]) * (1 + call[1])


ADAPTER = Adapter(
    name="mine",
    contract=1,
    host="loop",
    transformer="teacache_mine.model:Painter",
    pipelines=(Pipeline(cls="teacache_mine.model:Painter", transformer=None),),
    body=Body(blocks=("layers",), image=0, tail="out"),
    signal=Signal(read=modulated_input, tensor="modulated input of layer 0"),
)


@hookimpl
def teacache_adapters() -> list[Adapter]:
    """Registers the adapter."""
    return [ADAPTER]
