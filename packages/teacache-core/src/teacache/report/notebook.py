"""What notebooks show of stats, handles and adapters: small HTML without scripts or styles of its own.

Imports neither mlx nor mflux.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from teacache.stats import RunStats, StepRecord

COMPUTED, REUSED = "#265494", "#cddef3"


def run_html(run: RunStats) -> str:
    """One run: what was reused, and one cell for each step. A cell's title has the step's reason."""
    return f"<div><div>{escape(str(run))}</div><div>{''.join(map(_cell, run.records))}</div></div>"


def runs_html(runs: Sequence[RunStats]) -> str:
    """Several runs, the last one first."""
    if not runs:
        return "<div>no run has finished yet</div>"
    return "".join(map(run_html, reversed(runs)))


def table_html(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def table_text(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts in lines, its columns as wide as they need."""
    cells = [list(headings), *map(list, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
                     for row in cells)  # fmt: skip


def _cell(record: StepRecord) -> str:
    colour = REUSED if record.action == "reuse" else COMPUTED
    title = escape(f"step {record.step}: {record.action} ({record.reason})", quote=True)
    return (
        f'<span title="{title}" style="display:inline-block;width:0.6em;height:1em;margin-right:1px;'
        f'background:{colour}"></span>'
    )
