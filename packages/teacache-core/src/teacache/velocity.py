"""A run that follows a plan: on a step that is not computed the model is not called, its velocity is carried over.

With a plan of all steps it is the plain path. It can record the kernel of the run. Must not import mflux.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np

from teacache.errors import RunError
from teacache.pieces import Pieces
from teacache.policies.kernel import Kernel
from teacache.policies.plan import Plan
from teacache.run import OnStep, Run, RunInfo
from teacache.stats import StepRecord
from teacache.walks import Args, Kwargs


class VelocityRun(Run):
    """Computes the steps of a plan by plain calls.

    It keeps the velocities of the last two computed steps; a recording also keeps every step's, in float32 outside
    MLX: steps times the size of the latents, 52 MB for 50 steps at 1024 x 1024 in FLUX.1's latents.

    Args:
        info: what the host knows.
        plan: the computed steps, as indices within the run; None: all of them, and the host's step is left alone.
        reason: what the records say of a computed step.
        record: measure the kernel; the plan must be None.
        on_step: called with each record.
    """

    def __init__(
        self,
        info: RunInfo,
        *,
        plan: Plan | None = None,
        reason: str = "plan",
        record: bool = False,
        on_step: OnStep | None = None,
    ) -> None:
        super().__init__(info, on_step=on_step)
        self.plan = plan
        self.wants_velocity = plan is not None or record
        self._coefficients = {} if plan is None else dict(zip(plan.computed, plan.coefficients, strict=True))
        self._corrections = (
            {} if plan is None or not plan.corrections else dict(zip(plan.computed, plan.corrections, strict=True))
        )
        self._reason = reason
        self._record = record
        self._calls = 0
        self._stand_ins: dict[int, tuple[tuple[int, ...], mx.Dtype]] = {}
        self._computed: list[tuple[int, mx.array]] = []
        self._stepped = False
        self._recorded: list[np.ndarray[Any, np.dtype[np.float32]]] = []
        self._products: list[list[float]] = []

    def call(self, pieces: Pieces, args: Args, kwargs: Kwargs, key: Any = None) -> Any:
        """See `Run.call`."""
        ordinal, self._calls = self._calls, self._calls + 1
        if self._carries() and ordinal in self._stand_ins:
            shape, dtype = self._stand_ins[ordinal]
            return mx.zeros(shape, dtype)  # never evaluated: the host steps with the carried velocity
        output = pieces.plain(args, kwargs)
        self._stand_ins[ordinal] = (output.shape, output.dtype)
        return output

    def velocity(self, predicted: mx.array) -> mx.array:
        """See `Run.velocity`."""
        if self.closed:
            return predicted
        self._stepped = True
        if self._carries():
            return self._carried(predicted)
        taken = self._corrected(predicted)
        self._computed = [*self._computed[-1:], (len(self.records), predicted)]
        return taken

    def kernel(self) -> Kernel:
        """Returns the kernel of a recording that ran to its end."""
        size = len(self._products)
        products = np.zeros((size, size))
        for row, values in enumerate(self._products):
            products[row, : row + 1] = products[: row + 1, row] = values
        return Kernel.of(self.info.active_sigmas[:-1], products)

    def close(self) -> None:
        """See `Run.close`; the kernel's numbers stay."""
        super().close()
        self._computed = []
        self._recorded = []

    def _carries(self) -> bool:
        return self.plan is not None and not self.complete and len(self.records) not in self._coefficients

    def _carried(self, predicted: mx.array) -> mx.array:
        step, sigmas = len(self.records), self.info.active_sigmas
        j, last = self._computed[-1]
        carried = last.astype(mx.float32)
        if len(self._computed) > 1:
            i, before = self._computed[0]
            ratio = (sigmas[step] - sigmas[j]) / (sigmas[j] - sigmas[i])
            carried = carried + self._coefficients[j] * ratio * (carried - before.astype(mx.float32))
        return carried.astype(predicted.dtype)

    def _corrected(self, predicted: mx.array) -> mx.array:
        """The velocity of a computed step that also makes good what the gap before it missed (`Plan.corrections`)."""
        step, sigmas = len(self.records), self.info.active_sigmas
        if not self._computed or self.complete:
            return predicted
        j, last = self._computed[-1]
        along, behind = self._corrections.get(j, (0.0, 0.0))
        if step == j + 1 or (along == 0.0 and behind == 0.0):
            return predicted
        wide, from_last = predicted.astype(mx.float32), last.astype(mx.float32)
        correction = along * (wide - from_last)
        if len(self._computed) > 1:
            correction = correction + behind * (from_last - self._computed[0][1].astype(mx.float32))
        return (wide + correction / (sigmas[step + 1] - sigmas[step])).astype(predicted.dtype)

    def _finish(self, index: int, latents: mx.array | None) -> StepRecord:
        step, carried = len(self.records), self._carries()
        calls, self._calls, stepped, self._stepped = self._calls, 0, self._stepped, False
        if self.wants_velocity and calls and not stepped:
            raise RunError(
                f"Step {index} was made without asking for its velocity, so a carried one cannot reach it. In a loop "
                "of your own, step with run.velocity(prediction)."
            )
        mx.eval([velocity for _, velocity in self._computed], [] if latents is None else latents)
        if self._record and stepped:
            self._measure(self._computed[-1][1])
        ends = {0: "first", self.info.steps - 1: "last"} if self.plan is not None else {}
        return StepRecord(
            step=index,
            sigma=self.info.sigmas[index],
            action="reuse" if carried else "compute",
            planned="reuse" if carried else "compute",
            reason=ends.get(step, self._reason) if calls else "not reached",
            branches=0 if carried else calls,
        )

    def _measure(self, velocity: mx.array) -> None:
        flat = np.array(velocity.astype(mx.float32)).ravel()
        self._recorded.append(flat)
        wide = flat.astype(np.float64)
        self._products.append([float(wide @ other.astype(np.float64)) for other in self._recorded])
