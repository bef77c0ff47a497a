"""`teacache doctor`: what works on this machine, and what to do about what does not."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from teacache.cli.console import quiet_libraries
from teacache.errors import TeaCacheError

if TYPE_CHECKING:
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
    from teacache.diagnosis import Finding
    from teacache.testing.models import find_model

    try:
        adapter, calibration, _ = find_model(name)
    except TeaCacheError as error:
        return [Finding(name=name, status="fault", says=str(error))]
    gate = calibration.gate
    if calibration.distilled:
        says = "distilled to a few steps: little or nothing will be reused"
    elif gate is None or gate.threshold is None:
        says = "no polynomial: its first picture is recorded, the later ones are planned"
    else:
        says = f"polynomial with threshold {gate.threshold:g} ({calibration.status})"
    return [
        Finding(
            name=name,
            status="ok",
            says=f"{calibration.checkpoint}, served by {adapter.name} ({', '.join(calibration.pipelines)}): {says}",
            remedy=f"To prove it with its weights: teacache check --model {name}, or teacache.wrap(..., verify=True)",
        )
    ]
