"""Self-calibration: records a model's own run, keeps its kernel, plans later runs from it. Must not import mflux."""

from __future__ import annotations

import datetime
import functools
import math
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from teacache.errors import KernelError, RecordingWarning, SpeedupWarning, StoreWarning, TeaCacheWarning
from teacache.identity import Identity
from teacache.policies.options import finite
from teacache.policies.plan import Plan, fewest_computed, plan_from_curve, plan_from_kernel, plan_given
from teacache.run import OnStep, Run, RunInfo
from teacache.session import Choice
from teacache.store import Key, Recording, Store
from teacache.velocity import VelocityRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """Records and plans the runs of one wrapped model.

    Attributes:
        pipeline: its class name.
        identity: its checkpoint.
        fingerprint: of its weights as they are when a run begins.
    """

    pipeline: str
    identity: Identity
    fingerprint: Callable[[], str]

    def budget(
        self,
        info: RunInfo,
        *,
        speedup: float | None,
        computed_steps: int | None,
        max_reuse: int,
        curve: Sequence[float] | None,
        curve_of: str | None = None,
    ) -> Choice:
        """Plans a run for a wished speed, or records it where nothing is known yet.

        Args:
            info: the run.
            speedup: steps over computed steps; None where a count is given.
            computed_steps: how many steps are computed.
            max_reuse: most steps in a row that are carried.
            curve: a published change curve for exactly these steps; used until there is a recording.
            curve_of: the calibration that it is from.
        """
        wished = computed_steps if computed_steps is not None else math.floor(info.steps / (speedup or 1.0))
        count = max(min(wished, info.steps), fewest_computed(info.steps, max_reuse))
        warnings: list[TeaCacheWarning] = []
        if count > wished:
            warnings.append(
                SpeedupWarning(
                    f"{info.steps / max(wished, 1):.3g}x and more was asked of {info.steps} steps: at most {max_reuse} "
                    f"in a row are carried (max_reuse=), so {count} are computed ({info.steps / count:.1f}x)."
                )
            )
        key = self._key(info)
        recording = self._load(key, info, warnings)
        if recording is not None:
            sigmas = info.active_sigmas
            plan = plan_from_kernel(recording.kernel.at(sigmas[:-1]), sigmas, computed_steps=count, max_reuse=max_reuse)
            origin = f"plan from the recording of this model{self._origin(recording)}"
            return self.planned(info, plan, origin, warnings)
        if curve is not None:
            plan = plan_given(plan_from_curve(curve, computed_steps=count, max_reuse=max_reuse), info.steps)
            return self.planned(info, plan, "plan from the published change curve", warnings, calibration=curve_of)
        return self._recorded(key, info, count, warnings)

    def planned(
        self,
        info: RunInfo,
        plan: Plan,
        origin: str,
        warnings: Sequence[TeaCacheWarning] = (),
        *,
        calibration: str | None = None,
    ) -> Choice:
        """Follows a plan."""
        expected = "" if plan.expected_error is None else f", expected error {plan.expected_error:.2%}"
        return Choice(
            make=functools.partial(_run, plan=plan),
            summary=f"{origin}{expected}",
            checkpoint=self.identity.checkpoint,
            identity=self.identity.level,
            calibration=calibration,
            warnings=tuple(warnings),
        )

    def _recorded(self, key: Key, info: RunInfo, count: int, warnings: list[TeaCacheWarning]) -> Choice:
        name = self.identity.checkpoint or "this model"
        if info.steps < 2:
            return Choice(make=functools.partial(_run, plan=None), summary="off (too few steps)")
        notice = RecordingWarning(
            f"This picture is computed in full, while {name} is recorded. Later ones compute {count} of "
            f"{info.steps} steps ({info.steps / count:.1f}x)."
        )
        return Choice(
            make=_recording_run,
            summary="recording (every step computed)",
            checkpoint=self.identity.checkpoint,
            identity=self.identity.level,
            warnings=(*warnings, notice),
            explain=False,
            on_success=functools.partial(self._save, key, info),
        )

    def _key(self, info: RunInfo) -> Key:
        """The key as the run begins: at its end the weights may be freed already."""
        return Key(
            checkpoint=self.identity.checkpoint,
            level=self.identity.level,
            fingerprint=self.fingerprint(),
            pipeline=self.pipeline,
            guidance=info.guidance is not None and info.guidance > 1,
        )

    def _load(self, key: Key, info: RunInfo, warnings: list[TeaCacheWarning]) -> Recording | None:
        store = Store()
        try:
            recording = store.load(key)
        except (KernelError, OSError) as error:
            warnings.append(
                StoreWarning(f"The recording {store.path(key)} cannot be used and will be made anew: {error}")
            )
            return None
        if recording is None or not recording.kernel.covers(info.active_sigmas[:-1]):
            return None
        return recording

    def _save(self, key: Key, info: RunInfo, run: Run) -> TeaCacheWarning | None:
        assert isinstance(run, VelocityRun)  # noqa: S101 - made by _recording_run
        store = Store()
        evidence = {
            "steps": info.steps,
            "guidance": info.guidance,
            "image_tokens": info.image_tokens,
            "date": datetime.date.today().isoformat(),
            "machine": f"{platform.system()} {platform.machine()}",
            "teacache": version("teacache-core"),
            "mlx": version("mlx"),
        }
        try:
            store.save(Recording(key=key, kernel=run.kernel(), evidence=evidence))
        except (KernelError, OSError) as error:
            return StoreWarning(
                f"The recording could not be kept in {store.folder}: {error}. The picture is not affected. "
                "Set TEACACHE_DATA to a folder that can be written."
            )
        return None

    @staticmethod
    def _origin(recording: Recording) -> str:
        evidence = recording.evidence
        parts = [
            f"{evidence['steps']} steps" if "steps" in evidence else "",
            "" if (guidance := finite(evidence.get("guidance"))) is None else f"guidance {guidance:g}",
            str(evidence.get("date", "")),
        ]
        text = ", ".join(part for part in parts if part)
        return f" ({text})" if text else ""


def _run(info: RunInfo, on_step: OnStep | None, *, plan: Plan | None) -> VelocityRun:
    return VelocityRun(info, plan=plan, on_step=on_step)


def _recording_run(info: RunInfo, on_step: OnStep | None) -> VelocityRun:
    return VelocityRun(info, record=True, reason="recording", on_step=on_step)
