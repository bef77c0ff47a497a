"""Runs of one's own choosing on a model of a user, for the commands and benchmarks that measure. Must not import mflux.

`teacache.wrap` chooses by itself; here the caller brings the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import mlx.core as mx

from teacache.adapter import Adapter
from teacache.boundary import Boundary
from teacache.changes import Changes
from teacache.errors import AlreadyWrappedError
from teacache.gated import GatedRun
from teacache.hosts import host_for
from teacache.pieces import Pieces
from teacache.plugins import find_adapter
from teacache.run import Run, RunInfo
from teacache.session import Choice, Session
from teacache.stats import StepRecord
from teacache.velocity import VelocityRun
from teacache.walks import Args, Kwargs

MakeRun = Callable[[RunInfo], Run]
"""Makes the run of one picture. It may keep it, to ask it for what it measured."""


@contextmanager
def steered(model: Any, make: MakeRun, *, adapter: Adapter | None = None) -> Iterator[Session]:
    """Has every run of a model made by `make`, for as long as the context is open.

    Args:
        model: a model that is not wrapped.
        make: called as each run begins.
        adapter: describes the model; None: the installed one that does.

    Yields:
        The session: its `stats` hold the finished runs.

    Raises:
        TeaCacheError: as for `teacache.wrap`.
    """
    described, pipeline = find_adapter(model, adapter=adapter)
    transformer = model if pipeline.transformer is None else getattr(model, pipeline.transformer)
    if hasattr(type(transformer), "teacache_boundary"):
        raise AlreadyWrappedError(f"This {type(model).__name__} is wrapped. Call restore() on its handle first.")
    boundary = Boundary(described.body, described.signal, batch=described.branches_in_batch)
    session = Session(boundary, lambda info: Choice(make=lambda info, _: make(info), summary="measured", explain=False))
    changes = Changes()
    try:
        boundary.install(transformer, changes)
        if not pipeline.factories:
            key = described.branch_key
            boundary.on_call = lambda entry, args, kwargs: session.traced_call(entry, args, kwargs, key)
        host_for(described.host).install(model, pipeline, session, changes)
        yield session
    finally:
        session.close()
        changes.undo()


def target_tokens(adapter: Adapter, info: RunInfo) -> int | None:
    """Returns how many tokens of the image stream become the picture of a run; None for all."""
    return adapter.target_of(info.image_tokens)


class MeasuringRun(VelocityRun):
    """Computes every step, and measures all that a calibration is made from: changes and kernel, in one run.

    Args:
        info: what the host knows.
        target: number of target tokens, see `target_tokens`.
    """

    measures_body = True

    def __init__(self, info: RunInfo, *, target: int | None) -> None:
        super().__init__(info, record=True)
        self.target = target
        self._shadow = GatedRun(info, target=target, policy=None)

    def call(self, pieces: Pieces, args: Args, kwargs: Kwargs, key: Any = None) -> Any:
        """See `Run.call`."""
        self._calls += 1
        return self._shadow.call(pieces, args, kwargs, key)

    def close(self) -> None:
        """See `Run.close`."""
        super().close()
        self._shadow.close()

    def _finish(self, index: int, latents: mx.array | None) -> StepRecord:
        super()._finish(index, latents)
        return replace(self._shadow.end_step(index, latents), reason="recording")
