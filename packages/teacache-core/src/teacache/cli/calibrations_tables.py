"""The tables of `teacache calibrations`. Imports rich inside functions only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from teacache.cli.console import console
from teacache.errors import KernelError

if TYPE_CHECKING:
    from rich.table import Table

    from teacache.store import Recording

Row = tuple[Path, "Recording | KernelError"]
Sound = tuple[Path, "Recording"]


def print_list(rows: list[Row]) -> None:
    """One line a recording where the terminal is wide enough for its names, else one recording below another."""
    from rich.markup import escape
    from rich.measure import Measurement

    sound = [(path, found) for path, found in rows if not isinstance(found, KernelError)]
    screen, table = console(), _table(sound)
    if Measurement.get(screen, screen.options.update(max_width=10_000), table).maximum > screen.width:
        table = _narrow_table(sound)
    if sound:
        screen.print(table)
    for path, found in rows:
        if isinstance(found, KernelError):
            screen.print(f"[red]damaged[/]: {escape(path.name)}: {escape(str(found))}")


def _table(rows: list[Sound]) -> Table:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("checkpoint", "identity", "pipeline", "guidance", "steps", "date", "file"):
        table.add_column(heading, overflow="fold")
    for path, recording in rows:
        key = recording.key
        cells = (key.checkpoint or "unknown", key.level, key.pipeline, *_recorded(recording))
        table.add_row(*map(escape, cells), escape(path.name))
    return table


def _narrow_table(rows: list[Sound]) -> Table:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_lines=False)
    table.add_column("file", no_wrap=True)
    table.add_column("recording", overflow="fold")
    beginnings = _beginnings([path.name for path, _ in rows])
    for beginning, (_, recording) in zip(beginnings, rows, strict=True):
        key = recording.key
        guidance, steps, date = _recorded(recording)
        lines = (
            f"{key.checkpoint or 'unknown'} ({key.level})",
            ", ".join(filter(None, (key.pipeline, f"guidance {guidance}", f"{steps} steps", date))),
        )
        table.add_row(escape(beginning), escape("\n".join(lines)))
    return table


def _recorded(recording: Recording) -> tuple[str, str, str]:
    """Guidance, steps and date."""
    evidence = recording.evidence
    guidance = evidence.get("guidance", "on") if recording.key.guidance else "off"
    return (
        _short(guidance),
        _short(evidence.get("steps", len(recording.kernel.sigmas))),
        _short(evidence.get("date", "")),
    )


def _beginnings(names: list[str], least: int = 8) -> list[str]:
    """As much of each name as tells it from the others, which is what the other commands take."""
    length = least
    while len({name[:length] for name in names}) < len(names):
        length += 1
    return [name[:length] for name in names]


def print_facts(path: Path, facts: dict[str, Any]) -> None:
    """Everything about one recording, and what is planned from it."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=False)
    plans = facts.pop("plans")
    for key, value in ({"file": str(path)} | facts.pop("key") | facts.pop("evidence") | facts).items():
        table.add_row(escape(key.replace("_", " ")), escape(_short(value)))
    console().print(table)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("speedup", "computed", "expected error", "computed steps"):
        table.add_column(heading, justify="left" if heading == "computed steps" else "right", overflow="fold")
    for plan in plans:
        steps = " ".join(map(str, plan["computed_steps"]))
        table.add_row(f"{plan['speedup']:g}x", str(plan["computed"]), f"{plan['expected_error']:.2%}", steps)
    console().print(table)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
