"""One denoising run: its steps, branches and residuals. Made new for every run; nothing of it outlives the run.

Knows no host and no family. Must not import mflux.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import mlx.core as mx

from teacache.boundary import Args, Kwargs, Mismatch
from teacache.errors import BranchWarning, RunError
from teacache.pieces import Pieces
from teacache.stats import StepRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """What a host knows when a run begins.

    Attributes:
        sigmas: noise level at the start of each step of the whole schedule.
        first_step: index of the first step that runs (image-to-image starts late).
        image_tokens: tokens of the picture, as the host counts them; None where all image tokens are its.
        guidance: strength of guidance; None where the host knows none.
    """

    sigmas: tuple[float, ...]
    first_step: int = 0
    image_tokens: int | None = None
    guidance: float | None = None

    @property
    def steps(self) -> int:
        """How many steps run."""
        return len(self.sigmas) - self.first_step


class StepDecision(Protocol):
    """What a policy says of one step (see `teacache.policies.Decision`)."""

    @property
    def reuse(self) -> bool: ...  # noqa: D102
    @property
    def reason(self) -> str: ...  # noqa: D102
    @property
    def predicted(self) -> float | None: ...  # noqa: D102
    @property
    def accumulated(self) -> float: ...  # noqa: D102


class Policy(Protocol):
    """Decides one step from numbers (see `teacache.policies.Gate`)."""

    def decide(self, step: int, change: float | None, *, blocked: str | None = None) -> StepDecision:
        """Decides the step with this index within the run."""

    def overrule(self) -> None:
        """The reuse that was decided could not be carried out."""


@dataclass(slots=True)
class _Stored:
    """What one call of the last computed step left for the steps behind it."""

    residuals: list[mx.array]
    outputs: list[mx.array]
    key: Any


@dataclass(slots=True)
class _Step:
    calls: int = 0
    branches: int = 0
    reused: bool = True
    decision: StepDecision | None = None
    reason: str | None = None
    signal_change: float | None = None
    body_changes: list[mx.array] = field(default_factory=list)


class Run:
    """Carries the decisions of a policy through the calls of one run.

    Args:
        info: what the host knows.
        target: number of target tokens in the model's image stream; None for all.
        policy: decides; None where there are no numbers (every step is computed and measured).
        shadow: compute every step whatever the policy says, and measure the change of the body.
        plain_reason: why nothing is to be done in this run; None for a run that is traced.
        on_step: called with each record.
    """

    def __init__(
        self,
        info: RunInfo,
        *,
        target: int | None,
        policy: Policy | None,
        shadow: bool = False,
        plain_reason: str | None = None,
        on_step: Callable[[StepRecord], None] | None = None,
    ) -> None:
        self.info = info
        self.target = target
        self.shadow = shadow or policy is None
        self.plain_reason = plain_reason
        self.records: list[StepRecord] = []
        self.thread = threading.get_ident()
        self._policy = policy
        self._on_step = on_step
        self._started = time.perf_counter()
        self._step = _Step()
        self._stored: dict[int, _Stored] = {}
        self._calls_per_step: int | None = None
        self._previous_signal: mx.array | None = None

    @property
    def seconds(self) -> float:
        """Wall time since the run began."""
        return time.perf_counter() - self._started

    @property
    def complete(self) -> bool:
        """Whether every announced step has ended."""
        return len(self.records) == self.info.steps

    def call(self, pieces: Pieces, args: Args, kwargs: Kwargs, key: Any = None) -> Any:
        """One call of the entry: all branches of a step, or one of them.

        Args:
            pieces: the entry's pieces.
            args: positional arguments of the call.
            kwargs: keyword arguments of the call.
            key: the object that tells this call's branch from the others (its text embeddings); None: order alone.

        Returns:
            What the entry returns.
        """
        step = self._step
        ordinal, step.calls = step.calls, step.calls + 1
        if self.plain_reason is not None or self.complete:
            return pieces.plain(args, kwargs)
        if self._calls_per_step is not None and ordinal >= self._calls_per_step:
            self._warn(
                f"The model was called {ordinal + 1} times in step {self._index()}, after {self._calls_per_step} in "
                "the first. The extra call is computed plainly."
            )
            return pieces.plain(args, kwargs)
        stored = self._stored.get(ordinal)
        if stored is not None and stored.key is not key:
            self._warn(
                f"Call {ordinal + 1} of step {self._index()} has other text embeddings than the same call before. "
                "It is computed; its stored residual is dropped."
            )
            stored = None
            del self._stored[ordinal]
        tokens = self._decide(pieces, args, kwargs, stored) if ordinal == 0 else None
        if step.decision is not None and step.decision.reuse and not self.shadow and step.reason is None:
            try:
                if stored is None:
                    raise Mismatch("no residual")
                output = pieces.reuse(args, kwargs, tokens, stored.residuals)
            except Mismatch as mismatch:
                self._overrule(mismatch.reason)
            else:
                step.branches += len(stored.residuals)
                return output
        step.reused = False
        output, residuals, outputs = pieces.compute(args, kwargs, tokens)
        step.branches += len(residuals)
        if self.shadow and stored is not None:
            step.body_changes += [
                relative_l1(now, before)
                for now, before in zip(outputs, stored.outputs, strict=False)
                if now.shape == before.shape
            ]
        self._stored[ordinal] = _Stored([] if self.shadow else residuals, outputs, key)
        return output

    def end_step(self, index: int, latents: mx.array | None = None) -> StepRecord:
        """Ends a step: evaluates what it leaves behind, together with the latents, and records it.

        Args:
            index: the step's index in the host's schedule.
            latents: what the scheduler made of the step, shape and dtype as the host has it.

        Raises:
            RunError: the host ends another step than the one that is open.
        """
        if self.complete or index != self._index():
            raise RunError(
                f"The host ended step {index}, but step {self._index()} of {len(self.info.sigmas)} was open. "
                "Steps must come one by one; another callback or a changed loop skipped or repeated one."
            )
        step, self._step = self._step, _Step()
        kept = [array for stored in self._stored.values() for array in (*stored.residuals, *stored.outputs)]
        mx.eval(step.body_changes, kept, [] if latents is None else latents)
        if self._calls_per_step is None and step.calls:
            self._calls_per_step = step.calls
        record = self._record(index, step)
        self.records.append(record)
        if self._on_step is not None:
            self._on_step(record)
        return record

    def close(self) -> None:
        """Lets go of every array."""
        self._stored.clear()
        self._previous_signal = None
        self._step = _Step()

    def _index(self) -> int:
        return self.info.first_step + len(self.records)

    def _decide(self, pieces: Pieces, args: Args, kwargs: Kwargs, stored: _Stored | None) -> list[mx.array]:
        """Probes the step and asks the policy: one evaluation and one scalar for the whole step."""
        signal, tokens = pieces.probe(args, kwargs)
        previous, step = self._previous_signal, self._step
        blocked = None if stored is not None else "no residual"
        if previous is not None and previous.shape == signal.shape:
            change = relative_l1(signal, previous)
            mx.eval(change, signal, tokens)
            step.signal_change = change.item()  # type: ignore[assignment]
        else:
            mx.eval(signal, tokens)
            blocked = "shape" if previous is not None else blocked
        self._previous_signal = signal
        if self._policy is not None:
            step.decision = self._policy.decide(len(self.records), step.signal_change, blocked=blocked)
        return tokens

    def _overrule(self, reason: str) -> None:
        self._step.reason = reason
        if self._policy is not None:
            self._policy.overrule()

    def _record(self, index: int, step: _Step) -> StepRecord:
        decision = step.decision
        reason = step.reason
        if reason is None:
            if self.plain_reason is not None:
                reason = self.plain_reason
            elif step.calls == 0:
                reason = "not reached"
            else:
                reason = "no calibration" if decision is None else decision.reason
        return StepRecord(
            step=index,
            sigma=self.info.sigmas[index],
            action="reuse" if step.calls and step.reused and step.branches else "compute",
            planned="reuse" if decision is not None and decision.reuse else "compute",
            reason=reason,
            signal_change=step.signal_change,
            predicted_change=None if decision is None else decision.predicted,
            accumulated_change=None if decision is None else decision.accumulated,
            body_change=max((change.item() for change in step.body_changes), default=None),  # type: ignore[type-var]
            branches=step.branches if self.plain_reason is None else step.calls,
        )

    def _warn(self, message: str) -> None:
        warnings.warn(BranchWarning(message), stacklevel=4)


def relative_l1(now: mx.array, before: mx.array) -> mx.array:
    """Mean absolute difference over mean absolute value of `before`, in float32 (TeaCache, arXiv:2411.19108, eq. 4).

    Returns:
        A scalar; not finite where `before` is all zero or either holds NaN or inf.
    """
    now, before = now.astype(mx.float32), before.astype(mx.float32)
    return mx.abs(now - before).mean() / mx.abs(before).mean()
