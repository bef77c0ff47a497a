"""From pictures to the numbers of a model: changes and kernel of each prompt, and what they fit to.

Must not import mflux: the caller brings the model and makes its pictures.
"""

from __future__ import annotations

import datetime
import functools
import math
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from teacache.calibration import load_calibrations
from teacache.calibration.fit import PolynomialFit, change_curve, fit_polynomial
from teacache.calibration.record import Case
from teacache.errors import FitError
from teacache.fingerprint import fingerprint
from teacache.hosts import host_for
from teacache.identity import Identity, identify
from teacache.plugins import find_adapter
from teacache.policies import replay_gate
from teacache.policies.kernel import Kernel
from teacache.run import Run, RunInfo
from teacache.steering import MeasuringRun, steered, target_tokens
from teacache.store import Key

if TYPE_CHECKING:
    from PIL.Image import Image

LEAST_R2 = 0.5
"""A polynomial that explains less of the change on prompts it has not seen is not written. The five published ones
explain 0.85, 0.82, 0.63, 0.37 and 0.08 of it (leave one out, on their own traces); the last two reuse little."""

Make = Callable[[Case, int], "Image"]
"""Makes a picture in so many steps, always with the same guidance and size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one prompt's run measured.

    Attributes:
        prompt: as asked for.
        seed: of the noise.
        sigmas: noise levels: each step's start, and the last one's end.
        signal: relative L1 changes of the signal from step to step, N-1 for N steps.
        body: the same of the body's output.
        products: inner products of the velocities, N x N.
        guidance: strength of guidance, None where the host knows none.
        image_tokens: tokens of the picture, None where the host does not say.
    """

    prompt: str
    seed: int
    sigmas: tuple[float, ...]
    signal: tuple[float, ...]
    body: tuple[float, ...]
    products: tuple[tuple[float, ...], ...]
    guidance: float | None
    image_tokens: int | None

    @property
    def kernel(self) -> Kernel:
        """The kernel of this run."""
        return Kernel.of(self.sigmas[:-1], self.products)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fits:
    """What the recorded prompts come to.

    Attributes:
        polynomial: the gate's; None where there is none worth writing.
        why_no_polynomial: the reason then.
        polynomial_r2: share of the variance of the body's change that a polynomial explains on prompts that it was not
            fitted on; None for one prompt.
        curve: mean change of the body from step to step.
        curve_r2: the same share for the mean curve of the other prompts.
        kernel: mean over the prompts.
    """

    polynomial: PolynomialFit | None
    why_no_polynomial: str | None
    polynomial_r2: float | None
    curve: tuple[float, ...]
    curve_r2: float | None
    kernel: Kernel


def measure(model: Any, make: Make, case: Case, steps: int) -> Measured:
    """Makes the plain picture of one case and measures it."""
    adapter, _ = find_adapter(model)
    runs: list[MeasuringRun] = []

    def run_of(info: RunInfo) -> Run:
        runs.append(MeasuringRun(info, target=target_tokens(adapter, info)))
        return runs[-1]

    with steered(model, run_of):
        make(case, steps)
    run, info = runs[-1], runs[-1].info
    pairs = [(record.signal_change, record.body_change) for record in run.records[1:]]
    return Measured(
        prompt=case.prompt,
        seed=case.seed,
        sigmas=info.active_sigmas,
        signal=tuple(math.nan if signal is None else signal for signal, _ in pairs),
        body=tuple(math.nan if body is None else body for _, body in pairs),
        products=tuple(map(tuple, run.kernel().products.tolist())),
        guidance=info.guidance,
        image_tokens=info.image_tokens,
    )


def fit(measured: Sequence[Measured]) -> Fits:
    """Fits all that the prompts give.

    Raises:
        FitError: the runs differ in their steps, or measured something that is no change.
    """
    if len({run.sigmas for run in measured}) != 1:
        raise FitError("The prompts were recorded with different schedules. Remove the file and record them anew.")
    signal, body = [run.signal for run in measured], [run.body for run in measured]
    curve = change_curve(body)
    kernel = functools.reduce(Kernel.merge, (run.kernel for run in measured))
    polynomial, why, r2 = None, None, None
    try:
        polynomial = fit_polynomial(signal, body)
        r2 = _left_out(signal, body, _predicted) if len(measured) > 1 else None
    except FitError as error:
        why = str(error)
    if r2 is not None and r2 < LEAST_R2:
        polynomial, why = None, (
            f"The polynomial explains {max(r2, 0):.0%} of the body's change on prompts that it has not seen, less than "
            f"{LEAST_R2:.0%}: too poor to use."
        )  # fmt: skip
    return Fits(
        polynomial=polynomial,
        why_no_polynomial=why,
        polynomial_r2=r2,
        curve=curve,
        curve_r2=_left_out(signal, body, _mean_curve) if len(measured) > 1 else None,
        kernel=kernel,
    )


def thresholds(measured: Sequence[Measured], polynomial: PolynomialFit, speedups: Sequence[float]) -> list[float]:
    """Returns, for each speed, the threshold whose mean count on the recorded runs comes nearest to it."""
    steps = len(measured[0].sigmas) - 1
    predicted = np.maximum(np.polyval(polynomial.coefficients, np.array([run.signal for run in measured])), 0)
    tried = np.geomspace(max(float(np.median(predicted)) / 2, 1e-4), float(predicted.sum(axis=1).max()) + 1e-3, 100)

    def computed(threshold: float) -> float:
        options: dict[str, Any] = {"coefficients": polynomial.coefficients, "calibrated_range": polynomial.range}
        reused = [sum(replay_gate(run.signal, threshold=threshold, **options)) for run in measured]
        return steps - float(np.mean(reused))

    counts = [(float(f"{threshold:.3g}"), computed(float(f"{threshold:.3g}"))) for threshold in tried]
    return [min(counts, key=lambda found: abs(found[1] - steps / speedup))[0] for speedup in speedups]


def identity_of(model: Any) -> Identity:
    """Returns which checkpoint a model holds, as `teacache.wrap` finds it."""
    adapter, _ = find_adapter(model)
    calibrations = () if adapter.calibrations is None else load_calibrations(adapter.calibrations)
    return identify(host_for(adapter.host).names(model), calibrations)


def key_of(model: Any, guidance: float | None) -> Key:
    """Returns the key under which `teacache.wrap` looks for a model's recording."""
    _, pipeline = find_adapter(model)
    identity = identity_of(model)
    return Key(
        checkpoint=identity.checkpoint,
        level=identity.level,
        fingerprint=fingerprint(getattr(model, str(pipeline.transformer))),
        pipeline=pipeline.name,
        guidance=guidance is not None and guidance > 1,
    )


def made_on() -> dict[str, str]:
    """Names the day, the machine and the versions, as evidence."""
    device = "GPU" if mx.default_device() == mx.gpu else "CPU"
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}, MLX on the {device}",
        "teacache": version("teacache-core"),
        "mlx": version("mlx"),
    }


Predict = Callable[[list[tuple[float, ...]], list[tuple[float, ...]], tuple[float, ...]], Any]


def _left_out(signal: list[tuple[float, ...]], body: list[tuple[float, ...]], predict: Predict) -> float:
    """Share of the variance explained, each run predicted from all the others."""
    missed = 0.0
    for run in range(len(body)):
        others = [number for number in range(len(body)) if number != run]
        said = predict([signal[other] for other in others], [body[other] for other in others], signal[run])
        missed += float(np.sum((np.array(body[run]) - said) ** 2))
    everything = np.array(body)
    return 1 - missed / float(np.sum((everything - everything.mean()) ** 2))


def _predicted(signal: list[tuple[float, ...]], body: list[tuple[float, ...]], wanted: tuple[float, ...]) -> Any:
    found = fit_polynomial(signal, body)
    return np.maximum(np.polyval(found.coefficients, np.clip(wanted, *found.range)), 0)


def _mean_curve(signal: list[tuple[float, ...]], body: list[tuple[float, ...]], wanted: tuple[float, ...]) -> Any:
    return np.mean(body, axis=0)
