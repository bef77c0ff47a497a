"""The host for any MLX loop without mflux: the user's own loop iterates over the steps of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mlx.core as mx

from teacache.adapter import Pipeline
from teacache.changes import Changes
from teacache.errors import OptionError
from teacache.hosts import Names
from teacache.run import Run, RunInfo
from teacache.session import Session


class LoopHost:
    """Nothing to tie to: `Handle.run` opens and ends the runs."""

    def install(self, model: Any, pipeline: Pipeline, session: Session, changes: Changes) -> None:
        """Does nothing; the boundary is all that changes the model."""

    def names(self, model: Any) -> Names:
        """Returns nothing: a bare model does not say which weights it holds. `checkpoint=` does."""
        return Names()

    def version(self) -> str | None:
        """Returns None: there is no host package."""
        return None


class LoopRun:
    """The steps of one run in a loop of the user's own.

    Iterating gives the step indices; a step ends when the next is asked for::

        with handle.run(sigmas) as steps:
            for k in steps:
                v = steps.velocity(model(x, sigmas[k]))
                x = x + (sigmas[k + 1] - sigmas[k]) * v
    """

    def __init__(self, session: Session, run: Run) -> None:
        self._session = session
        self._run = run

    def __iter__(self) -> Iterator[int]:
        """Yields the index of each step that runs."""
        for index in range(self._run.info.first_step, len(self._run.info.sigmas) - 1):
            yield index
            self._session.end_step(index)

    def velocity(self, predicted: mx.array) -> mx.array:
        """Returns the velocity to step with: what was predicted, behind guidance, unless a plan carries another over.

        The gate needs no such call; a plan does, and says so where it is missing.
        """
        return self._run.velocity(predicted)


@contextmanager
def loop_run(session: Session, info: RunInfo) -> Iterator[LoopRun]:
    """Opens a run for a loop of the user's own.

    Args:
        session: the wrapped model's session.
        info: the run.

    Yields:
        The steps. A loop that is left early, or by an error, is a broken run and does not count.

    Raises:
        OptionError: there is no step in the schedule, or the model is restored.
    """
    if info.steps < 1:
        raise OptionError(
            f"run(sigmas) got {len(info.sigmas)} noise level(s); expected one per step and the last one's end, as in "
            "run([1.0, 0.5, 0.0]) for two steps."
        )
    run = session.begin(info)
    if run is None:
        raise OptionError("run(...) was called on a restored model. Wrap it again.")
    try:
        yield LoopRun(session, run)
        session.end()
        session.commit()
    finally:
        session.abort()
