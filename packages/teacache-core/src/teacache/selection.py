"""From options, identity and known numbers to what is done in a run. Must not import mflux."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from teacache.adapter import Adapter, Pipeline
from teacache.calibration import GateNumbers, shipped_calibrations
from teacache.errors import NoCalibrationWarning, SchedulerWarning, TeaCacheWarning
from teacache.gated import GatedRun, Policy
from teacache.hosts import Names
from teacache.identity import Identity, identify
from teacache.options import Options
from teacache.policies import Gate
from teacache.policies.plan import plan_given
from teacache.recordings import Recorder
from teacache.run import OnStep, RunInfo
from teacache.session import Choice
from teacache.velocity import VelocityRun

DEFAULT_SPEEDUP = 2.0
"""What a model without numbers is planned for once it is recorded."""

FEWEST_STEPS = 8
"""A run of fewer steps is not worth recording: nearly all of its steps would be computed anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Chooses the policy of each run of one wrapped model.

    Attributes:
        adapter: describes the model.
        pipeline: describes its class.
        identity: which checkpoint it holds.
        options: what the user asked for.
        recorder: keeps and finds recordings of this very model.
    """

    adapter: Adapter
    pipeline: Pipeline
    identity: Identity
    options: Options
    recorder: Recorder

    @classmethod
    def of(
        cls,
        adapter: Adapter,
        pipeline: Pipeline,
        names: Names,
        options: Options,
        *,
        checkpoint: str | None,
        fingerprint: Callable[[], str],
    ) -> Selection:
        """Identifies the model among the adapter's calibrations."""
        identity = identify(names, shipped_calibrations(adapter.calibrations), checkpoint=checkpoint)
        recorder = Recorder(pipeline=pipeline.name, identity=identity, fingerprint=fingerprint)
        return cls(adapter=adapter, pipeline=pipeline, identity=identity, options=options, recorder=recorder)

    def choose(self, info: RunInfo) -> Choice:
        """Decides what is done in a run with these steps and this guidance."""
        options, calibration = self.options, self.identity.calibration
        if options.off:
            return self._left_alone("off (threshold 0)", reason="off")
        if info.steps < 1:
            return self._left_alone("off (no step)", reason="too few steps")
        if options.coefficients is not None:
            numbers = GateNumbers(coefficients=tuple(options.coefficients), threshold=options.threshold)
            return self._gated(info, numbers, f"gate at threshold {options.threshold:g}, own coefficients", None)
        if options.plan is not None:
            given = tuple(options.plan)
            return self._planned(info, lambda: self.recorder.planned(info, plan_given(given, info.steps), "given plan"))
        if options.asks_for_budget:
            return self._planned(info, lambda: self._budget(info))
        mismatch = self._mismatch(info)
        if mismatch is None and calibration is not None and calibration.gate is not None:
            threshold = calibration.gate.threshold if options.threshold is None else options.threshold
            return self._gated(info, calibration.gate, f"gate at threshold {threshold:g}", calibration.checkpoint)
        if options.asks_for_gate:
            warning = NoCalibrationWarning(f"{mismatch} Nothing is reused, every step is measured. {self._remedy()}")
            return self._gated(info, None, "measuring only (no numbers)", None, warning)
        if calibration is not None and calibration.distilled:
            return self._left_alone("off (distilled checkpoint)", reason="distilled")
        if info.steps < FEWEST_STEPS:
            return self._left_alone("off (too few steps)", reason="too few steps")
        return self._planned(info, lambda: self._budget(info))

    def _mismatch(self, info: RunInfo) -> str | None:
        """Why the polynomial may not be used in this run, in one sentence; None if it may."""
        calibration, name = self.identity.calibration, self.identity.checkpoint or "this model"
        if calibration is None or calibration.gate is None:
            return f"There is no polynomial for {name}."
        if self.identity.level != "exact":
            return f"The weights are declared to derive from {name}; that its polynomial fits them is not known."
        if calibration.gate.threshold is None and self.options.threshold is None:
            return f"There is no threshold for {name}."
        return calibration.mismatch(
            pipeline=self.pipeline.name,
            signal_tensor=self.adapter.signal.tensor,
            signal_tokens=self.adapter.signal.tokens,
            steps=len(info.sigmas) - 1,
            guidance=info.guidance,
        )

    def _remedy(self) -> str:
        if self.identity.level == "declared":
            return f"Say wrap(model, checkpoint={self.identity.checkpoint!r}) to use its numbers all the same."
        return "Leave threshold out: the first picture is then recorded, and the later ones are planned."

    def _left_alone(self, summary: str, *, reason: str) -> Choice:
        return Choice(
            make=functools.partial(_plain_run, reason=reason),
            summary=summary,
            distilled=self.identity.calibration is not None and self.identity.calibration.distilled,
        )

    def _gated(
        self,
        info: RunInfo,
        numbers: GateNumbers | None,
        summary: str,
        checkpoint: str | None,
        warning: TeaCacheWarning | None = None,
    ) -> Choice:
        options, known, shadow = self.options, self.identity.calibration, self.options.mode == "shadow"
        threshold = options.threshold if options.threshold is not None or numbers is None else numbers.threshold
        policy = None if numbers is None else self._gate(info.steps, numbers, threshold or 0.0)
        linear = options.reconstruction == "linear"
        target = self.adapter.target_of(info.image_tokens)
        return Choice(
            make=functools.partial(_gated_run, target=target, policy=policy, linear=linear, shadow=shadow),
            summary=f"{summary}, residuals linear in sigma" if linear and policy is not None else summary,
            threshold=threshold if policy is not None else None,
            checkpoint=checkpoint,
            identity=self.identity.level,
            calibration=None if checkpoint is None or known is None else f"{known.checkpoint} ({known.status})",
            distilled=known is not None and known.distilled,
            warnings=() if warning is None or shadow else (warning,),
            explain=not shadow and warning is None,
            note=None if warning is None else str(warning).partition(" Nothing is reused")[0],
        )

    def _gate(self, steps: int, numbers: GateNumbers, threshold: float) -> Gate:
        return Gate(
            steps,
            coefficients=numbers.coefficients,
            calibrated_range=numbers.range,
            threshold=threshold,
            warmup=self.options.warmup,
            cooldown=self.options.cooldown,
            max_reuse=self.options.max_reuse,
        )

    def _planned(self, info: RunInfo, choose: Callable[[], Choice]) -> Choice:
        if info.carries_velocity is None:
            return choose()
        warning = SchedulerWarning(f"Every step is computed: {info.carries_velocity}")
        plain = self._left_alone("off (scheduler)", reason="scheduler")
        return Choice(make=plain.make, summary=plain.summary, warnings=(warning,), explain=False)

    def _budget(self, info: RunInfo) -> Choice:
        options, calibration = self.options, self.identity.calibration
        curve: Sequence[float] | None = None
        published = calibration is not None and calibration.status == "published" and self.identity.level == "exact"
        if published and calibration is not None and calibration.curve is not None:
            fits = len(calibration.curve.body_change) == info.steps - 1 and self.pipeline.name in calibration.pipelines
            curve = calibration.curve.body_change if fits else None
        return self.recorder.budget(
            info,
            speedup=options.speedup if options.asks_for_budget else DEFAULT_SPEEDUP,
            computed_steps=options.computed_steps,
            max_reuse=options.max_reuse,
            curve=curve,
            curve_of=None if curve is None or calibration is None else f"{calibration.checkpoint} (published)",
        )


def _plain_run(info: RunInfo, on_step: OnStep | None, *, reason: str) -> VelocityRun:
    return VelocityRun(info, reason=reason, on_step=on_step)


def _gated_run(
    info: RunInfo, on_step: OnStep | None, *, target: int | None, policy: Policy | None, linear: bool, shadow: bool
) -> GatedRun:
    return GatedRun(info, target=target, policy=policy, linear=linear, shadow=shadow, on_step=on_step)
