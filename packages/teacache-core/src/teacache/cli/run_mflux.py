"""`teacache run`: one of mflux's own commands, unchanged, with the cache. Heavy imports inside functions."""

from __future__ import annotations

from typing import Annotated

import typer

from teacache.cli.console import quiet_libraries, spoken_as_options
from teacache.errors import PlanError

EXAMPLES = (
    'teacache run -- mflux-generate-qwen --prompt "a red fox" --steps 50',
    'teacache run --speedup 2 -- mflux-generate-z-image --prompt "a red fox" --steps 50 --guidance 4',
    'teacache run --dry-run -- mflux-generate --model dev --prompt "a red fox"',
)

MOST_STEPS = 10_000

SETTINGS = {"ignore_unknown_options": False, "allow_interspersed_args": False}
"""What follows the name of mflux's command is its own, with and without `--` before it."""


def run(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="mflux's command and its options.")],
    speedup: Annotated[
        float | None, typer.Option(metavar="X", help="Compute that many times fewer steps, for example 2.")
    ] = None,
    computed_steps: Annotated[
        int | None, typer.Option("--computed-steps", metavar="N", help="The same wish as a number of steps.")
    ] = None,
    plan: Annotated[
        str | None, typer.Option(metavar="LIST", help="The computed steps themselves, for example 0,1,4,8-12.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(metavar="T", help="Of the gate; 0 is off. Default: the calibrated one.")
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Which checkpoint the weights are, where their name does not say so."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and load no weights.")] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Run a command that no adapter serves, without the cache.")
    ] = False,
) -> None:
    """Run a command of mflux, unchanged, with the cache.

    All options of the command work, and its exit code is kept. After each picture one line on stderr says how many
    steps were reused, or why none. A command that no adapter serves is refused before its weights are loaded.
    """
    from teacache.cli.run_work import Work
    from teacache.options import Options

    steps = None if plan is None else steps_of(plan)
    with spoken_as_options():
        options = Options(speedup=speedup, computed_steps=computed_steps, plan=steps, threshold=threshold)
        if dry_run:
            with quiet_libraries():
                lines = Work(command[0], command[1:], options, checkpoint=checkpoint).describe()
            typer.echo("\n".join(lines))
        else:
            Work(command[0], command[1:], options, checkpoint=checkpoint).run(anyway=anyway)


def steps_of(text: str) -> list[int]:
    """Reads a list of steps: numbers and ranges with both ends, with commas between.

    Raises:
        PlanError: it is no such list.
    """
    steps: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            steps += _range(int(first), int(last)) if dash else [int(first)]
    except ValueError as error:
        raise PlanError(f"--plan {text} was given; expected steps with commas between, as in 0,1,4,8-12.") from error
    return steps


def _range(first: int, last: int) -> range:
    if not 0 <= last - first <= MOST_STEPS:
        raise ValueError(f"{first}-{last}")
    return range(first, last + 1)
