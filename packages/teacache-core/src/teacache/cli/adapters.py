"""`teacache adapters`: what is installed, and whether it works."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from teacache.cli.console import console

if TYPE_CHECKING:
    from rich.table import Table

    from teacache.plugins import InstalledAdapter

EXAMPLES = ("teacache adapters", "teacache adapters --json")


def adapters(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the installed adapters.

    Shows for each its package and version, the pipelines that it serves, and whether it works or why not.
    """
    from teacache.plugins import adapters as installed

    rows = installed()
    if as_json:
        typer.echo(json.dumps([_plain(row) for row in rows], indent=2))
    elif rows:
        console().print(_table(rows))
    else:
        typer.echo(
            "No adapter is installed. For FLUX.2 Klein: pip install teacache-flux2, or in a clone: "
            "uv pip install -e packages/teacache-flux2"
        )


def _plain(row: InstalledAdapter) -> dict[str, Any]:
    pipelines = [] if row.adapter is None else row.adapter.pipelines
    return {
        "name": row.name,
        "package": row.package,
        "version": row.version,
        "pipelines": [{"class": pipeline.name, "makes": pipeline.summary} for pipeline in pipelines],
        "contract": None if row.adapter is None else row.adapter.contract,
        "status": row.status,
        "reason": row.reason,
    }


def _table(rows: tuple[InstalledAdapter, ...]) -> Table:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("adapter", "package", "pipelines", "contract", "status"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        pipelines = "" if row.adapter is None else ", ".join(pipeline.name for pipeline in row.adapter.pipelines)
        colour = {"working": "green", "disabled": "yellow"}.get(row.status, "red")
        status = f"[{colour}]{row.status}[/]" + (f": {escape(row.reason)}" if row.reason else "")
        contract = "" if row.adapter is None else str(row.adapter.contract)
        table.add_row(escape(row.name), escape(f"{row.package} {row.version}"), escape(pipelines), contract, status)
    return table
