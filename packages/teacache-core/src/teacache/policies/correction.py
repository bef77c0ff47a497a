"""What a computed step makes good of the gap before it. Numbers in, numbers out. Imports numpy only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SHARE = 0.5
"""How much of the best correction is applied. The best one is that of the recorded prompt. On other prompts of the four
toys half of it gains 1.7, 1.6, 2.2 and 0.8 dB in the mean at 20, 15, 10 and 7 of 30 steps (docs/frontier.md); all of it
gains more at 15, and loses up to 5 dB at 7."""

Correction = tuple[float, float]
"""Factors of ``v_m - v_j`` and ``v_j - v_i``, in units of sigma."""


def corrections(
    products: NDArray[np.float64], sigmas: Sequence[float], computed: Sequence[int], coefficients: Sequence[float]
) -> tuple[Correction, ...]:
    """Fits how a computed step corrects the latents for the gap before it.

    Behind the computed steps i < j a gap misses ``e = sum_k ds_k (v_k - v̂_k)``. The next computed step m sees where
    the velocity went, and part of e lies along ``v_m - v_j`` and ``v_j - v_i``. Two things happen by themselves where
    the model's idea of the picture does not move, v being (x - picture) / sigma: the velocity at m answers by
    ``-e / s_m``, and the step shrinks e by ``s_{m+1} / s_m``. What is left is fitted by least squares from the inner
    products, and `SHARE` of it applied.

    Args:
        products: N x N inner products of the velocities at the run's steps.
        sigmas: N + 1 noise levels.
        computed: indices of the computed steps, first and last included.
        coefficients: how the velocity is carried over the gap behind each (`Plan.coefficients`).

    Returns:
        One pair per computed step, for the gap behind it; zeros where there is none.
    """
    levels, found = np.asarray(sigmas, dtype=np.float64), []
    for position, (j, c) in enumerate(zip(computed, coefficients, strict=True)):
        m = computed[position + 1] if position + 1 < len(computed) else j + 1
        if m == j + 1:
            found.append((0.0, 0.0))
            continue
        i = computed[position - 1] if position else None
        missed = _missed(len(products), levels, i, j, m, c)
        directions = [_unit(len(products), m) - _unit(len(products), j) - missed / levels[m]]
        if i is not None:
            directions.append(_unit(len(products), j) - _unit(len(products), i))
        fitted = _fit(products, np.array(directions), missed * levels[m + 1] / levels[m])
        found.append((SHARE * fitted[0], SHARE * fitted[1] if i is not None else 0.0))
    return tuple(found)


def _missed(steps: int, levels: NDArray[np.float64], i: int | None, j: int, m: int, c: float) -> NDArray[np.float64]:
    """What carrying the velocity from j to m misses, as weights of the velocities of all steps."""
    missed = np.zeros(steps)
    delta = np.diff(levels)[j + 1 : m]
    missed[j + 1 : m] = delta
    missed[j] -= delta.sum()
    if i is not None:
        slope = c * float(delta @ (levels[j + 1 : m] - levels[j])) / (levels[j] - levels[i])
        missed[j] -= slope
        missed[i] += slope
    return missed


def _fit(
    products: NDArray[np.float64], directions: NDArray[np.float64], target: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Least squares in the metric of the inner products; directions without length get no factor."""
    gram = directions @ products @ directions.T
    lengths = np.sqrt(np.maximum(np.diag(gram), 0.0))
    usable = lengths > 1e-6 * np.sqrt(np.trace(products) / len(products))
    scale = np.where(usable, 1.0 / np.where(usable, lengths, 1.0), 0.0)
    scaled = gram * np.outer(scale, scale)
    # Two directions that are nearly one get the smallest factors that do, not large ones that cancel.
    factors: NDArray[np.float64] = np.linalg.pinv(scaled, rcond=1e-3, hermitian=True) @ (
        scale * (directions @ products @ target)
    )
    return factors * scale


def _unit(steps: int, index: int) -> NDArray[np.float64]:
    vector = np.zeros(steps)
    vector[index] = 1.0
    return vector
