"""`teacache scenario`: which circumstances move the bytes of a picture on this machine."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from teacache.cli.console import progress, quiet_libraries

EXAMPLES = ("teacache scenario", "teacache scenario zimage", "teacache scenario --model dev --quantize 4 --steps 8")


def scenario(
    family: Annotated[str, typer.Argument(metavar="[FAMILY]", help="Whose toy.")] = "flux2",
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Real weights, by mflux's name.")] = None,
    quantize: Annotated[int | None, typer.Option(metavar="BITS", help="Of the real weights.")] = None,
    steps: Annotated[int, typer.Option(min=6, metavar="N", help="Steps of the picture.")] = 6,
    size: Annotated[int, typer.Option(min=64, metavar="PIXELS", help="Side of the picture, with --model.")] = 512,
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Processes at a time. Default: 2; 1 with --model.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Draw one picture in fresh processes that differ in exactly one thing.

    Prints the hash of the last latents for each and says which of the things moves the bytes here. A stored hash of a
    picture records all of these, not the mathematics alone: no check of teacache compares with one. On the toy it takes
    half a minute on two cores.
    """
    with quiet_libraries(), progress() as bar:
        from teacache.plugins import get_adapter
        from teacache.testing.scenario import VARIABLES, Picture, moved, probe

        if model is None:
            get_adapter(family)  # else every process would find out by itself
        task = bar.add_task("drawing", total=len(VARIABLES))
        picture = Picture(family=family, steps=steps, model=model, quantize=quantize, size=size)
        jobs = jobs or (2 if model is None else 1)  # two sets of real weights may not fit into memory
        rows = probe(picture, jobs=jobs, advance=lambda variable: bar.update(task, description=variable, advance=1))
    differs = moved(rows)
    if as_json:
        listed = [
            {"variable": row.variable, "sha256": row.digest, "moves": differs.get(row.variable), "error": row.error}
            for row in rows
        ]
        typer.echo(json.dumps(listed, indent=2))
        return
    wide = max(map(len, VARIABLES))
    for row in rows:
        says = "moves the bytes" if differs.get(row.variable) else row.error
        typer.echo(f"{row.variable:<{wide}}  {row.digest[:16]:<16}  {says}".rstrip())
    movers = [name for name, differing in differs.items() if differing]
    typer.echo(f"On this machine the bytes are moved by: {', '.join(movers) or 'none of these'}.")
