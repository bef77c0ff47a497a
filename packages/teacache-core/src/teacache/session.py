"""The live part of a wrapped model: opens runs, hands calls to them, counts the finished ones.

Stands between a host (whose loop it is) and a run (whose numbers they are). Must not import mflux.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import mlx.core as mx

from teacache.boundary import Args, Boundary, Kwargs
from teacache.errors import NothingReusedWarning, TeaCacheWarning
from teacache.pieces import Pieces
from teacache.run import Run, RunInfo
from teacache.stats import RunStats, Stats, StepRecord, explain_nothing_reused

PlanRun = Callable[[RunInfo], "RunPlan"]


class RunPlan:
    """What is to be done in one run.

    Args:
        policy: decides the steps; None where there are no numbers.
        summary: the policy in a few words.
        target: number of target tokens; None for all.
        shadow: compute every step and measure.
        plain_reason: why the run is to be left alone; None for a traced run.
        threshold: the gate's threshold, for the explanation of a run that reused nothing.
        checkpoint: whose numbers are used.
        distilled: the checkpoint is made for a few steps.
        warning: what the user must know before the run; given once per text.
    """

    def __init__(
        self,
        *,
        policy: Any = None,
        summary: str = "",
        target: int | None = None,
        shadow: bool = False,
        plain_reason: str | None = None,
        threshold: float | None = None,
        checkpoint: str | None = None,
        distilled: bool = False,
        warning: TeaCacheWarning | None = None,
    ) -> None:
        self.policy = policy
        self.summary = summary
        self.target = target
        self.shadow = shadow
        self.plain_reason = plain_reason
        self.threshold = threshold
        self.checkpoint = checkpoint
        self.distilled = distilled
        self.warning = warning


class Session:
    """One wrapped model, from `wrap` to `restore`.

    Args:
        boundary: steers the model's transformer.
        plan_run: decides, when a run begins, what is to be done in it.
        compile: the user's choice, see `teacache.wrap`.
        explain: warn after a run in which nothing was reused (off where the user asked for shadow mode).
        on_step: called with each record.
    """

    def __init__(
        self,
        boundary: Boundary,
        plan_run: PlanRun,
        *,
        compile: bool | None = None,
        explain: bool = True,
        on_step: Callable[[StepRecord], None] | None = None,
    ) -> None:
        self.stats = Stats()
        self.closed = False
        self._boundary = boundary
        self._plan_run = plan_run
        self._compile = compile
        self._explain = explain
        self._on_step = on_step
        self._run: Run | None = None
        self._plan: RunPlan | None = None
        self._finished: RunStats | None = None
        self._warned: set[str] = set()

    @property
    def run(self) -> Run | None:
        """The open run, if it is this thread's; calls from elsewhere are none of its steps."""
        run = self._run
        return run if run is not None and run.thread == threading.get_ident() else None

    def begin(self, info: RunInfo) -> Run | None:
        """Opens a run. One that was left open by an error is thrown away."""
        self.abort()
        if self.closed:
            return None
        plan = self._plan_run(info)
        if plan.warning is not None:
            self.warn(plan.warning)
        self._plan = plan
        self._run = Run(
            info,
            target=plan.target,
            policy=plan.policy,
            shadow=plan.shadow,
            plain_reason=plan.plain_reason,
            on_step=self._on_step,
        )
        return self._run

    def end_step(self, index: int, latents: mx.array | None = None) -> StepRecord | None:
        """Ends the open step, see `Run.end_step`."""
        return None if self._run is None else self._run.end_step(index, latents)

    def end(self) -> None:
        """The loop is through: lets go of every array. The run counts once `commit` is called."""
        run, plan, self._run = self._run, self._plan, None
        if run is None or plan is None:
            return
        run.close()
        if not run.complete:
            return
        self._finished = RunStats(
            records=tuple(run.records),
            seconds=run.seconds,
            policy=plan.summary,
            checkpoint=plan.checkpoint,
            target_tokens=plan.target,
            why_nothing=explain_nothing_reused(run.records, threshold=plan.threshold, distilled=plan.distilled),
        )

    def commit(self) -> RunStats | None:
        """The picture is made: counts the run that ended, and says so where it reused nothing."""
        finished, self._finished = self._finished, None
        if finished is None:
            return None
        self.stats.runs.append(finished)
        if finished.why_nothing is not None and self._explain and not self._warned:
            warnings.warn(NothingReusedWarning(f"No step was reused: {finished.why_nothing}"), stacklevel=4)
        return finished

    def abort(self) -> None:
        """The run broke off: nothing of it is kept or counted."""
        if self._run is not None:
            self._run.close()
        self._run = self._plan = self._finished = None

    def close(self) -> None:
        """No further run is opened; an open one ends."""
        self.closed = True
        self.abort()

    def warn(self, warning: TeaCacheWarning) -> None:
        """Gives a warning, once per text."""
        if str(warning) not in self._warned:
            self._warned.add(str(warning))
            warnings.warn(warning, stacklevel=5)

    def traced_call(self, plain: Callable[..., Any], args: Args, kwargs: Kwargs, key: str | None) -> Any:
        """A call of the transformer is the entry: it is one branch of the open step."""
        run = self.run
        if run is None:
            return plain(*args, **kwargs)
        pieces = self._pieces(plain, run)
        return run.call(pieces, args, kwargs, None if key is None else kwargs.get(key))

    def entry(self, predict: Callable[..., Any]) -> Entry:
        """Wraps a predict function that holds all branches of a step."""
        return Entry(self, predict)

    def _pieces(self, fn: Callable[..., Any], run: Run) -> Pieces:
        return Pieces(self._boundary, fn, target=run.target, keep_output=run.shadow, compile=self._compile)


class Entry:
    """Stands for the pipeline's predict function. The compiled pieces hang on it and die with it."""

    def __init__(self, session: Session, predict: Callable[..., Any]) -> None:
        self._session = session
        self._predict = predict
        self._pieces: Pieces | None = None
        self._run: Run | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Predicts one step, as the pipeline's own function would."""
        run = self._session.run
        if run is None:
            return self._predict(*args, **kwargs)
        if self._pieces is None or self._run is not run:
            self._pieces, self._run = self._session._pieces(self._predict, run), run
        return run.call(self._pieces, args, kwargs)
