"""Fits of recordings: polynomial and change curve."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teacache.calibration.fit import change_curve, fit_polynomial
from teacache.errors import FitError

pytestmark = pytest.mark.unit

DATA = Path(__file__).parents[1] / "data" / "published_traces.json"
TRACES = json.loads(DATA.read_text(encoding="utf-8"))["traces"]
SIGNAL = [[0.05, 0.1, 0.2, 0.3, 0.4], [0.02, 0.15, 0.25, 0.35, 0.45]]


def through(coefficients, signal=SIGNAL):
    return [list(np.polyval(coefficients, run)) for run in signal]


@given(st.lists(st.floats(0.01, 10), min_size=5, max_size=5))
def test_an_exact_polynomial_is_found_again(coefficients):
    """Red when powers are in the wrong order, or the scaling of the signal is not undone."""
    fit = fit_polynomial(SIGNAL, through(coefficients))
    assert np.polyval(fit.coefficients, SIGNAL) == pytest.approx(np.polyval(coefficients, SIGNAL), rel=1e-8)
    assert fit.coefficients == pytest.approx(coefficients, rel=1e-4, abs=1e-4)
    assert fit.range == (0.02, 0.45)
    assert fit.samples == 10
    assert fit.r2 == pytest.approx(1)


def test_small_changes_keep_their_digits():
    """Red when the fit is not scaled: powers of changes of 1e-4 drown in rounding."""
    signal = [[change * 1e-4 for change in run] for run in SIGNAL]
    coefficients = (3e16, -2e12, 1e8, 2e3, 0.1)
    fit = fit_polynomial(signal, through(coefficients, signal))
    assert fit.coefficients == pytest.approx(coefficients, rel=1e-6)


@pytest.mark.parametrize("name", TRACES)
def test_no_worse_than_the_published_polynomial(name):
    """Red when the fit is not the least-squares one: the published polynomials were fitted on the same kind of data."""
    trace = TRACES[name]
    signal, body = np.array(trace["signal_change"]), np.array(trace["body_change"])
    published = 1 - np.sum((body - np.polyval(trace["coefficients"], signal)) ** 2) / np.sum((body - body.mean()) ** 2)
    fit = fit_polynomial(trace["signal_change"], trace["body_change"])
    assert published <= fit.r2 < published + 0.1
    assert fit.range == (signal.min(), signal.max())
    assert fit.samples == signal.size


def test_runs_of_different_lengths_are_fitted_together():
    """Red when recordings of different step counts cannot be joined."""
    signal = [SIGNAL[0], SIGNAL[1][:3], SIGNAL[1]]
    assert fit_polynomial(signal, through((1, 2, 3, 4, 5), signal)).samples == 13


@pytest.mark.parametrize(
    ("signal", "body", "message"),
    [
        ([], [], "0 pairs of steps"),
        (SIGNAL[:1], through((0, 0, 0, 1, 0), SIGNAL[:1]), "5 pairs of steps with 5 different"),
        ([[0.1, 0.2] * 6], [[0.1, 0.2] * 6], "12 pairs of steps with 2 different"),
        (SIGNAL, SIGNAL[:1], "expected the same pairs of steps"),
        (SIGNAL, [SIGNAL[0], SIGNAL[1][:4]], "Recordings with 5, 4 changes of the body"),
        (SIGNAL, [SIGNAL[0], [math.nan] * 5], "body_changes hold 5 values such as nan"),
        ([SIGNAL[0], [-0.1] + [0.2] * 4], SIGNAL, r"signal_changes hold 1 values such as -0\.1"),
        (SIGNAL, [[0.5] * 5] * 2, "All 10 changes of the body are equal"),
    ],
)
def test_what_cannot_be_fitted_is_refused(signal, body, message):
    """Red when a fit comes out of too little, of NaN or of different recordings."""
    with pytest.raises(FitError, match=message):
        fit_polynomial(signal, body)


def test_curve_is_the_mean_over_prompts():
    """Red when the mean is taken over the steps, or arrays of numpy come out."""
    curve = change_curve([[0.5, 0.25, 0.0], [0.25, 0.25, 0.5]])
    assert curve == (0.375, 0.25, 0.25)
    assert all(type(change) is float for change in curve)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "Recordings with no changes"),
        ([[0.1, 0.2], [0.1]], "Recordings with 2, 1 changes .* expected recordings of one step count"),
        ([[0.1, math.inf]], "body_changes hold 1 values such as inf"),
    ],
)
def test_what_has_no_curve_is_refused(body, message):
    """Red when recordings of different step counts are averaged step by step."""
    with pytest.raises(FitError, match=message):
        change_curve(body)
