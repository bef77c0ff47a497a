"""From options, identity and calibration to what is done in a run. Must not import mlx or mflux at import time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from teacache.calibration import load_calibrations
from teacache.errors import CoefficientsError, NoCalibrationWarning, OptionError
from teacache.hosts import Names
from teacache.identity import Identity, identify
from teacache.policies import Gate
from teacache.policies.gate import validate_coefficients, validate_options, validate_threshold

if TYPE_CHECKING:
    from teacache.adapter import Adapter, Pipeline
    from teacache.run import RunInfo
    from teacache.session import RunPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user asked for, checked. See `teacache.wrap`."""

    threshold: float | None = None
    coefficients: Sequence[float] | None = None
    warmup: int = 1
    cooldown: int = 1
    max_reuse: int = 8
    mode: str = "cache"

    def __post_init__(self) -> None:
        """Checks every option by itself and against the others."""
        if self.threshold is not None:
            validate_threshold(self.threshold)
        if self.coefficients is not None:
            validate_coefficients(self.coefficients)
            if self.threshold is None:
                raise CoefficientsError(
                    "coefficients= was given without threshold=: a polynomial has no threshold of its own. "
                    "Give both, for example threshold=0.2."
                )
        validate_options(warmup=self.warmup, cooldown=self.cooldown, max_reuse=self.max_reuse)
        if self.mode not in ("cache", "shadow"):
            raise OptionError(f"mode={self.mode!r} was given; expected 'cache' or 'shadow'.")

    @property
    def off(self) -> bool:
        """The plain path is asked for."""
        return self.mode == "cache" and self.threshold is not None and self.threshold == 0

    @property
    def needs_numbers(self) -> bool:
        """The options do not bring their own numbers, and ask for some."""
        return self.coefficients is None and not self.off


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Chooses the policy of each run of one wrapped model."""

    adapter: Adapter
    pipeline: Pipeline
    identity: Identity
    options: Options

    @classmethod
    def of(
        cls, adapter: Adapter, pipeline: Pipeline, names: Names, options: Options, *, checkpoint: str | None
    ) -> Selection:
        """Identifies the model among the adapter's calibrations."""
        calibrations = () if adapter.calibrations is None else load_calibrations(adapter.calibrations)
        identity = identify(names, calibrations, checkpoint=checkpoint)
        return cls(adapter=adapter, pipeline=pipeline, identity=identity, options=options)

    def plan_run(self, info: RunInfo) -> RunPlan:
        """Decides what is done in a run with these steps and this guidance."""
        from teacache.session import RunPlan

        options, calibration = self.options, self.identity.calibration
        target = None if info.image_tokens is None else self.adapter.target_tokens(info.image_tokens)
        distilled = calibration is not None and calibration.distilled
        if options.off:
            return RunPlan(summary="off (threshold 0)", plain_reason="off", target=target)
        shadow = options.mode == "shadow"
        if options.coefficients is not None:
            gate = self._gate(info.steps, options.coefficients, None, options.threshold or 0.0)
            summary = f"gate at threshold {options.threshold:g}, own coefficients"
            return RunPlan(
                policy=gate, summary=summary, target=target, shadow=shadow, threshold=options.threshold,
                distilled=distilled,
            )  # fmt: skip
        if calibration is None or calibration.gate is None or self.identity.level != "exact":
            return RunPlan(summary="measuring only (no numbers)", target=target, shadow=True, distilled=distilled)
        numbers = calibration.gate
        threshold = numbers.threshold if options.threshold is None else options.threshold
        if threshold is None:
            return RunPlan(summary="measuring only (no threshold)", target=target, shadow=True, distilled=distilled)
        mismatch = calibration.mismatch(
            pipeline=self.pipeline.name,
            signal_tensor=self.adapter.signal.tensor,
            signal_tokens=self.adapter.signal.tokens,
            steps=len(info.sigmas),
            guidance=info.guidance,
        )
        if mismatch is not None:
            warning = NoCalibrationWarning(
                f"The numbers for {calibration.checkpoint} do not belong to this run: {mismatch} Nothing is reused, "
                "every step is measured. Use the calibrated recipe, or give coefficients= and threshold=."
            )
            return RunPlan(
                summary="measuring only (other recipe)", target=target, shadow=True, distilled=distilled,
                warning=None if distilled else warning,
            )  # fmt: skip
        return RunPlan(
            policy=self._gate(info.steps, numbers.coefficients, numbers.range, threshold),
            summary=f"gate at threshold {threshold:g}",
            target=target,
            shadow=shadow,
            threshold=threshold,
            checkpoint=calibration.checkpoint,
            distilled=distilled,
        )

    def _gate(
        self, steps: int, coefficients: Sequence[float], calibrated_range: tuple[float, float] | None, threshold: float
    ) -> Gate:
        options = self.options
        return Gate(
            steps,
            coefficients=coefficients,
            calibrated_range=calibrated_range,
            threshold=threshold,
            warmup=options.warmup,
            cooldown=options.cooldown,
            max_reuse=options.max_reuse,
        )
