"""`teacache calibrations`: the recordings of the user's own models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from teacache.cli.calibrations_tables import Row, print_facts, print_list
from teacache.cli.console import examples
from teacache.cli.files import check_path, write_text
from teacache.errors import KernelError, OptionError

if TYPE_CHECKING:
    from teacache.store import Recording

SPEEDS = (1.5, 2.0, 3.0, 4.0)

calibrations = typer.Typer(rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The beginning of a file name, or a checkpoint.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@calibrations.callback(invoke_without_command=True, epilog=examples("teacache calibrations list"))
def root(context: typer.Context) -> None:
    """List, show, forget and export the recordings of your own models.

    The first picture of a model is recorded, and later ones are planned from it. The recordings are small files in
    your data folder, or in TEACACHE_DATA.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@calibrations.command("list", epilog=examples("teacache calibrations list", "teacache calibrations list --json"))
def list_(as_json: AsJson = False) -> None:
    """List the recordings, damaged ones with the reason."""
    folder, rows = _rows()
    if as_json:
        typer.echo(json.dumps([_plain(row) for row in rows], indent=2))
    elif rows:
        print_list(rows)
        typer.echo(f"In {folder}")
    else:
        typer.echo(
            f"There is no recording in {folder}. The first picture of a model wrapped with "
            "teacache.wrap(model, speedup=2.0) makes one."
        )


@calibrations.command(
    short_help="Show one recording and what is planned from it.", epilog=examples("teacache calibrations show 3fa9")
)
def show(name: Name, as_json: AsJson = False) -> None:
    """Show one recording: what it belongs to, its evidence, and what is planned from it."""
    path, recording = _one(name)
    facts = _facts(recording)
    if as_json:
        typer.echo(json.dumps({"file": str(path), **facts}, indent=2))
        return
    print_facts(path, facts)


@calibrations.command(
    short_help="Forget recordings: they are made again.",
    epilog=examples("teacache calibrations forget 3fa9", "teacache calibrations forget --all"),
)
def forget(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The beginning of a file name, or a checkpoint.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Forget every recording, damaged ones too.")] = False,
) -> None:
    """Forget recordings: the next picture of their models is recorded again."""
    if (name is None) is not everything:
        raise OptionError(
            "Give the NAME of what to forget, or --all, not both. `teacache calibrations list` has the names."
        )
    rows = _rows()[1] if name is None else _matching(name)
    for path, _ in rows:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise OptionError(f"{path} cannot be removed ({error}). Give yourself the right to write there.") from error
        typer.echo(f"forgotten: {path.name}")
    if not rows:
        typer.echo("There was no recording.")


@calibrations.command(epilog=examples("teacache calibrations export 3fa9 --out recording.json"))
def export(
    name: Name,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write it.")],
) -> None:
    """Write one recording to another place, as JSON. It goes into TEACACHE_DATA/recordings elsewhere, name and all."""
    check_path(out, "--out")
    path, recording = _one(name)
    write_text(out, recording.to_json())
    typer.echo(f"{path.name}: {out}")


def _rows() -> tuple[Path, list[Row]]:
    from teacache.store import Store

    store = Store()
    try:
        return store.folder, list(store.all())
    except OSError as error:
        raise OptionError(
            f"The recordings in {store.folder} cannot be read ({error}). Set TEACACHE_DATA to a folder that can be."
        ) from error


def _matching(name: str) -> list[Row]:
    """The recordings that a name means: the beginning of a file name, or the whole name of a checkpoint.

    Raises:
        OptionError: there is none.
    """
    folder, rows = _rows()
    found = [row for row in rows if name and (row[0].name.startswith(name) or _checkpoint(row[1]) == name.casefold())]
    if not found:
        raise OptionError(
            f"No recording in {folder} is named {name!r}, by file name or checkpoint. "
            "`teacache calibrations list` shows them."
        )
    return found


def _checkpoint(row: Recording | KernelError) -> str | None:
    return None if isinstance(row, KernelError) else str(row.key.checkpoint).casefold()


def _one(name: str) -> tuple[Path, Recording]:
    """The one sound recording that a name means.

    Raises:
        OptionError: there is none, or several.
        KernelError: it is damaged.
    """
    found = _matching(name)
    if len(found) > 1:
        names = ", ".join(path.name for path, _ in found)
        raise OptionError(f"{name!r} means {len(found)} recordings: {names}. Give more of the file name.")
    path, recording = found[0]
    if isinstance(recording, KernelError):
        raise KernelError(f"{path} is damaged: {recording} Run: teacache calibrations forget {path.stem}")
    return path, recording


def _plain(row: Row) -> dict[str, Any]:
    path, recording = row
    if isinstance(recording, KernelError):
        return {"file": str(path), "damaged": str(recording)}
    facts = _facts(recording, speeds=())
    del facts["plans"]
    return {"file": str(path), "damaged": None, **facts}


def _facts(recording: Recording, speeds: tuple[float, ...] = SPEEDS) -> dict[str, Any]:
    from dataclasses import asdict

    from teacache.policies.plan import fewest_computed, plan_from_kernel

    kernel = recording.kernel
    steps = len(kernel.sigmas)
    counts = {speed: max(int(steps / speed), fewest_computed(steps, 8)) for speed in speeds}
    plans = [
        (speed, plan_from_kernel(kernel.products, (*kernel.sigmas, 0.0), computed_steps=count))
        for speed, count in counts.items()
    ]
    return {
        "key": asdict(recording.key),
        "noise_levels": steps,
        "first_sigma": kernel.sigmas[0],
        "last_sigma": kernel.sigmas[-1],
        "prompts": kernel.prompts,
        "evidence": recording.evidence,
        "plans": [
            {
                "speedup": speed,
                "computed": len(plan.computed),
                "expected_error": plan.expected_error,
                "computed_steps": plan.computed,
            }
            for speed, plan in plans
        ],
    }
