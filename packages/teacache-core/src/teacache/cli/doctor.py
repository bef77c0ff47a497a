"""`teacache doctor`: what works on this machine, and what to do about what does not."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from teacache.cli.console import quiet_libraries
from teacache.errors import TeaCacheError

if TYPE_CHECKING:
    from teacache.calibration import Calibration
    from teacache.diagnosis import Finding

EXAMPLES = ("teacache doctor", "teacache doctor --model dev", "teacache doctor --json")

MARKS = {"ok": "ok", "note": "note", "fault": "FAULT"}


def doctor(
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Say what would serve this model, by mflux's name.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
) -> None:
    """Look at this machine: MLX, its compiler, mflux, the adapters and their numbers.

    Nothing is downloaded and no model is loaded. The exit code is 1 if no model can be wrapped here; a broken adapter
    is named, and leaves it 0 as long as everything else works.
    """
    from teacache.diagnosis import diagnose

    with quiet_libraries():
        findings = diagnose()
        if model is not None:
            findings += _model(model)
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        wide = max(len(finding.name) for finding in findings)
        for finding in findings:
            typer.echo(f"{MARKS[finding.status]:<5}  {finding.name:<{wide}}  {finding.says}")
            if finding.remedy:
                typer.echo(f"{'':<5}  {'':<{wide}}  {finding.remedy}")
    if any(finding.status == "fault" and not finding.plugin for finding in findings):
        raise typer.Exit(1)


def _model(name: str) -> list[Finding]:
    """What would serve a model, and how to prove it with its weights."""
    from teacache.calibration import shipped_calibrations
    from teacache.diagnosis import Finding
    from teacache.hosts import names_from_config
    from teacache.identity import identify
    from teacache.testing.models import find_model

    try:
        adapter, calibration, config = find_model(name)
    except TeaCacheError as error:
        return [Finding(name=name, status="fault", says=str(error))]
    level = identify(names_from_config(config), shipped_calibrations(adapter.calibrations)).level
    served = f"served by {adapter.name} ({', '.join(calibration.pipelines)})"
    if level == "exact":
        says = f"{calibration.checkpoint}, {served}: {_default(calibration)}"
    else:
        says = (
            f"{config.model_name}, {served}: it derives from {calibration.checkpoint}, whose numbers are not used by "
            "themselves; its first picture is recorded, the later ones are planned"
        )
    remedy = f"To prove it with its weights: teacache check --model {name}, or teacache.wrap(..., verify=True)"
    return [Finding(name=name, status="ok", says=says, remedy=remedy)]


def _default(calibration: Calibration) -> str:
    """What `wrap` does with this very checkpoint where nothing is asked for."""
    gate, recipe = calibration.gate, calibration.recipe
    if calibration.distilled:
        return "distilled to a few steps: little or nothing will be reused"
    if gate is None or gate.threshold is None or recipe is None:
        return "no polynomial: its first picture is recorded, the later ones are planned"
    steps = [n for n in range(1, 2 * recipe.steps) if 5 * abs(n - recipe.steps) <= recipe.steps]
    guidance = "on" if recipe.guidance > 1 else "off"
    return (
        f"polynomial with threshold {gate.threshold:g} ({calibration.status}) at {steps[0]} to {steps[-1]} steps with "
        f"guidance {guidance}; elsewhere its first picture is recorded, the later ones are planned"
    )
