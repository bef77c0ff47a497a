"""What happened in each run, step by step. Plain data: imports neither mlx nor mflux."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Action = Literal["compute", "reuse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step of a run.

    Attributes:
        step: index in the host's schedule (image-to-image starts late).
        sigma: noise level at which the step starts.
        action: what was done.
        planned: what the policy asked for. It differs from `action` in shadow mode, where every step is computed.
        reason: why; of the gate: ``first``, ``last``, ``warmup``, ``cooldown``, ``gate``, ``max_reuse``, ``range``,
            ``non-finite``, ``shape``, ``no residual``, ``no calibration``; of a plan: ``first``, ``last``, ``plan``;
            of a run without either: ``recording``, ``off``, ``distilled``, ``too few steps``, ``scheduler``;
            ``not reached``: the model was not called.
        signal_change: relative L1 change of the signal since the step before; None on the first step, or unmeasured.
        predicted_change: the change of the body that the polynomial predicts from it.
        accumulated_change: sum of the predictions since the last computed step, this one included.
        body_change: relative L1 change of the body's output since the step before, the largest of the branches;
            measured in shadow mode only.
        branches: how many branches of guidance ran; in a run without a gate, how often the pipeline asked for a
            prediction. 0 where the velocity was carried over.
    """

    step: int
    sigma: float
    action: Action
    planned: Action
    reason: str
    signal_change: float | None = None
    predicted_change: float | None = None
    accumulated_change: float | None = None
    body_change: float | None = None
    branches: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunStats:
    """One finished run.

    Attributes:
        records: one per step.
        seconds: wall time of the denoising loop.
        policy: what decided, in a few words ("gate at threshold 0.17").
        checkpoint: whose numbers were used; None where none were.
        identity: how surely the model holds that checkpoint (``exact``, ``declared``, ``unknown``).
        threshold: the gate's; None where no gate decided.
        calibration: the calibration whose numbers decided, with its status; None where recorded or own ones did.
        target_tokens: how many image tokens residual and signal are taken on; None for all.
        why_nothing: why no step was reused, with what would help; None where some were.
    """

    records: tuple[StepRecord, ...]
    seconds: float
    policy: str
    checkpoint: str | None = None
    identity: str | None = None
    threshold: float | None = None
    calibration: str | None = None
    target_tokens: int | None = None
    why_nothing: str | None = None

    @property
    def computed(self) -> int:
        """How many steps were computed."""
        return len(self.records) - self.reused

    @property
    def reused(self) -> int:
        """How many steps were reused."""
        return sum(record.action == "reuse" for record in self.records)

    @property
    def speedup_estimate(self) -> float:
        """Steps over computed steps: the speedup if a reused step cost nothing."""
        return len(self.records) / self.computed if self.computed else 1.0

    @property
    def timeline(self) -> str:
        """One character per step: ``#`` computed, ``.`` reused."""
        return "".join("." if record.action == "reuse" else "#" for record in self.records)

    def to_dict(self) -> dict[str, Any]:
        """Returns everything as plain types, for JSON."""
        return asdict(self) | {
            "computed": self.computed,
            "reused": self.reused,
            "speedup_estimate": self.speedup_estimate,
        }

    def __str__(self) -> str:
        """One line: how many steps were reused, or why none."""
        if self.reused:
            speed = f"{self.reused} of {len(self.records)} steps reused, {self.speedup_estimate:.1f}x estimated"
            return f"{speed} ({self.policy})"
        return f"0 of {len(self.records)} steps reused: {self.why_nothing or 'the policy asked for none'}"

    def __repr__(self) -> str:
        """The same, as a notebook or a prompt shows it; `records` has the steps."""
        return f"<RunStats {self}>"

    def _repr_html_(self) -> str:
        """For notebooks: the line, and a cell for each step."""
        from teacache.report.notebook import run_html

        return run_html(self)


@dataclass(slots=True, repr=False)
class Stats:
    """The finished runs of a handle; a run that broke off is not among them."""

    runs: list[RunStats] = field(default_factory=list)

    @property
    def last(self) -> RunStats | None:
        """The run that finished last; None before the first."""
        return self.runs[-1] if self.runs else None

    def to_dict(self) -> dict[str, Any]:
        """Returns everything as plain types, for JSON."""
        return {"runs": [run.to_dict() for run in self.runs]}

    def __str__(self) -> str:
        """One line for the last run."""
        return str(self.last) if self.runs else "no run has finished yet"

    def __repr__(self) -> str:
        """How many runs there were, and the last one's line."""
        return f"<Stats of {len(self.runs)} runs: {self}>" if self.runs else f"<Stats: {self}>"

    def _repr_html_(self) -> str:
        """For notebooks: all runs, the last one first."""
        from teacache.report.notebook import runs_html

        return runs_html(self.runs)


def explain_nothing_reused(records: Sequence[StepRecord], *, threshold: float | None, distilled: bool) -> str | None:
    """Says why a run reused nothing and what would help; None where it reused something.

    Args:
        records: the steps of the run.
        threshold: the gate's threshold; None where no gate ran.
        distilled: the checkpoint is made for a few steps.
    """
    if any(record.action == "reuse" for record in records):
        return None
    reasons = Counter(record.reason for record in records)
    if not records:
        return "the run had no step (image strength 1.0 leaves none)."
    if reasons["not reached"] == len(records):
        return "the wrapped model was never called in it."
    if reasons["off"]:
        return "threshold is 0, which turns the cache off. Leave threshold out for the calibrated one."
    if reasons["plan"]:
        return "the plan computes every step. A smaller computed_steps=, or a larger speedup=, carries some over."
    if any(record.planned == "reuse" for record in records):
        return "shadow mode computes every step; the records show what the gate would have reused."
    if reasons["recording"]:
        return "the model was recorded in it; later pictures are planned from the recording."
    if reasons["scheduler"]:
        return "the scheduler takes no carried velocity."
    if reasons["no calibration"]:
        return "there are no numbers for this checkpoint and recipe."
    if reasons["distilled"] or distilled:
        return (
            "the checkpoint is distilled to a few steps, each of which changes much. A base checkpoint at 25 to 50 "
            "steps gains."
        )
    gated = [record for record in records if record.predicted_change is not None and record.reason == "gate"]
    if not gated:
        return f"too few steps ({len(records)}): all of them are protected. 25 to 50 steps gain."
    least = min(record.accumulated_change or 0.0 for record in gated)
    if threshold is not None and least >= threshold:
        return (
            f"the smallest predicted change is {least:.3g}, not below the threshold {threshold:g}. "
            "A higher threshold reuses more; more steps make each change smaller."
        )
    return "no step met the conditions; the records give each step's reason."
