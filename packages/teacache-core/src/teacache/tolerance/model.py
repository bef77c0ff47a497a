"""What a tolerance is: bounds, the noise and the planted bugs that carry them, and when they do. Imports no mlx."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from teacache.calibration.model import Evidence
from teacache.distance import Distance
from teacache.errors import ToleranceError

LARGEST_MARGIN = 4.0
"""A bound lies just beside the measured noise: never further than this times the noise."""

FEWEST_RUNS = 4
"""Fewer runs are no distribution."""

Comparison: TypeAlias = Literal["same path", "across compile"]
"""Eager against eager and compiled against compiled; or one against the other."""

Status: TypeAlias = Literal["calibrated", "provisional"]

METRIC = "mean_abs"
"""What a bound is on: the mean absolute difference of the latents in the worst step.

The largest difference does not tell noise from bugs: mflux keeps latents in bfloat16, where one rounding that falls the
other way is as large as the smallest bug (measured on the Z-Image toy, compiled against eager: 0.0156 of noise, 0.031
of a previous timestep in the tail). Their means lie 20 times apart and more, for a bug moves every number.
"""

REMEDY = "Measure it again: teacache tolerance record"


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """What correct code measures.

    Attributes:
        comparison: what was compared.
        runs: how many pairs of runs.
        steps: for each step the worst over the runs.
        final: for each run the distance of the last latents.
    """

    comparison: Comparison
    runs: int
    steps: tuple[Distance, ...]
    final: tuple[Distance, ...]

    @property
    def largest(self) -> float:
        """The largest mean difference of any step of any run."""
        return max(step.mean_abs for step in self.steps)


@dataclass(frozen=True, kw_only=True, slots=True)
class Landing:
    """Where a planted bug lands.

    Attributes:
        bug: its name, see `teacache.testing.planted`.
        distance: worst step of the run with the bug against the same run without.
    """

    bug: str
    distance: Distance


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """How large the mean difference of the latents may be in any step.

    Attributes:
        comparison: what is compared.
        value: the bound on `METRIC`; 0.0 is bit-exact.
        margin: the bound over the measured noise; 1.0 where it is bit-exact.
    """

    comparison: Comparison
    value: float
    margin: float

    @property
    def exact(self) -> bool:
        """Every byte must be equal."""
        return self.value == 0.0

    def allows(self, measured: Distance) -> bool:
        """Tells whether a distance lies within the bound."""
        return measured.exact or (not self.exact and measured.mean_abs <= self.value)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tolerance:
    """One adapter's bounds and their evidence.

    Attributes:
        adapter: the adapter's name.
        status: "calibrated", or "provisional", which says in `missing` what is missing.
        evidence: where, when and on what it was measured.
        bounds: one for each comparison.
        noise: one for each comparison.
        bugs: the planted bugs that move latents.
        missing: what would make it "calibrated".
    """

    adapter: str
    status: Status
    evidence: Mapping[str, Evidence]
    bounds: tuple[Bound, ...]
    noise: tuple[Noise, ...]
    bugs: tuple[Landing, ...]
    missing: str | None = None

    def bound(self, comparison: Comparison) -> Bound | None:
        """Returns the bound for a comparison; None where the adapter has none."""
        return next((bound for bound in self.bounds if bound.comparison == comparison), None)

    @property
    def smallest_bug(self) -> Landing:
        """The planted bug that lands nearest to the noise."""
        return min(self.bugs, key=lambda landing: landing.distance.mean_abs)


def bound_for(noise: Noise, bugs: Sequence[Landing], *, margin: float = 2.0) -> Bound:
    """Sets a bound just beside the noise.

    Raises:
        ToleranceError: the noise reaches the smallest planted bug: the check must change, not the constant.
    """
    exact = noise.largest == 0.0
    bound = Bound(comparison=noise.comparison, value=noise.largest * margin, margin=1.0 if exact else margin)
    check_bound("measured now", bound, noise, bugs)
    return bound


def check(name: str, tolerance: Tolerance) -> None:
    """Refuses a bound that its evidence does not carry."""
    if tolerance.status == "provisional" and not tolerance.missing:
        raise ToleranceError(f"{name}: status is provisional, and missing does not say what is missing. {REMEDY}")
    for key in ("machine", "date", "mlx", "prompts", "seeds"):
        if key not in tolerance.evidence:
            raise ToleranceError(f"{name}: evidence.{key} is missing: a bound without evidence is none. {REMEDY}")
    if not tolerance.bounds:
        raise ToleranceError(f"{name}: there is no bound. {REMEDY}")
    for bound in tolerance.bounds:
        noise = next((noise for noise in tolerance.noise if noise.comparison == bound.comparison), None)
        if noise is None:
            raise ToleranceError(f"{name}: the bound for {bound.comparison!r} has no measured noise. {REMEDY}")
        check_bound(name, bound, noise, tolerance.bugs)


def check_bound(name: str, bound: Bound, noise: Noise, bugs: Sequence[Landing]) -> None:
    """Refuses a bound that does not lie just beside its noise and below the smallest planted bug."""
    if noise.runs < FEWEST_RUNS or len(noise.final) != noise.runs or not noise.steps:
        raise ToleranceError(
            f"{name}: {noise.comparison!r} was measured in {len(noise.final)} of {noise.runs} runs; expected "
            f"{FEWEST_RUNS} or more. {REMEDY}"
        )
    if not bugs:
        raise ToleranceError(f"{name}: no planted bug was measured, so nothing shows that the bound sees one. {REMEDY}")
    smallest = min(bugs, key=lambda landing: landing.distance.mean_abs)
    if not noise.largest <= bound.value < smallest.distance.mean_abs:
        raise ToleranceError(
            f"{name}: the bound {bound.value:g} for {bound.comparison!r} does not lie between the noise "
            f"({noise.largest:g}) and the smallest planted bug ({smallest.bug}: {smallest.distance.mean_abs:g}). "
            "Change the check, not the constant."
        )
    if not 1.0 <= bound.margin <= LARGEST_MARGIN or not math.isclose(
        bound.value, noise.largest * bound.margin, rel_tol=1e-9
    ):
        raise ToleranceError(
            f"{name}: the bound {bound.value:g} for {bound.comparison!r} is not the noise {noise.largest:g} times its "
            f"margin {bound.margin:g} (1 to {LARGEST_MARGIN:g}). {REMEDY}"
        )
