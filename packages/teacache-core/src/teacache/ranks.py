"""Work spread over the processes of `mlx.launch`, here or on several machines. Imports mlx where there are several."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Item = TypeVar("Item")

LAUNCHED = ("MLX_RANK", "OMPI_COMM_WORLD_RANK")
"""What mlx.launch sets for each process: with its own backends, with MPI."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Which of how many processes this one is.

    Attributes:
        rank: from 0 up.
        size: how many there are.
    """

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """It is the one that writes the results."""
        return self.rank == 0

    def share(self, items: Sequence[Item]) -> list[Item]:
        """Returns this process's part of the work."""
        return list(items[self.rank :: self.size])

    def gather(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Returns the rows of all processes, those of the first first. Waits for all of them.

        Args:
            rows: what this process found, as JSON takes it.
        """
        if self.size == 1:
            return list(rows)
        import mlx.core as mx

        def from_all(array: mx.array) -> mx.array:
            # The backends between machines work on the CPU.
            gathered = mx.distributed.all_gather(array, stream=mx.cpu).reshape(self.size, -1)
            mx.eval(gathered)
            return gathered

        text = json.dumps(list(rows)).encode()
        lengths: Any = from_all(mx.array([len(text)], dtype=mx.int32)).reshape(-1).tolist()
        padded = from_all(mx.array(list(text.ljust(max(lengths))), dtype=mx.uint8))
        texts = [bytes(padded[rank, :length].tolist()) for rank, length in enumerate(lengths)]  # type: ignore[arg-type]
        return [row for one in texts for row in json.loads(one)]


def launched() -> Ranks:
    """Returns the ranks that this process was launched with; alone where it was not."""
    if not any(name in os.environ for name in LAUNCHED):
        return Ranks()
    import mlx.core as mx

    group = mx.distributed.init()
    return Ranks(group.rank(), group.size())
