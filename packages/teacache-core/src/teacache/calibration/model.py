"""What a calibration is: frozen data, and whether it may be used. Imports nothing of the project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

SCHEMA = 1
"""Version of the calibration files that this teacache writes, and the newest that it reads."""

BODY_OUTPUT_CHANGE = "relative L1 of the body output, worst branch"
"""The kind of change that teacache measures."""

Status: TypeAlias = Literal["published", "calibrated", "provisional"]
Evidence: TypeAlias = "str | int | float | bool | tuple[Evidence, ...]"


@dataclass(frozen=True, kw_only=True, slots=True)
class SignalSource:
    """What the polynomial reads.

    Attributes:
        tensor: the name of the tensor, as in `teacache.adapter.Signal`.
        tokens: "target": the target tokens; "all": the whole stream.
        branch: the guidance branch that it is read on; 0: the positive one.
    """

    tensor: str
    tokens: Literal["target", "all"] = "target"
    branch: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class GateNumbers:
    """The polynomial of the gate.

    Attributes:
        coefficients: five numbers, highest power first: from the change of the signal to the change of the body.
        range: (low, high) relative L1 changes of the signal that it was fitted on; None: unknown.
        threshold: the threshold that its evidence is for; None: there is none (distilled checkpoints).
    """

    coefficients: tuple[float, ...]
    range: tuple[float, float] | None = None
    threshold: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """The settings inside which a polynomial may be used.

    Attributes:
        steps: number of steps.
        guidance: guidance scale; above 1: on.
        height: of the pictures, in pixels.
        width: of the pictures, in pixels.
        quantize: bits of the weights; None: not quantised, or not known.
    """

    steps: int
    guidance: float
    height: int | None = None
    width: int | None = None
    quantize: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeCurve:
    """Relative change of the body from step to step, mean over prompts.

    Attributes:
        body_change: steps - 1 numbers; the k-th from step k to step k + 1.
        steps: number of steps of the recorded runs.
        guidance: guidance scale of the recorded runs; None: as in the recipe.
        sigmas: the noise level that each step starts from, falling; None: unknown, use it at this step count only.
    """

    body_change: tuple[float, ...]
    steps: int
    guidance: float | None = None
    sigmas: tuple[float, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """Numbers for one checkpoint, what they belong to, and their evidence.

    Attributes:
        checkpoint: the checkpoint's name on Hugging Face, as the host records it.
        aliases: other names of the same weights.
        pipelines: class names of the pipelines that the numbers hold for (without numbers: that run the checkpoint).
        distilled: made for so few steps that there is nothing worth reusing.
        status: "published": figures of others; "calibrated": measured with teacache; "provisional": the evidence
            says what is missing.
        evidence: where the numbers come from; "source" at least.
        gate: the polynomial; None: the checkpoint is known, its numbers are not.
        signal: what the polynomial reads; given with `gate`.
        recipe: inside it the polynomial may be used; given with `gate`.
        change: the kind of change that polynomial and curve are about; given with either.
        curve: the change curve.
    """

    checkpoint: str
    pipelines: tuple[str, ...]
    status: Status
    evidence: Mapping[str, Evidence]
    aliases: tuple[str, ...] = ()
    distilled: bool = False
    signal: SignalSource | None = None
    change: str | None = None
    gate: GateNumbers | None = None
    recipe: Recipe | None = None
    curve: ChangeCurve | None = None

    def matches(self, name: str) -> bool:
        """Tells whether a name is this checkpoint's, in any case of letters. Never a part of a name."""
        return name.casefold() in {known.casefold() for known in (self.checkpoint, *self.aliases)}

    def mismatch(
        self,
        *,
        pipeline: str,
        signal_tensor: str,
        signal_tokens: str,
        steps: int,
        guidance: float | None,
        signal_branch: int = 0,
        change: str = BODY_OUTPUT_CHANGE,
    ) -> str | None:
        """Returns why the polynomial may not be used here, in one sentence, or None if it may.

        Args:
            pipeline: class name of the pipeline.
            signal_tensor: name of the tensor that the gate reads.
            signal_tokens: which tokens of it, "target" or "all".
            steps: number of steps of the run; within 20 % of the recipe's.
            guidance: guidance scale of the run, None where there is none; on (above 1) or off as in the recipe.
            signal_branch: guidance branch that the gate reads.
            change: the kind of change that is measured.
        """
        if self.gate is None or self.signal is None or self.recipe is None:
            return f"No polynomial is known for {self.checkpoint}."
        if pipeline not in self.pipelines:
            return f"The polynomial of {self.checkpoint} holds for {', '.join(self.pipelines)}, not for {pipeline}."
        fitted = (self.signal.tensor, self.signal.tokens, self.signal.branch)
        read = (signal_tensor, signal_tokens, signal_branch)
        if fitted != read:
            return f"The polynomial was fitted on {_signal(*fitted)}; the adapter reads {_signal(*read)}."
        if self.change != change:
            return f"The polynomial predicts {self.change!r}; measured is {change!r}."
        if 5 * abs(steps - self.recipe.steps) > self.recipe.steps:
            return f"The polynomial was measured at {self.recipe.steps} steps; {steps} are more than 20 % away."
        if (self.recipe.guidance > 1) != (guidance is not None and guidance > 1):
            return f"The polynomial was measured at guidance {self.recipe.guidance:g}; this run has {guidance}."
        return None


def _signal(tensor: str, tokens: str, branch: int) -> str:
    return f"{tensor!r} ({tokens} tokens, branch {branch})"
