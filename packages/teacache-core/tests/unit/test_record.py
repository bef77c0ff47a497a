"""From runs to a recording, and from a sweep to a threshold, on a model made of numbers."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from teacache.calibration.record import (
    Case,
    Recording,
    SweepPoint,
    candidate_thresholds,
    choose,
    record,
    sweep,
    sweep_evidence,
)
from teacache.errors import FitError
from teacache.stats import RunStats, Stats, StepRecord

CASES = (Case("one", 1), Case("two", 2))
SIGNAL = (0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.12, 0.1)


def shadow_run(signal: tuple[float | None, ...] = SIGNAL, start: float = 1.0, reused: int = 0) -> RunStats:
    """A run whose body changes by twice what its signal does."""
    steps = [None, *signal]
    records = tuple(
        StepRecord(
            step=k,
            sigma=start - k / 10,
            action="reuse" if 0 < k <= reused else "compute",
            planned="compute",
            reason="gate",
            signal_change=change,
            body_change=None if change is None else 2 * change,
        )
        for k, change in enumerate(steps)
    )
    return RunStats(records=records, seconds=1.0, policy="gate")


class Model:
    """Draws a number: the seed when plain, off by the threshold when wrapped."""

    def __init__(self) -> None:
        self.stats = Stats()
        self.threshold = 0.0
        self.made: list[tuple[float, Case]] = []

    def make(self, case: Case) -> float:
        self.made.append((self.threshold, case))
        self.stats.runs.append(shadow_run(reused=round(10 * self.threshold)))
        return case.seed + self.threshold

    @contextmanager
    def wrap_at(self, threshold: float) -> Iterator["Model"]:
        self.threshold, self.stats = threshold, Stats()
        yield self
        self.threshold = 0.0


def compare(plain: float, wrapped: float) -> tuple[float, float]:
    """Worse with the threshold, worst for the first case."""
    gap = wrapped - plain
    return 1 - gap / plain, math.inf if gap == 0 else -20 * math.log10(gap)


def point(threshold: float, reused: float, ssim: float, psnr: float = 40.0) -> SweepPoint:
    return SweepPoint(threshold=threshold, reused=reused, ssim=ssim, worst_ssim=ssim, psnr=psnr)


def test_recording_holds_only_its_own_runs() -> None:
    """Red when runs from before the recording are taken into the fit."""
    model = Model()
    model.stats.runs.append(shadow_run(start=9.0))
    recording = record(model.make, CASES, model)
    assert recording.signal_changes == (SIGNAL, SIGNAL)
    assert recording.body_changes[0] == tuple(2 * change for change in SIGNAL)
    assert (recording.steps, recording.sigmas[0]) == (9, 1.0)


def test_recording_is_fitted() -> None:
    """Red when signal and body are exchanged on their way into the fit: the body changes by twice the signal."""
    recording = Recording.of([shadow_run(), shadow_run()])
    *_, slope, constant = recording.polynomial().coefficients
    assert (slope, constant) == (pytest.approx(2), pytest.approx(0, abs=1e-9))
    assert recording.curve() == pytest.approx([2 * change for change in SIGNAL])


@pytest.mark.parametrize(
    "runs",
    [[], [shadow_run(), shadow_run(start=0.9)], [shadow_run((*SIGNAL[:-1], None))]],
    ids=["none", "two schedules", "a step without a change"],
)
def test_recordings_that_do_not_belong_together_are_refused(runs: list[RunStats]) -> None:
    """Red when pairs of steps are dropped silently or shifted against each other."""
    with pytest.raises(FitError):
        Recording.of(runs)


def test_candidates_rise_from_one_step_to_many() -> None:
    """Red when candidates repeat, fall, or start where half of the steps would be reused at once."""
    recording = Recording.of([shadow_run(), shadow_run()])
    candidates = candidate_thresholds(recording, recording.polynomial())
    assert list(candidates) == sorted(set(candidates))
    assert candidates[0] == pytest.approx(0.45)  # the median change of the body
    assert candidates[-1] > sum(2 * change for change in SIGNAL)


def test_sweep_compares_with_the_plain_picture_of_the_same_case() -> None:
    """Red when plain pictures are made while wrapped, cases are mixed up, or the worst is lost in the mean."""
    model = Model()
    said: list[SweepPoint] = []
    points = sweep(model.make, CASES, (0.1, 0.2), model.wrap_at, compare, said=said.append)
    assert model.made == [(t, case) for t in (0.0, 0.1, 0.2) for case in CASES]
    assert [p.threshold for p in points] == [0.1, 0.2]
    assert [p.reused for p in points] == [1, 2]
    assert (points[0].ssim, points[0].worst_ssim) == (pytest.approx(0.925), pytest.approx(0.9))
    assert points[0].psnr == pytest.approx(20)
    assert said == list(points)


def test_equal_pictures_have_no_finite_psnr() -> None:
    """Red when a mean error of zero is divided by, or an endless number is written into a file."""
    model = Model()
    points = sweep(model.make, CASES, (0.0, 0.1), model.wrap_at, compare)
    assert points[0].psnr == math.inf
    assert sweep_evidence(points)["sweep_threshold"] == (0.1,)


def test_choice_reuses_most_above_the_floor() -> None:
    """Red when the highest threshold, or the best likeness, is chosen instead."""
    points = [point(0.1, 5, 0.99), point(0.2, 9, 0.97), point(0.3, 9, 0.96), point(0.4, 12, 0.94)]
    assert choose(points, floor=0.95).threshold == 0.2


@pytest.mark.parametrize("points", [[point(0.1, 5, 0.9)], [point(0.1, 0, 1.0)], []])
def test_no_choice_is_an_error(points: list[SweepPoint]) -> None:
    """Red when a threshold below the floor, or one that reuses nothing, is chosen for want of another."""
    with pytest.raises(FitError, match="floor"):
        choose(points, floor=0.95)
