"""Tolerances: the bounds of an adapter's oracles, each with the evidence that carries it. Imports no mlx, no mflux.

A bound is never written by hand: `teacache tolerance record` measures noise and planted bugs, and sets it between.
"""

from teacache.tolerance.files import (
    SCHEMA,
    digest,
    dump_tolerance,
    load_tolerance,
    parse_tolerance,
    save_tolerance,
)
from teacache.tolerance.model import (
    FEWEST_RUNS,
    LARGEST_MARGIN,
    METRIC,
    Bound,
    Comparison,
    Landing,
    Noise,
    Status,
    Tolerance,
    bound_for,
)

__all__ = [
    "FEWEST_RUNS",
    "LARGEST_MARGIN",
    "METRIC",
    "SCHEMA",
    "Bound",
    "Comparison",
    "Landing",
    "Noise",
    "Status",
    "Tolerance",
    "bound_for",
    "digest",
    "dump_tolerance",
    "load_tolerance",
    "parse_tolerance",
    "save_tolerance",
]
