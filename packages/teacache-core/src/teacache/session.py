"""The live part of a wrapped model: opens runs, hands calls to them, counts the finished ones.

Stands between a host (whose loop it is) and a run (whose numbers they are). Must not import mflux.
"""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from teacache.boundary import Boundary
from teacache.errors import CompileOptionError, NothingReusedWarning, TeaCacheWarning
from teacache.pieces import Pieces
from teacache.run import OnStep, Run, RunInfo
from teacache.stats import RunStats, Stats, StepRecord, explain_nothing_reused
from teacache.walks import Args, Kwargs

log = logging.getLogger(__name__)  # debug only: mflux shows every INFO of every package

COMPILABLE = (mx.array, int, float, str, type(None))
"""What `mx.compile` takes as a leaf of its arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is done in one run, and what is said of it.

    Attributes:
        make: makes the run.
        summary: the policy in a few words.
        threshold: the gate's threshold, for the explanation of a run that reused nothing.
        checkpoint: whose numbers are used.
        identity: how surely the model holds it.
        calibration: the calibration whose numbers are used, with its status.
        distilled: the checkpoint is made for a few steps.
        warnings: what the user must know before the run; each text is given once.
        explain: a run that reuses nothing is worth a warning.
        note: why nothing is reused, where that is known before the run.
        on_success: called with the run once its picture is made; returns what the user must know of it.
    """

    make: Callable[[RunInfo, OnStep | None], Run]
    summary: str
    threshold: float | None = None
    checkpoint: str | None = None
    identity: str | None = None
    calibration: str | None = None
    distilled: bool = False
    warnings: tuple[TeaCacheWarning, ...] = ()
    explain: bool = True
    note: str | None = None
    on_success: Callable[[Run], TeaCacheWarning | None] | None = None


class Session:
    """One wrapped model, from `wrap` to `restore`.

    Args:
        boundary: steers the model's transformer.
        choose: decides, when a run begins, what is to be done in it.
        compile: the user's choice, see `teacache.wrap`.
        on_step: called with each record.
        verify: compares traced and untouched path on the first call of a step; None: nobody asked for it.
        packages: the distribution that brings the adapter, for the pictures' metadata.
    """

    def __init__(
        self,
        boundary: Boundary,
        choose: Callable[[RunInfo], Choice],
        *,
        compile: bool | None = None,
        on_step: OnStep | None = None,
        verify: Callable[[Callable[[int | None], Pieces], RunInfo, Args, Kwargs], None] | None = None,
        packages: tuple[str, ...] = (),
    ) -> None:
        self.stats = Stats()
        self.packages = packages
        self.closed = False
        self._boundary = boundary
        self._choose = choose
        self._compile = compile
        self._on_step = on_step
        self._verify = verify
        self._open: tuple[Run, Choice] | None = None
        self._ended: tuple[Run, Choice, RunStats] | None = None
        self._warned: set[str] = set()

    @property
    def run(self) -> Run | None:
        """The open run, if it is this thread's; calls from elsewhere are none of its steps."""
        run = self._open[0] if self._open else None
        return run if run is not None and run.thread == threading.get_ident() else None

    def begin(self, info: RunInfo) -> Run | None:
        """Opens a run. One that was left open by an error is thrown away."""
        self.abort()
        if self.closed:
            return None
        choice = self._choose(info)
        for warning in choice.warnings:
            self.warn(warning)
        log.debug("run of %d steps: %s", info.steps, choice.summary)
        self._open = choice.make(info, self._on_step), choice
        return self._open[0]

    def end_step(self, index: int, latents: mx.array | None = None) -> StepRecord | None:
        """Ends the open step, see `Run.end_step`; None where this thread has no open run."""
        run = self.run
        return None if run is None else run.end_step(index, latents)

    def end(self) -> None:
        """The loop is through: lets go of every array. The run counts once `commit` is called."""
        if self.run is None or self._open is None:
            return
        (run, choice), self._open = self._open, None
        run.close()
        if not run.complete:
            return
        stats = RunStats(
            records=tuple(run.records),
            seconds=run.seconds,
            policy=choice.summary,
            checkpoint=choice.checkpoint,
            identity=choice.identity,
            threshold=choice.threshold,
            calibration=choice.calibration,
            target_tokens=run.target,
            why_nothing=choice.note
            or explain_nothing_reused(run.records, threshold=choice.threshold, distilled=choice.distilled),
        )
        self._ended = run, choice, stats

    def commit(self) -> RunStats | None:
        """The picture is made: counts the run that ended, and says so where it reused nothing."""
        if self._ended is None or self._ended[0].thread != threading.get_ident():
            return None
        (run, choice, stats), self._ended = self._ended, None
        self.stats.runs.append(stats)
        log.debug("%s in %.2f s", stats, stats.seconds)
        notice = choice.on_success(run) if choice.on_success is not None else None
        if notice is not None:
            self.warn(notice)
        if stats.why_nothing is not None and choice.explain:
            self.warn(NothingReusedWarning(f"No step was reused: {stats.why_nothing}"))
        return stats

    def abort(self) -> None:
        """The run broke off: nothing of it is kept or counted."""
        if self._open is not None:
            self._open[0].close()
        self._open = self._ended = None

    def close(self) -> None:
        """No further run is opened; an open one ends."""
        self.closed = True
        self.abort()

    def warn(self, warning: TeaCacheWarning) -> None:
        """Gives a warning, once per text."""
        if str(warning) not in self._warned:
            self._warned.add(str(warning))
            warnings.warn(warning, stacklevel=_users_level())

    def traced_call(self, entry: Callable[..., Any], args: Args, kwargs: Kwargs, key: str | None) -> Any:
        """A call of the transformer is the entry: it is one branch of the open step."""
        run = self.run
        if run is None:
            return entry(*args, **kwargs)
        self.verify(entry, run, args, kwargs)
        return run.call(self.pieces(entry, run), args, kwargs, None if key is None else kwargs.get(key))

    def verify(self, fn: Callable[..., Any], run: Run, args: Args, kwargs: Kwargs) -> None:
        """Has the traced path of an entry compared with the untouched one, where that was asked for."""
        if self._verify is not None:

            def pieces(target: int | None) -> Pieces:
                return Pieces(self._boundary, fn, target=target, compile=self._compile)

            self._verify(pieces, run.info, args, kwargs)

    def check_compilable(self, args: Args, kwargs: Kwargs) -> None:
        """Refuses `compile=True` for a call that MLX cannot compile.

        Raises:
            CompileOptionError: an argument is neither an array nor a plain constant (a key-value cache).
        """
        if not self._compile:
            return
        leaves: list[tuple[str, Any]] = tree_flatten((args, dict(kwargs)))  # type: ignore[assignment]
        foreign = sorted({type(leaf).__name__ for _, leaf in leaves if not isinstance(leaf, COMPILABLE)})
        if foreign:
            raise CompileOptionError(
                f"compile=True was given, but the pipeline passes a {', '.join(foreign)} to its predict function, "
                "which mx.compile cannot take. Leave compile out, or switch that feature off in the pipeline."
            )

    def entry(self, predict: Callable[..., Any]) -> Entry:
        """Wraps a predict function that holds all branches of a step."""
        return Entry(self, predict)

    def pieces(self, fn: Callable[..., Any], run: Run) -> Pieces:
        """Returns the pieces of an entry for one run."""
        return Pieces(self._boundary, fn, target=run.target, keep_output=run.measures_body, compile=self._compile)


def _users_level() -> int:
    """The stack level of the user's own line: the first frame that is neither ours nor the host's."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("teacache", "mflux"):
        level, frame = level + 1, frame.f_back
    return level


class Entry:
    """Stands for the pipeline's predict function. The compiled pieces hang on it and die with it."""

    def __init__(self, session: Session, predict: Callable[..., Any]) -> None:
        self._session = session
        self._predict = predict
        self._pieces: tuple[Run, Pieces] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Predicts one step, as the pipeline's own function would."""
        run = self._session.run
        if run is None:
            return self._predict(*args, **kwargs)
        self._session.check_compilable(args, kwargs)
        if self._pieces is None or self._pieces[0] is not run:
            self._pieces = run, self._session.pieces(self._predict, run)
        self._session.verify(self._predict, run, args, kwargs)
        return run.call(self._pieces[1], args, kwargs)
