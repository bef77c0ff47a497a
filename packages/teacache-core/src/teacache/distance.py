"""How far two arrays of numbers are apart, in the four measures of the oracles. Must not import mlx or mflux."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

EPSILON = 1e-6
"""Added to the denominator of the relative difference, so that a number near 0 does not decide."""

Numbers = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Distance:
    """The distance between a result and what it is measured against.

    Attributes:
        max_abs: largest absolute difference; infinite where either holds NaN or inf, or the shapes differ.
        mean_abs: mean absolute difference.
        max_rel: largest of |a - b| / (|b| + `EPSILON`).
        cosine: cosine of the angle between the two, 1.0 for equal ones.
    """

    max_abs: float
    mean_abs: float
    max_rel: float
    cosine: float

    @property
    def exact(self) -> bool:
        """Not one number differs."""
        return self.max_abs == 0.0


NONE = Distance(max_abs=0.0, mean_abs=0.0, max_rel=0.0, cosine=1.0)
FAR = Distance(max_abs=float("inf"), mean_abs=float("inf"), max_rel=float("inf"), cosine=0.0)


def distance(result: Numbers, against: Numbers) -> Distance:
    """Measures one array against another, in float64."""
    if result.shape != against.shape:
        return FAR
    a, b = result.astype(np.float64).ravel(), against.astype(np.float64).ravel()
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return FAR
    if not a.size or (a == b).all():
        return NONE
    difference = np.abs(a - b)
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return Distance(
        max_abs=float(difference.max()),
        mean_abs=float(difference.mean()),
        max_rel=float((difference / (np.abs(b) + EPSILON)).max()),
        cosine=float(a @ b) / lengths if lengths else 0.0,
    )


def distances(result: Iterable[Numbers], against: Iterable[Numbers]) -> list[Distance]:
    """Measures two sequences entry by entry; where one is longer, the rest is as far as can be."""
    first, second = list(result), list(against)
    paired = [distance(a, b) for a, b in zip(first, second, strict=False)]
    return paired + [FAR] * abs(len(first) - len(second))


def worst(measured: Iterable[Distance]) -> Distance:
    """Returns the worst of each measure; of nothing: no distance."""
    rows = list(measured)
    if not rows:
        return NONE
    return Distance(
        max_abs=max(row.max_abs for row in rows),
        mean_abs=max(row.mean_abs for row in rows),
        max_rel=max(row.max_rel for row in rows),
        cosine=min(row.cosine for row in rows),
    )
