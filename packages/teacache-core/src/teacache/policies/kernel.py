"""The kernel of a checkpoint: inner products of the guided velocities of recorded runs. Imports numpy only.

A few hundred numbers fix, in closed form, what an omitted step costs and how best to carry the velocity over it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from teacache.errors import KernelError

Matrix = NDArray[np.float64]

LARGEST = 1000
"""Most steps that a kernel may have: mflux's schedules are cut from 1000 training steps."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """Inner products of velocities along a schedule, with their mean square set to 1.

    Attributes:
        sigmas: noise level at which each recorded step starts, strictly falling; N numbers.
        products: N x N matrix ``<v_a, v_b>``, symmetric, positive semidefinite; the mean of its diagonal is 1.
        prompts: how many recorded runs it averages.
    """

    sigmas: tuple[float, ...]
    products: Matrix
    prompts: int = 1

    @classmethod
    def of(cls, sigmas: Sequence[float], products: Any, *, prompts: int = 1) -> Kernel:
        """Checks and normalises.

        Raises:
            KernelError: wrong sizes, numbers that are not finite, sigmas that do not fall, a matrix that is not
                symmetric or has a clearly negative eigenvalue.
        """
        try:
            levels = tuple(float(sigma) for sigma in sigmas)
            matrix = np.array(products, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise KernelError(
                "sigmas and products: expected numbers and a square matrix of numbers. Record the model again."
            ) from None
        if type(prompts) is not int or prompts < 1:
            raise KernelError(f"prompts={prompts!r}: expected a whole number from 1 up. Record the model again.")
        size = len(levels)
        if not 2 <= size <= LARGEST or matrix.shape != (size, size):
            raise KernelError(
                f"A kernel over {size} noise levels has a matrix of shape {matrix.shape}; expected ({size}, {size}) "
                f"and from 2 to {LARGEST} levels. Record the model again."
            )
        if not np.isfinite(matrix).all() or not np.isfinite(levels).all():
            raise KernelError("A kernel holds numbers that are not finite. Record the model again.")
        if any(later >= earlier for earlier, later in itertools.pairwise(levels)):
            raise KernelError("The noise levels of a kernel do not fall from step to step. Record the model again.")
        scale = float(np.trace(matrix)) / size
        if scale <= 0:
            raise KernelError("Every velocity of a kernel is zero. Record the model again.")
        matrix = matrix / scale
        if not np.allclose(matrix, matrix.T, rtol=1e-6, atol=1e-9):
            raise KernelError("The matrix of a kernel is not symmetric. Record the model again.")
        matrix = (matrix + matrix.T) / 2
        lowest = float(np.linalg.eigvalsh(matrix)[0])
        if lowest < -1e-3:
            raise KernelError(
                f"The matrix of a kernel has the eigenvalue {lowest:.3g}; inner products have none below 0. "
                "Record the model again."
            )
        return cls(levels, matrix, prompts)

    def covers(self, sigmas: Sequence[float]) -> bool:
        """Tells whether a schedule lies in the recorded range, up to one recorded step at either end."""
        first, last = self.sigmas[0] - self.sigmas[1], self.sigmas[-2] - self.sigmas[-1]
        return max(sigmas) <= self.sigmas[0] + first and min(sigmas) >= self.sigmas[-1] - last

    def at(self, sigmas: Sequence[float]) -> Matrix:
        """Returns the matrix for another schedule, interpolated linearly in both noise levels."""
        levels = np.array(self.sigmas[::-1])
        wanted = np.clip(np.asarray(sigmas, dtype=np.float64), levels[0], levels[-1])
        weights = np.zeros((len(wanted), len(levels)))
        right = np.clip(np.searchsorted(levels, wanted), 1, len(levels) - 1)
        share = (wanted - levels[right - 1]) / (levels[right] - levels[right - 1])
        rows = np.arange(len(wanted))
        weights[rows, right - 1], weights[rows, right] = 1 - share, share
        # An interpolation of both arguments by the same weights keeps the matrix positive semidefinite.
        matrix: Matrix = weights @ self.products[::-1, ::-1] @ weights.T
        return matrix

    def merge(self, other: Kernel) -> Kernel:
        """Averages with a kernel of another prompt, each run counting alike; the result has this one's schedule."""
        total = self.prompts + other.prompts
        products = (self.prompts * self.products + other.prompts * other.at(self.sigmas)) / total
        return Kernel.of(self.sigmas, products, prompts=total)
