"""What the quality oracle may ask of a checkpoint: read from its calibration's evidence, never written by hand.

Imports neither mlx nor mflux.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from teacache.calibration.model import Calibration

AROUND_ONE = 1
"""Steps beside a single measured run: a published figure is one prompt's."""

AROUND_MEAN = 0.25
"""Share of a mean of reused steps that one prompt may lie beside it."""

MARGIN = 2.0
"""How much further from 1 than the worst measured SSIM a picture may be. A planted bug must lie beyond it: the quality
tests hold every toy to that."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """What `teacache.testing.oracles.quality` is asked for a checkpoint.

    Attributes:
        band: fewest and most reused steps.
        least_ssim: SSIM to the plain picture; None: no figure is known, so it is measured and not judged.
        options: of `wrap`; empty: the defaults, as a user has them.
        status: "measured" with teacache, "published" by others, or "by construction": the plan says how many.
        source: whose figures they are.
    """

    band: tuple[int, int]
    status: str
    source: str
    least_ssim: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def expected_of(calibration: Calibration, *, steps: int) -> Expected:
    """Returns what may be expected of a checkpoint at a number of steps.

    Inside the recipe of a calibrated gate: the reused steps of its evidence and its SSIM, with their margins. A
    distilled checkpoint: no reused step. Elsewhere nothing was measured, so a plan of every other step is asked for,
    and that as many are reused.
    """
    evidence, gate, recipe = calibration.evidence, calibration.gate, calibration.recipe
    source = str(evidence.get("source", "")).removeprefix("measured: ")
    if calibration.distilled:
        return Expected(band=(0, 0), status="published", source=source)
    if gate is not None and gate.threshold is not None and recipe is not None and recipe.steps == steps:
        swept = _swept(evidence, gate.threshold)
        if swept is not None:
            reused, worst = swept
            band = math.floor(reused * (1 - AROUND_MEAN)), math.ceil(reused * (1 + AROUND_MEAN))
            return Expected(band=_inside(band, steps), least_ssim=_below(worst), status="measured", source=source)
        published = _number(evidence, "reused")
        if published is not None:
            floor, ssim = _number(evidence, "ssim_floor"), _number(evidence, "ssim")
            return Expected(
                band=_inside((int(published) - AROUND_ONE, int(published) + AROUND_ONE), steps),
                least_ssim=floor if floor is not None else None if ssim is None else _below(ssim),
                status="published",
                source=source,
            )
    return by_construction(steps)


def by_construction(steps: int) -> Expected:
    """Returns what is certain without a measurement: a plan of every other step reuses the others."""
    computed = len({*range(0, steps, 2), steps - 1})
    return Expected(
        band=(steps - computed, steps - computed),
        options={"plan": range(0, steps, 2)},
        status="by construction",
        source="a plan of every other step: no figures are known for these settings",
    )


def _swept(evidence: Mapping[str, Any], threshold: float) -> tuple[float, float] | None:
    """The mean of reused steps and the worst SSIM that `teacache toy fit` measured at the threshold."""
    columns = [evidence.get(f"sweep_{name}") for name in ("threshold", "reused", "worst_ssim")]
    if any(not isinstance(column, tuple) for column in columns):
        return None
    rows = {row[0]: (float(row[1]), float(row[2])) for row in zip(*columns, strict=True)}
    return rows.get(threshold)


def _number(evidence: Mapping[str, Any], name: str) -> float | None:
    value = evidence.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _below(ssim: float) -> float:
    return round(1 - MARGIN * (1 - ssim), 4)


def _inside(band: tuple[int, int], steps: int) -> tuple[int, int]:
    """A cache that reuses nothing never passes; the first and the last step are always computed."""
    return max(1, band[0]), min(steps - 2, band[1])
