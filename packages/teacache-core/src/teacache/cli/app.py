"""The typer application: which commands there are. Imports neither mlx, mflux nor rich."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from teacache.cli import (
    INTERRUPTED,
    USAGE,
    adapters,
    bench,
    calibrate,
    calibrations,
    check,
    compare,
    demo,
    doctor,
    run_mflux,
    say,
    scenario,
    sweep,
    tolerance,
    toy,
)
from teacache.cli.console import examples

# typer's own name for click's UsageError and ClickException, wherever click comes from.
_CLICK_ERROR: type[Exception] = typer.BadParameter.__mro__[2]

EXAMPLES = (
    "teacache demo",
    "teacache doctor",
    'teacache run --dry-run -- mflux-generate --model dev --prompt "a red fox"',
)

# Rich's help would take 0.2 s to import.
app = typer.Typer(name="teacache", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
app.command(epilog=examples(*demo.EXAMPLES))(demo.demo)
app.command(epilog=examples(*run_mflux.EXAMPLES), context_settings=run_mflux.SETTINGS)(run_mflux.run)
app.command(short_help="Compare plain, cached and fewer-step pictures.", epilog=examples(*compare.EXAMPLES))(
    compare.compare
)
app.command(epilog=examples(*adapters.EXAMPLES))(adapters.adapters)
app.command(epilog=examples(*check.EXAMPLES))(check.check)
app.command(short_help="Look at this machine and the adapters.", epilog=examples(*doctor.EXAMPLES))(doctor.doctor)
app.command(short_help="Say what moves a picture's bytes here.", epilog=examples(*scenario.EXAMPLES))(scenario.scenario)
app.command(epilog=examples(*calibrate.EXAMPLES))(calibrate.calibrate)
app.command(epilog=examples(*sweep.EXAMPLES))(sweep.sweep)
app.add_typer(calibrations.calibrations, name="calibrations", short_help="List, show, forget and export recordings.")
app.add_typer(tolerance.tolerance, name="tolerance")
app.add_typer(toy.toy, name="toy")
app.add_typer(bench.bench, name="bench")


@app.callback(invoke_without_command=True, epilog=examples(*EXAMPLES))
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """A step cache for diffusion models on MLX: reuses steps whose result is already known.

    From Python: with teacache.wrap(model): model.generate_image(...)
    """
    if version:
        from importlib.metadata import version as version_of

        typer.echo(f"teacache {version_of('teacache-core')}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run(arguments: Sequence[str] | None) -> int:
    """Runs one command and returns its exit code; a wrong usage is one line and 2."""
    try:
        code = _command().main(args=arguments, prog_name="teacache", standalone_mode=False)
    except _CLICK_ERROR as error:
        return _usage(error)
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    if code == INTERRUPTED:  # typer catches Ctrl-C and says nothing
        raise KeyboardInterrupt
    return code if isinstance(code, int) else 0


@functools.cache
def _command() -> Any:
    return typer.main.get_command(app)


def _usage(error: BaseException) -> int:
    context = getattr(error, "ctx", None)
    command = "teacache" if context is None else context.command_path
    message = error.format_message().rstrip(".")  # type: ignore[attr-defined]
    say(f"{message}. Try: {command} --help")
    return USAGE
