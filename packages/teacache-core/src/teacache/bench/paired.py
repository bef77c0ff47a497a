"""Ratios of paired times with their intervals, and what they say of a target. Imports numpy only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]
Verdict = Literal["met", "missed", "undecided"]

DRAWS = 2000
"""Bootstrap samples of an interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A median with its 95 % interval (percentile bootstrap over the pairs).

    Attributes:
        value: the median.
        low: lower end.
        high: upper end.
        pairs: how many pairs it is of.
    """

    value: float
    low: float
    high: float
    pairs: int

    @classmethod
    def of(cls, value: float, samples: NDArray[np.float64], pairs: int) -> Estimate:
        """The interval that holds 95 % of the bootstrap samples."""
        low, high = np.percentile(samples, [2.5, 97.5])
        return cls(value=float(value), low=float(low), high=float(high), pairs=pairs)

    def mapped(self, function: Callable[[float], float]) -> Estimate:
        """Returns a monotonic function of it, ends in order."""
        ends = sorted((function(self.low), function(self.high)))
        return Estimate(value=function(self.value), low=ends[0], high=ends[1], pairs=self.pairs)


def ratio(times: Sequence[float] | Times, against: Sequence[float] | Times) -> Estimate:
    """Returns the median ratio of paired times, taken of the logarithms: a doubling weighs as much as a halving."""
    logs = np.log(np.asarray(times, dtype=np.float64) / np.asarray(against, dtype=np.float64))
    return Estimate.of(np.median(logs), _medians(logs), len(logs)).mapped(lambda x: float(np.exp(x)))


def share(times: Times, against: Times, whole: Times) -> Estimate:
    """Returns the median difference of paired times as a share of the median of others, which are not paired with it.

    Where the two of a pair differ by a fixed amount, it is known sooner on short steps than on long ones: the noise of
    a step is in proportion to its length.
    """
    differences = times - against
    samples = _medians(differences, seed=1) / _medians(whole, seed=2)
    return Estimate.of(np.median(differences) / np.median(whole), samples, len(differences))


def decide(estimate: Estimate, target: float, *, at_most: bool, direct: Estimate | None = None) -> Verdict:
    """Tells whether a target is met: when the whole interval lies on its good side.

    Args:
        estimate: the measurement that decides.
        target: the bound.
        at_most: the bound is an upper one.
        direct: the same quantity measured in another, noisier way; where its whole interval lies on the bad side, the
            target is not called met, whatever the first says.
    """

    def good(one: Estimate) -> bool:
        return one.high <= target if at_most else one.low >= target

    def bad(one: Estimate) -> bool:
        return one.low > target if at_most else one.high < target

    if bad(estimate):
        return "missed"
    return "met" if good(estimate) and not (direct is not None and bad(direct)) else "undecided"


def _medians(values: Any, *, seed: int = 0) -> NDArray[np.float64]:
    """The median of each of many samples of the values, drawn with replacement."""
    drawn = np.random.default_rng(seed).integers(0, len(values), (DRAWS, len(values)))
    medians: NDArray[np.float64] = np.median(np.asarray(values)[drawn], axis=1)
    return medians
