"""From recorded runs to numbers, and from numbers to a threshold, on any model that a function makes pictures with.

Must not import mlx, mflux or pluggy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Protocol

import numpy as np

from teacache.calibration.fit import PolynomialFit, change_curve, fit_polynomial
from teacache.errors import FitError

if TYPE_CHECKING:
    from PIL.Image import Image

    from teacache.stats import RunStats, Stats


@dataclass(frozen=True, slots=True)
class Case:
    """What a picture is made from, all else being equal."""

    prompt: str
    seed: int


MULTIPLES = (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20)

Make = Callable[[Case], "Image"]
"""Makes a picture, always with the same step count, guidance and size."""

Compare = Callable[["Image", "Image"], tuple[float, float]]
"""Returns the SSIM and the PSNR in dB of two pictures."""


class Wrapped(Protocol):
    """What is needed of a `teacache.Handle`."""

    @property
    def stats(self) -> Stats:
        """The finished runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What shadow runs of one recipe measured.

    Attributes:
        signal_changes: for each run, relative L1 changes of the signal from step to step, N-1 for N steps.
        body_changes: relative L1 changes of the body's output over the same pairs of steps.
        sigmas: the noise level that each step starts from, N numbers.
    """

    signal_changes: tuple[tuple[float, ...], ...]
    body_changes: tuple[tuple[float, ...], ...]
    sigmas: tuple[float, ...]

    @property
    def steps(self) -> int:
        """Steps of each run."""
        return len(self.sigmas)

    @classmethod
    def of(cls, runs: Sequence[RunStats]) -> Recording:
        """Collects the changes of finished shadow runs.

        Raises:
            FitError: there are none, they differ in their steps, or one has not measured every step.
        """
        schedules = {tuple(record.sigma for record in run.records) for run in runs}
        if len(schedules) != 1:
            raise FitError(
                f"{len(runs)} runs with {len(schedules)} different schedules were given; expected one schedule in "
                "all. Record every prompt with the same settings."
            )
        pairs = [[(record.signal_change, record.body_change) for record in run.records[1:]] for run in runs]
        measured = [[(s, b) for s, b in run if s is not None and b is not None] for run in pairs]
        if measured != pairs:
            raise FitError("A run has steps that were not measured. Record with wrap(model, mode='shadow').")
        return cls(
            signal_changes=tuple(tuple(s for s, _ in run) for run in measured),
            body_changes=tuple(tuple(b for _, b in run) for run in measured),
            sigmas=schedules.pop(),
        )

    def polynomial(self) -> PolynomialFit:
        """Returns the gate's polynomial, see `fit_polynomial`."""
        return fit_polynomial(self.signal_changes, self.body_changes)

    def curve(self) -> tuple[float, ...]:
        """Returns the mean change of the body from step to step, see `change_curve`."""
        return change_curve(self.body_changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """What one threshold comes to.

    Attributes:
        threshold: of the gate.
        reused: steps reused, mean over the cases.
        ssim: structural similarity to the plain pictures, mean over the cases.
        worst_ssim: the lowest of them.
        psnr: peak signal-to-noise ratio in dB of the mean squared error over all cases.
    """

    threshold: float
    reused: float
    ssim: float
    worst_ssim: float
    psnr: float


def record(make: Make, cases: Sequence[Case], wrapped: Wrapped) -> Recording:
    """Makes a picture of each case on a model that is wrapped in shadow mode, and returns what was measured."""
    before = len(wrapped.stats.runs)
    for case in cases:
        make(case)
    return Recording.of(wrapped.stats.runs[before:])


def candidate_thresholds(recording: Recording, fit: PolynomialFit) -> tuple[float, ...]:
    """Returns thresholds worth trying, from about every second step reused up to long runs of reused steps.

    They are multiples of the median predicted change of a step, with two digits: threshold over change is about the
    number of steps from one computed step to the next.

    Raises:
        FitError: the polynomial predicts no change for most of its own recording.
    """
    typical = float(np.median(np.polyval(fit.coefficients, np.array(recording.signal_changes))))
    if typical <= 0:
        raise FitError("The polynomial predicts no change for most steps of its own recording. Record more prompts.")
    return tuple(dict.fromkeys(float(f"{multiple * typical:.2g}") for multiple in MULTIPLES))


def sweep(
    make: Make,
    cases: Sequence[Case],
    thresholds: Sequence[float],
    wrap_at: Callable[[float], AbstractContextManager[Wrapped]],
    compare: Compare,
    *,
    said: Callable[[SweepPoint], None] = lambda point: None,
) -> tuple[SweepPoint, ...]:
    """Compares wrapped with plain pictures of the same cases, threshold by threshold.

    Args:
        make: makes one picture; called plain once per case, then wrapped once per case and threshold.
        cases: best such that the polynomial has not seen.
        thresholds: what to try.
        wrap_at: wraps the model that `make` uses with a threshold, for as long as the context is open.
        compare: how a wrapped picture is measured against its plain one.
        said: takes each point as it is finished.
    """
    plain = [make(case) for case in cases]
    points: list[SweepPoint] = []
    for threshold in thresholds:
        with wrap_at(threshold) as wrapped:
            pictures = [make(case) for case in cases]
            reused = [run.reused for run in wrapped.stats.runs]
        likeness = [compare(one, other) for one, other in zip(plain, pictures, strict=True)]
        error = np.mean([10 ** (-psnr / 10) for _, psnr in likeness])
        points.append(
            SweepPoint(
                threshold=threshold,
                reused=float(np.mean(reused)),
                ssim=float(np.mean([ssim for ssim, _ in likeness])),
                worst_ssim=min(ssim for ssim, _ in likeness),
                psnr=float(-10 * np.log10(error)) if error else float("inf"),
            )
        )
        said(points[-1])
    return tuple(points)


def choose(points: Sequence[SweepPoint], *, floor: float) -> SweepPoint:
    """Returns the point that reuses most among those whose mean SSIM is not below the floor.

    Raises:
        FitError: there is none that reuses anything.
    """
    fitting = [point for point in points if point.ssim >= floor and point.reused > 0]
    if not fitting:
        best = max((point.ssim for point in points if point.reused > 0), default=float("nan"))
        raise FitError(
            f"No threshold reuses steps with a mean SSIM of {floor:g} or more; the best has {best:.4f}. "
            "Lower the floor, or record more prompts."
        )
    return max(fitting, key=lambda point: (point.reused, point.ssim))


def sweep_evidence(points: Sequence[SweepPoint]) -> dict[str, tuple[float, ...]]:
    """Returns a sweep as a calibration's evidence holds it: one list for each number, in the order of the thresholds.

    Points at which every picture is equal to its plain one are left out: they have no finite PSNR.
    """
    rows = [asdict(point) for point in points if np.isfinite(point.psnr)]
    names = [field.name for field in fields(SweepPoint)]
    return {f"sweep_{name}": tuple(float(f"{row[name]:.5g}") for row in rows) for name in names}
