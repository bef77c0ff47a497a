"""What a value in a calibration file may be. Each check returns the value, or raises ValueError with what it expected.

Must not import mlx, mflux or pluggy.
"""

from __future__ import annotations

import sys
from typing import Any, Literal, cast, get_args

from teacache.calibration.model import Evidence, Status


def a_table(value: Any) -> dict[str, Any]:
    """A table."""
    if not isinstance(value, dict):
        raise ValueError("a table")
    return dict(value)


def text(value: Any) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text that is not empty")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts, one at least."""
    if not isinstance(value, list) or not value or not all(isinstance(item, str) and item.strip() for item in value):
        raise ValueError("a list of texts that are not empty")
    return tuple(value)


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def status(value: Any) -> Status:
    """One of the statuses of a calibration."""
    statuses: tuple[Status, ...] = get_args(Status)
    if value not in statuses:
        raise ValueError("one of " + ", ".join(statuses))
    return next(status for status in statuses if status == value)


def tokens(value: Any) -> Literal["target", "all"]:
    """Which tokens a signal holds."""
    if value == "target":
        return "target"
    if value == "all":
        return "all"
    raise ValueError("'target' or 'all'")


def count(value: Any) -> int:
    """A whole number from 0 up."""
    if type(value) is not int or value < 0:
        raise ValueError("a whole number from 0 up")
    return value


def positive(value: Any) -> int:
    """A whole number from 1 up."""
    if type(value) is not int or value < 1:
        raise ValueError("a whole number from 1 up")
    return value


def amount(value: Any) -> float:
    """A finite number from 0 up."""
    if not _finite(value) or value < 0:
        raise ValueError("a finite number from 0 up")
    return float(value)


def numbers(value: Any) -> tuple[float, ...]:
    """A list of finite numbers."""
    if not isinstance(value, list) or not all(map(_finite, value)):
        raise ValueError("a list of finite numbers")
    return tuple(map(float, value))


def five(value: Any) -> tuple[float, ...]:
    """The coefficients of a polynomial."""
    given = numbers(value)
    if len(given) != 5:
        raise ValueError("five finite numbers, highest power first")
    return given


def low_high(value: Any) -> tuple[float, float]:
    """A range of changes."""
    given = numbers(value)
    if len(given) != 2 or not 0 <= given[0] < given[1]:
        raise ValueError("two finite numbers from 0 up, the low end before the high one")
    return given[0], given[1]


def fact(value: Any) -> Evidence:
    """What evidence may hold."""
    if isinstance(value, str | bool) or _finite(value):
        return cast("str | bool | int | float", value)
    if isinstance(value, list):
        return tuple(map(fact, value))
    raise ValueError("texts, finite numbers, true, false and lists of them")


def _finite(value: Any) -> bool:
    """Tells whether a value is a number that a float can hold. A bool is no number, NaN neither."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max
