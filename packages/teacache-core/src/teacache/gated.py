"""A run that the gate decides: the signal is probed on every step, residuals stand in for the body.

Must not import mflux.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import mlx.core as mx

from teacache.errors import BranchWarning
from teacache.pieces import Pieces
from teacache.run import OnStep, Run, RunInfo
from teacache.stats import StepRecord
from teacache.walks import Args, Kwargs, Mismatch


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
    sigma: float
    before: _Stored | None = None


@dataclass(slots=True)
class _Step:
    calls: int = 0
    branches: int = 0
    reused: bool = True
    decision: StepDecision | None = None
    reason: str | None = None
    signal_change: float | None = None
    body_changes: list[mx.array] = field(default_factory=list)


class GatedRun(Run):
    """Carries the decisions of a policy through the calls of one run.

    Args:
        info: what the host knows.
        target: number of target tokens in the model's image stream; None for all.
        policy: decides; None where there are no numbers (every step is computed and measured).
        linear: a reused step's residual lies on the line in sigma through those of the last two computed steps; else,
            and while only one is known, it is the last one.
        shadow: compute every step whatever the policy says, and measure the change of the body.
        on_step: called with each record.
    """

    def __init__(
        self,
        info: RunInfo,
        *,
        target: int | None,
        policy: Policy | None,
        linear: bool = False,
        shadow: bool = False,
        on_step: OnStep | None = None,
    ) -> None:
        super().__init__(info, target=target, on_step=on_step)
        self.measures_body = shadow or policy is None
        self._linear = linear and not self.measures_body
        self._policy = policy
        self._step = _Step()
        self._stored: dict[int, _Stored] = {}
        self._calls_per_step: int | None = None
        self._previous_signal: mx.array | None = None

    def call(self, pieces: Pieces, args: Args, kwargs: Kwargs, key: Any = None) -> Any:
        """See `Run.call`."""
        step = self._step
        ordinal, step.calls = step.calls, step.calls + 1
        if self.complete:
            return pieces.plain(args, kwargs)
        if self._calls_per_step is not None and ordinal >= self._calls_per_step:
            self._warn(
                BranchWarning(
                    f"The model was called {ordinal + 1} times in step {self.index}, after {self._calls_per_step} in "
                    "the first. The extra call is computed plainly."
                )
            )
            return pieces.plain(args, kwargs)
        stored = self._stored.get(ordinal)
        if stored is not None and stored.key is not key:
            self._warn(
                BranchWarning(
                    f"Call {ordinal + 1} of step {self.index} has other text embeddings than the same call before. "
                    "It is computed; its stored residual is dropped."
                )
            )
            stored = None
            del self._stored[ordinal]
        tokens = self._decide(pieces, args, kwargs, stored) if ordinal == 0 else None
        if step.decision is not None and step.decision.reuse and not self.measures_body and step.reason is None:
            try:
                if stored is None:
                    raise Mismatch("no residual")
                output = pieces.reuse(args, kwargs, tokens, residuals_at(self._sigma, stored))
            except Mismatch as mismatch:
                self._overrule(mismatch.reason)
            else:
                step.branches += len(stored.residuals)
                return output
        step.reused = False
        output, residuals, outputs = pieces.compute(args, kwargs, tokens)
        step.branches += len(residuals)
        if self.measures_body and stored is not None:
            step.body_changes += [
                relative_l1(now, before)
                for now, before in zip(outputs, stored.outputs, strict=False)
                if now.shape == before.shape
            ]
        before = replace(stored, before=None) if self._linear and stored is not None else None
        self._stored[ordinal] = _Stored([] if self.measures_body else residuals, outputs, key, self._sigma, before)
        return output

    @property
    def _sigma(self) -> float:
        return self.info.sigmas[self.index]

    def _finish(self, index: int, latents: mx.array | None) -> StepRecord:
        step, self._step = self._step, _Step()
        kept = [array for stored in self._stored.values() for array in (*stored.residuals, *stored.outputs)]
        mx.eval(step.body_changes, kept, [] if latents is None else latents)
        if self._calls_per_step is None and step.calls:
            self._calls_per_step = step.calls
        return self._record(index, step)

    def close(self) -> None:
        """See `Run.close`."""
        super().close()
        self._stored.clear()
        self._previous_signal = None
        self._step = _Step()

    def _decide(self, pieces: Pieces, args: Args, kwargs: Kwargs, stored: _Stored | None) -> list[mx.array]:
        """Probes the step and asks the policy: one evaluation and one scalar for the whole step."""
        signal, tokens = pieces.probe(args, kwargs)
        previous, step = self._previous_signal, self._step
        blocked = None if stored is not None else "no residual"
        if previous is not None and previous.shape == signal.shape:
            change = relative_l1(signal, previous)
            mx.eval(change, signal, tokens)
            step.signal_change = float(change.item())  # type: ignore[arg-type]
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
            unreached = "not reached" if step.calls == 0 else "no calibration"
            reason = decision.reason if decision is not None and step.calls else unreached
        return StepRecord(
            step=index,
            sigma=self.info.sigmas[index],
            action="reuse" if step.calls and step.reused and step.branches else "compute",
            planned="reuse" if decision is not None and decision.reuse else "compute",
            reason=reason,
            signal_change=step.signal_change,
            predicted_change=None if decision is None else decision.predicted,
            accumulated_change=None if decision is None else decision.accumulated,
            body_change=max((float(change.item()) for change in step.body_changes), default=None),  # type: ignore[arg-type]
            branches=step.branches,
        )


def residuals_at(sigma: float, stored: _Stored) -> list[mx.array]:
    """Returns what stands in for the body at a noise level, one residual per branch.

    With two computed steps i, j known: ``r_j + (s_k - s_j) / (s_j - s_i) * (r_j - r_i)``, in float32; else, and where
    their shapes differ, r_j as it is.
    """
    before = stored.before
    if before is None or before.sigma == stored.sigma or len(before.residuals) != len(stored.residuals):
        return stored.residuals
    ratio = (sigma - stored.sigma) / (stored.sigma - before.sigma)
    return [_on_line(last, first, ratio) for last, first in zip(stored.residuals, before.residuals, strict=True)]


def _on_line(last: mx.array, first: mx.array, ratio: float) -> mx.array:
    if last.shape != first.shape:
        return last
    wide = last.astype(mx.float32)
    return (wide + ratio * (wide - first.astype(mx.float32))).astype(last.dtype)


def relative_l1(now: mx.array, before: mx.array) -> mx.array:
    """Mean absolute difference over mean absolute value of `before`, in float32 (TeaCache, arXiv:2411.19108, eq. 4).

    Returns:
        A scalar; not finite where `before` is all zero or either holds NaN or inf.
    """
    now, before = now.astype(mx.float32), before.astype(mx.float32)
    return mx.abs(now - before).mean() / mx.abs(before).mean()
