"""The host for any MLX loop without mflux: the user's own loop iterates over the steps of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from teacache.adapter import Pipeline
from teacache.changes import Changes
from teacache.errors import OptionError
from teacache.hosts import Names
from teacache.run import RunInfo
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


@contextmanager
def loop_run(session: Session, sigmas: Sequence[float], info: RunInfo) -> Iterator[Iterator[int]]:
    """Opens a run for a loop of the user's own.

    Args:
        session: the wrapped model's session.
        sigmas: noise levels, as the user gave them.
        info: the run.

    Yields:
        An iterator over the step indices; each step ends when the next is asked for. A loop that is left early, or
        by an error, is a broken run and does not count.
    """
    if len(sigmas) < 2:
        raise OptionError(
            f"run(sigmas) got {len(sigmas)} noise level(s); expected one per step and the last one's end, as in "
            "run([1.0, 0.5, 0.0]) for two steps."
        )
    session.begin(info)

    def steps() -> Iterator[int]:
        for index in range(info.first_step, len(info.sigmas) - 1):
            yield index
            session.end_step(index)

    try:
        yield steps()
        session.end()
        session.commit()
    finally:
        session.abort()
