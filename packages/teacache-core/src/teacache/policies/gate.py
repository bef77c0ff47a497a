"""The TeaCache gate: signal changes in, compute or reuse out. Must not import mlx, mflux or pluggy.

Source of the rule: TeaCache (arXiv:2411.19108).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from teacache.errors import OptionError
from teacache.policies.options import (
    validate_coefficients,
    validate_options,
    validate_range,
    validate_threshold,
)

__all__ = ["Decision", "Gate", "replay_gate", "validate_coefficients", "validate_options", "validate_threshold"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What the gate says about one step.

    Attributes:
        reuse: True: the body does not run.
        reason: "first", "last", "warmup", "cooldown": the place of the step; "range": the change lies above the
            fitted range; "non-finite": the change or its prediction is no number; "no signal": there is no change to
            judge by; "max_reuse": enough steps in a row were reused; "gate": the sum decided; else what was `blocked`.
        predicted: relative change of the body that the polynomial predicts for this step, None where it cannot.
        accumulated: sum of predicted changes since the last computed step, this step included: what was compared
            with the threshold.
    """

    reuse: bool
    reason: str
    predicted: float | None
    accumulated: float


class Gate:
    """Decides step by step whether the body of one run is computed. Made new for every run.

    The relative L1 change of the signal goes through a polynomial of degree 4; what it predicts (never below 0) is
    summed up, and steps are reused while the sum stays below the threshold. Every computed step sets the sum to 0. A
    change below the fitted range counts as the range's low end, above its high end the step is computed. The first
    and the last step are always computed.
    """

    def __init__(
        self,
        steps: int,
        *,
        coefficients: Iterable[float],
        calibrated_range: Iterable[float] | None,
        threshold: float,
        warmup: int = 1,
        cooldown: int = 1,
        max_reuse: int = 8,
    ) -> None:
        """Prepares the gate.

        Args:
            steps: how many steps the run has.
            coefficients: five numbers, highest power first.
            calibrated_range: (low, high) relative L1 changes of the signal that the polynomial was fitted on, or None.
            threshold: relative change of the body up to which steps are reused; 0 reuses none.
            warmup: how many of the first steps are always computed.
            cooldown: how many of the last steps are always computed.
            max_reuse: how many steps in a row may be reused.

        Raises:
            CoefficientsError, ThresholdError, OptionError: a value that cannot be.
        """
        self._steps = steps
        self._coefficients = validate_coefficients(coefficients)
        self._range = validate_range(calibrated_range)
        self._threshold = validate_threshold(threshold)
        self._warmup, self._cooldown, self._max_reuse = validate_options(
            warmup=warmup, cooldown=cooldown, max_reuse=max_reuse
        )
        self._accumulated = 0.0
        self._reused_in_a_row = 0

    def decide(self, step: int, change: float | None, *, blocked: str | None = None) -> Decision:
        """Decides one step. Steps are asked for in order, each once.

        Args:
            step: its index within the run, from 0.
            change: relative L1 change of the signal since the step before; None where there is none.
            blocked: why this step cannot be reused ("no residual", "shape"); it is computed then.
        """
        predicted, unusable = self._predict(change)
        self._accumulated += predicted or 0.0
        below = self._accumulated < self._threshold
        enough = below and self._reused_in_a_row >= self._max_reuse
        reason = self._forced(step) or blocked or unusable or ("max_reuse" if enough else "gate")
        decision = Decision(below and reason == "gate", reason, predicted, self._accumulated)
        if decision.reuse:
            self._reused_in_a_row += 1
        else:
            self._reset()
        return decision

    def overrule(self) -> None:
        """Tells that the reuse just decided could not be carried out: the step was computed."""
        self._reset()

    def _reset(self) -> None:
        self._accumulated = 0.0
        self._reused_in_a_row = 0

    def _predict(self, change: float | None) -> tuple[float | None, str | None]:
        """Returns the predicted change of the body, or None and why there is no prediction."""
        if change is None:
            return None, "no signal"
        change = float(change)
        if not math.isfinite(change):
            return None, "non-finite"
        if self._range is not None:
            low, high = self._range
            if change > high:
                return None, "range"
            change = max(change, low)
        value = 0.0
        for coefficient in self._coefficients:
            value = value * change + coefficient
        return (max(value, 0.0), None) if math.isfinite(value) else (None, "non-finite")

    def _forced(self, step: int) -> str | None:
        """Returns why the place of a step forces it to be computed, or None."""
        if step == 0:
            return "first"
        if step >= self._steps - 1:
            return "last"
        if step < self._warmup:
            return "warmup"
        return "cooldown" if step >= self._steps - self._cooldown else None


def replay_gate(
    signal_change: Iterable[float],
    *,
    coefficients: Iterable[float],
    calibrated_range: Iterable[float] | None,
    threshold: float,
    warmup: int = 1,
    cooldown: int = 1,
    max_reuse: int = 8,
) -> list[bool]:
    """Returns what the gate would do in a run of which only the signal changes are known.

    Args:
        signal_change: relative L1 changes between consecutive steps of one run, N-1 for N steps.
        coefficients: five numbers, highest power first.
        calibrated_range: (low, high) relative L1 changes that the polynomial was fitted on, or None.
        threshold: relative change of the body up to which steps are reused; 0 reuses none.
        warmup: how many of the first steps are always computed.
        cooldown: how many of the last steps are always computed.
        max_reuse: how many steps in a row may be reused.

    Returns:
        One entry per step, N in all; True: reused.

    Raises:
        CoefficientsError, ThresholdError, OptionError: a value that cannot be.
    """
    try:
        changes = [float(change) for change in signal_change]
    except (TypeError, ValueError):
        raise OptionError(
            f"signal_change={signal_change!r}: expected a flat sequence of numbers, one for each pair of consecutive "
            "steps of one run. Replay several prompts one by one."
        ) from None
    gate = Gate(
        len(changes) + 1,
        coefficients=coefficients,
        calibrated_range=calibrated_range,
        threshold=threshold,
        warmup=warmup,
        cooldown=cooldown,
        max_reuse=max_reuse,
    )
    return [gate.decide(step, change).reuse for step, change in enumerate([None, *changes])]
