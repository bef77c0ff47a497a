"""Changes of a signal: in every precision, and what is no change at all."""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from teacache.gated import relative_l1
from teacache.policies import Gate

pytestmark = pytest.mark.unit

HALVES = (mx.float16, mx.bfloat16)
LARGEST_ROUNDING = 2.0**-8
"""Half a unit in the last place of bfloat16, relative to a number."""


def change(now: Any, before: Any, dtype: mx.Dtype = mx.float32) -> float:
    return float(relative_l1(mx.array(now).astype(dtype), mx.array(before).astype(dtype)).item())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("now", "before"),
    [
        ([[0.0] * 4], [[0.0] * 4]),
        ([[1.0] * 4], [[0.0] * 4]),
        ([[math.nan, 1.0, 1.0, 1.0]], [[1.0] * 4]),
        ([[1.0] * 4], [[math.nan, 1.0, 1.0, 1.0]]),
        ([[math.inf] * 4], [[math.inf] * 4]),
        ([[1.0] * 4], [[math.inf, 1.0, 1.0, 1.0]]),
    ],
)
def test_what_is_no_change_is_computed(now: Any, before: Any) -> None:
    """Red when all-zero, endless or missing numbers pass for a small change."""
    found = change(now, before)
    gate = Gate(4, coefficients=(0, 0, 0, 1, 0), calibrated_range=None, threshold=0.5)
    gate.decide(0, None)
    decision = gate.decide(1, found)
    assert not decision.reuse or found == 1.0, found
    assert not math.isfinite(found) or found >= 0


def test_a_constant_signal_is_reused_at_most_so_often() -> None:
    """Red when a signal that stands still, as a broken adapter's does, carries one residual through the whole run."""
    gate = Gate(30, coefficients=(0, 0, 0, 1, 0), calibrated_range=None, threshold=0.5)
    signal = [[0.25, -3.0, 1.0]]
    reused = [gate.decide(step, change(signal, signal) if step else None).reuse for step in range(30)]
    longest = max(map(len, "".join("r" if one else "c" for one in reused).split("c")))
    assert longest == 8 and not reused[0] and not reused[-1]


def test_a_jump_far_outside_the_fitted_range_is_computed() -> None:
    """Red when the polynomial is asked where it was never fitted: its tail may say anything."""
    gate = Gate(4, coefficients=(-1e6, 0, 0, 0, 0), calibrated_range=(0.01, 0.5), threshold=0.5)
    gate.decide(0, None)
    assert gate.decide(1, change([[50.0] * 4], [[1.0] * 4])).reason == "range"


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("seed", range(5))
def test_precisions_decide_alike_where_it_is_clear(dtype: mx.Dtype, seed: int) -> None:
    """Red when the change is summed in half precision: a trace would decide otherwise with other weights.

    Rounding moves each number by 1/256 of itself at most, so the sum of k changes by 2 k / 256 of the signal at most
    (and the polynomial here is the identity). Decisions are compared wherever the sum is farther from the threshold.
    """
    chance = np.random.default_rng(seed)
    trace = [chance.normal(size=(1, 64, 48)).astype(np.float32)]
    for size in chance.uniform(0.02, 0.3, 29):
        trace.append(trace[-1] + size * chance.normal(size=(1, 64, 48)).astype(np.float32))
    gates = [Gate(30, coefficients=(0, 0, 0, 1, 0), calibrated_range=None, threshold=0.5) for _ in range(2)]
    compared = since = 0
    for step in range(30):
        full, half = (
            gate.decide(step, change(trace[step], trace[step - 1], kind) if step else None)
            for gate, kind in zip(gates, (mx.float32, dtype), strict=True)
        )
        since += 1
        if step and abs(full.accumulated - 0.5) <= 4 * since * LARGEST_ROUNDING:
            break  # too near to call; the runs may part from here
        assert (full.reuse, full.reason) == (half.reuse, half.reason)
        compared, since = compared + 1, since if full.reuse else 0
    assert compared >= 2


def test_float16_that_overflows_is_computed() -> None:
    """Red when signals beyond float16's range, which become infinite, are taken for equal ones."""
    assert not math.isfinite(change([[7e4] * 4], [[7e4] * 4], mx.float16))
