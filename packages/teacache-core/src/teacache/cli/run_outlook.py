"""What the cache would do with a pipeline that is about to be built, and what would help. Loads no weights."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from teacache.calibration import Calibration, shipped_calibrations
from teacache.cli.console import as_options
from teacache.hosts.building import Build
from teacache.hosts.scripts import PREFIX, Script, script_modules
from teacache.options import Options
from teacache.plugins import adapters, find_adapter

if TYPE_CHECKING:
    from teacache.adapter import Adapter, Pipeline
    from teacache.identity import Identity
    from teacache.selection import Selection

STEPS = 50
"""How many steps are worth asking for, where a checkpoint's recipe does not say."""

FEW_STEPS = 20
"""Up to so many steps little can be saved. Some of mflux's defaults are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What would be done.

    Attributes:
        pipeline: class name.
        adapter: its adapter, with package and version.
        checkpoint: what the weights are, and how surely.
        calibration: the numbers that are known of it.
        policy: what would be done.
        advice: what leaves little to save, with the option that would help.
    """

    pipeline: str
    adapter: str
    checkpoint: str
    calibration: str
    policy: str
    advice: tuple[str, ...]

    def lines(self, command: str) -> list[str]:
        """The outlook as lines of text."""
        return [
            f"command      {command} ({self.pipeline})",
            f"adapter      {self.adapter}",
            f"checkpoint   {self.checkpoint}",
            f"calibration  {self.calibration}",
            f"policy       {self.policy}",
            *(f"note         {line}" for line in self.advice),
        ]


def outlook(build: Build, script: Script, options: Options, *, checkpoint: str | None) -> Outlook:
    """Looks ahead.

    Args:
        build: the pipeline.
        script: whose.
        options: what was asked of the cache.
        checkpoint: the user's word on which weights they are.

    Raises:
        TeaCacheError: no adapter serves the pipeline, or the checkpoint is not known to it.
    """
    from teacache.selection import Selection

    adapter, pipeline = find_adapter(build.cls)
    selection = Selection.of(
        adapter, pipeline, build.names, options, checkpoint=checkpoint, fingerprint=lambda: "weights not loaded"
    )
    return Outlook(
        pipeline=build.cls.__name__,
        adapter=_installed(adapter),
        checkpoint=_weights(build, selection.identity),
        calibration=_numbers(selection.identity, pipeline),
        policy=as_options(_policy(build, selection)),
        advice=tuple(_advice(build, script, selection)),
    )


def _installed(adapter: Adapter) -> str:
    row = next(row for row in adapters() if row.adapter is adapter)
    return f"{adapter.name} ({row.package} {row.version})"


def _weights(build: Build, identity: Identity) -> str:
    parts = [f"{identity.checkpoint or 'unknown'} ({identity.level})"]
    if build.model_path not in (None, identity.checkpoint):
        parts.append(f"from {build.model_path}")
    if build.quantize is not None:
        parts.append(f"{build.quantize} bit")
    if build.lora_paths:
        parts.append(f"LoRA {', '.join(build.lora_paths)}")
    return ", ".join(parts)


def _numbers(identity: Identity, pipeline: Pipeline) -> str:
    known = identity.calibration
    if known is None:
        return "none"
    if known.distilled:
        return f"{known.checkpoint}: distilled to a few steps"
    if known.gate is None or known.recipe is None:
        return f"{known.checkpoint}: no polynomial"
    recipe = f"{known.recipe.steps} steps, guidance {known.recipe.guidance:g}"
    used = "" if identity.level == "exact" else "; not used, the weights are only declared to be its"
    if pipeline.name not in known.pipelines:
        used = f"; not used, it holds for {', '.join(known.pipelines)}"
    return f"{known.checkpoint}: polynomial for {recipe} ({known.status}){used}"


def _policy(build: Build, selection: Selection) -> str:
    """What would be done in a run with the steps and the guidance that were asked for."""
    from teacache.run import RunInfo

    steps = build.steps or STEPS
    info = RunInfo(
        sigmas=tuple(1 - step / steps for step in range(steps + 1)),
        guidance=build.guidance,
        carries_velocity=build.carries_velocity,
    )
    choice = selection.choose(info)
    said = " ".join(map(str, choice.warnings))
    if choice.on_success is None:
        return f"{choice.summary}. {said}".rstrip(". ") if said else choice.summary
    later = said.rpartition("Later ones ")[2] or f"compute fewer of {steps} steps."
    first = f"would record the first picture, computed in full; later ones {later}"
    stored = sum(1 for _ in _recordings(selection, guidance=info.guidance is not None and info.guidance > 1))
    if stored:
        first += f" Or plan at once, if the weights are those of one of {stored} recordings of this checkpoint."
    return first


def _recordings(selection: Selection, *, guidance: bool) -> Iterator[str]:
    """The recordings that may be of these weights: which they are of, only the weights tell."""
    from teacache.store import Recording, Store

    identity = selection.identity
    wanted = (identity.checkpoint, identity.level, selection.pipeline.name, guidance)
    for path, found in Store().all():
        if isinstance(found, Recording):
            key = found.key
            if (key.checkpoint, key.level, key.pipeline, key.guidance) == wanted:
                yield path.name


def _advice(build: Build, script: Script, selection: Selection) -> Iterator[str]:
    if selection.options.off:
        return
    known, steps = selection.identity.calibration, build.steps
    if known is not None and known.distilled:
        yield (
            f"{known.checkpoint} is distilled to a few steps, each of which changes much: little or nothing can be "
            f"saved.{_instead(known, script, selection.adapter, selection.pipeline)}"
        )
        return
    usable = known is not None and selection.options.wants_polynomial and selection.pipeline.name in known.pipelines
    recipe = known.recipe if known is not None and usable else None
    worth = recipe.steps if recipe is not None else STEPS
    if steps is not None and steps <= FEW_STEPS:
        yield f"in {steps} steps each one changes much, and little can be saved. What would help: --steps {worth}"
    elif recipe is not None and steps is not None and 5 * abs(steps - recipe.steps) > recipe.steps:
        yield f"the calibrated gate holds for {recipe.steps} steps. To use it: --steps {recipe.steps}"
    if recipe is not None and (recipe.guidance > 1) != ((build.guidance or 0) > 1):
        yield f"the calibrated gate holds for guidance {recipe.guidance:g}. To use it: --guidance {recipe.guidance:g}"
    if selection.identity.level == "declared" and recipe is not None:
        yield (
            f"the weights are only declared to be {selection.identity.checkpoint}'s, so its numbers are not used. "
            f"If they fit: teacache run --checkpoint {selection.identity.checkpoint}"
        )


def _instead(distilled: Calibration, script: Script, adapter: Adapter, pipeline: Pipeline) -> str:
    """The checkpoint that gains, of those that the pipeline runs: the one named most alike."""
    others = [
        one
        for one in shipped_calibrations(adapter.calibrations)
        if not one.distilled and one.aliases and pipeline.name in one.pipelines
    ]
    if not others:
        return ""
    best = max(others, key=lambda one: difflib.SequenceMatcher(None, one.checkpoint, distilled.checkpoint).ratio())
    steps = best.recipe.steps if best.recipe is not None else STEPS
    name = best.aliases[0]
    if script.takes(name):
        return f" What would help: --model {name} --steps {steps}"
    if f"{PREFIX}-{name}" in script_modules():
        return f" What would help: {PREFIX}-{name} --steps {steps}"
    return f" What would help: {best.checkpoint} at {steps} steps"
