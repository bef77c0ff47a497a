"""Checks of what a user may set on a policy. Must not import mlx, mflux or pluggy."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

from teacache.errors import CoefficientsError, OptionError, ThresholdError


def finite(value: Any) -> float | None:
    """Returns a finite number (numpy scalars included) as a float, None for anything else. A bool is no number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _listed(value: Any) -> list[Any] | None:
    """Returns the items of a collection, None for text and for what has no items."""
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes) else None


def validate_threshold(threshold: Any) -> float:
    """Returns the threshold as a float.

    Raises:
        ThresholdError: it is not a finite number from 0 up.
    """
    number = finite(threshold)
    if number is None or number < 0:
        raise ThresholdError(
            f"threshold={threshold!r}: expected a finite number from 0 up (0: off, bit-exact). "
            "Try threshold=0.1; a higher one reuses more steps and changes the picture more."
        )
    return number


def validate_coefficients(coefficients: Any) -> tuple[float, ...]:
    """Returns the polynomial as five floats, highest power first.

    Raises:
        CoefficientsError: they are not five finite numbers.
    """
    given = _listed(coefficients)
    numbers = [finite(value) for value in given or ()]
    if len(numbers) != 5 or None in numbers:
        raise CoefficientsError(
            f"coefficients={coefficients!r}: expected five finite numbers, highest power first (x^4 ... x^0). "
            "Leave them out to use the checkpoint's own."
        )
    return tuple(number for number in numbers if number is not None)


def validate_range(calibrated_range: Any) -> tuple[float, float] | None:
    """Returns the fitted range of the signal change as (low, high), or None where it is unknown.

    Raises:
        OptionError: it is neither None nor two finite numbers with low below high.
    """
    if calibrated_range is None:
        return None
    numbers = [finite(value) for value in _listed(calibrated_range) or ()]
    if len(numbers) == 2 and numbers[0] is not None and numbers[1] is not None and numbers[0] < numbers[1]:
        return numbers[0], numbers[1]
    raise OptionError(
        f"calibrated_range={calibrated_range!r}: expected (low, high), two finite numbers with low below high, "
        "or None where it is unknown. Give the smallest and the largest signal change of the fit."
    )


def validate_options(*, warmup: Any, cooldown: Any, max_reuse: Any) -> tuple[int, int, int]:
    """Returns warmup, cooldown and max_reuse as ints.

    Raises:
        OptionError: one of them is not a whole number from 0 up.
    """
    return (
        _count("warmup", warmup, "the number of first steps that are always computed (1 by default)"),
        _count("cooldown", cooldown, "the number of last steps that are always computed (1 by default)"),
        _count("max_reuse", max_reuse, "how many steps in a row may be reused (8 by default; 0: none)"),
    )


def _count(name: str, value: Any, meaning: str) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 0:
        raise OptionError(f"{name}={value!r}: expected a whole number from 0 up. Give {meaning}.")
    return int(value)
