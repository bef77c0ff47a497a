"""Tells beforehand what `wrap` would find. Needs no weights; imports neither mlx nor mflux."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from teacache.adapter import Adapter, Pipeline
from teacache.calibration import Calibration, shipped_calibrations
from teacache.errors import AdapterNotInstalledError, UnknownModelError, UnsupportedPipelineError
from teacache.hosts import names_from_config
from teacache.identity import Level, identify


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """What `wrap` would find.

    Attributes:
        family: the family's name, as in ``adapter="flux2"``.
        adapter: name of the distribution that serves it; None for an adapter that no distribution brought.
        checkpoint: the checkpoint; the model's own name where it is unknown.
        identity: how surely, see `teacache.identity.Identity`.
        calibrated: a polynomial for this checkpoint and pipeline would be used, inside its recipe.
        distilled: the checkpoint is made for a few steps.
    """

    family: str
    adapter: str | None
    checkpoint: str | None
    identity: Level
    calibrated: bool
    distilled: bool


def supports(model_config: Any, pipeline_class: type) -> Support | None:
    """Tells whether and how a model would be served, before its weights are loaded.

    Args:
        model_config: mflux's `ModelConfig`, or anything with `model_name` and `base_model`.
        pipeline_class: the class that would be wrapped.

    Returns:
        What `wrap` would find; None where no installed adapter serves the class.
    """
    from teacache.plugins import adapters, find_adapter

    try:
        adapter, pipeline = find_adapter(pipeline_class)
    except (UnknownModelError, AdapterNotInstalledError, UnsupportedPipelineError):
        return None
    found = identify(names_from_config(model_config), shipped_calibrations(adapter.calibrations))
    known = found.calibration
    return Support(
        family=adapter.name,
        adapter=next((entry.package for entry in adapters() if entry.adapter is adapter), None),
        checkpoint=found.checkpoint,
        identity=found.level,
        calibrated=found.level == "exact" and known is not None and _usable(known, adapter, pipeline),
        distilled=known is not None and known.distilled,
    )


def _usable(known: Calibration, adapter: Adapter, pipeline: Pipeline) -> bool:
    """Whether the polynomial would be used inside its own recipe."""
    if known.gate is None or known.gate.threshold is None or known.recipe is None:
        return False
    mismatch = known.mismatch(
        pipeline=pipeline.name,
        signal_tensor=adapter.signal.tensor,
        signal_tokens=adapter.signal.tokens,
        steps=known.recipe.steps,
        guidance=known.recipe.guidance,
    )
    return mismatch is None
