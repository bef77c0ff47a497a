"""From recordings to a polynomial and a change curve. Must not import mlx, mflux or pluggy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from teacache.errors import FitError

MINIMUM_SAMPLES = 10
"""Pairs of steps that a fit needs: twice as many as the polynomial has coefficients."""

Recordings = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class PolynomialFit:
    """A polynomial from the change of the signal to the change of the body.

    Attributes:
        coefficients: five numbers, highest power first.
        range: (low, high) changes of the signal that it was fitted on.
        r2: share of the variance of the body's change that it explains, on the same recordings; at most 1.
        samples: pairs of steps that it was fitted on.
    """

    coefficients: tuple[float, ...]
    range: tuple[float, float]
    r2: float
    samples: int


def fit_polynomial(signal_changes: Recordings, body_changes: Recordings) -> PolynomialFit:
    """Fits the gate's polynomial of degree 4 by least squares, as in TeaCache (arXiv:2411.19108).

    The polynomial need not pass through 0: below the fitted range the gate clamps, so nothing is asked of it there.

    Args:
        signal_changes: relative L1 changes of the signal, one sequence for each recorded run, N-1 numbers for N steps.
        body_changes: relative L1 changes of the body over the same pairs of steps.

    Raises:
        FitError: too few or equal pairs, or a number that is no change.
    """
    if [len(run) for run in signal_changes] != [len(run) for run in body_changes]:
        raise FitError(
            f"{_lengths(signal_changes)} of the signal and {_lengths(body_changes)} of the body were given; expected "
            "the same pairs of steps in both. Take them from the same recordings."
        )
    signal, body = _flat(signal_changes, "signal_changes"), _flat(body_changes, "body_changes")
    distinct = len(np.unique(signal))
    if len(signal) < MINIMUM_SAMPLES or distinct < 6:
        raise FitError(
            f"{len(signal)} pairs of steps with {distinct} different changes of the signal were given; expected at "
            f"least {MINIMUM_SAMPLES} with 6 different ones. Record more prompts or more steps."
        )
    # Scaled to 1: the powers of small changes would differ by orders of magnitude.
    scale = float(signal.max())
    scaled, *_ = np.linalg.lstsq(np.vander(signal / scale, 5), body, rcond=None)
    coefficients = scaled / scale ** np.arange(4, -1, -1)
    spread = float(np.sum((body - body.mean()) ** 2))
    if spread == 0:
        raise FitError(f"All {len(body)} changes of the body are equal: there is nothing to fit. Check the recording.")
    r2 = 1 - float(np.sum((body - np.polyval(coefficients, signal)) ** 2)) / spread
    return PolynomialFit(
        coefficients=tuple(map(float, coefficients)),
        range=(float(signal.min()), float(signal.max())),
        r2=r2,
        samples=len(signal),
    )


def change_curve(body_changes: Recordings) -> tuple[float, ...]:
    """Returns the mean change of the body per pair of steps over the recorded runs, N-1 numbers for N steps.

    Args:
        body_changes: relative L1 changes of the body, one sequence for each run; all of the same step count.

    Raises:
        FitError: no recordings, recordings of different lengths, or a number that is no change.
    """
    if len({len(run) for run in body_changes}) != 1:
        raise FitError(
            f"{_lengths(body_changes)} of the body were given; expected recordings of one step count, one at least. "
            "Record every prompt with the same number of steps."
        )
    flat = _flat(body_changes, "body_changes")
    return tuple(map(float, flat.reshape(len(body_changes), -1).mean(axis=0)))


def _flat(recordings: Recordings, name: str) -> NDArray[np.float64]:
    """Returns all changes in one array, checked."""
    flat = np.array([change for run in recordings for change in run], dtype=np.float64)
    wrong = flat[~(np.isfinite(flat) & (flat >= 0))]
    if len(wrong):
        raise FitError(
            f"{name} hold {len(wrong)} values such as {wrong[0]}; expected finite numbers from 0 up. "
            "Leave out the recordings that hold them."
        )
    return flat


def _lengths(recordings: Recordings) -> str:
    return f"Recordings with {', '.join(str(len(run)) for run in recordings) or 'no'} changes"
