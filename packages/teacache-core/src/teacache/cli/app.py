"""The typer application: which commands there are. Imports neither mlx, mflux nor rich."""

from __future__ import annotations

import functools
import importlib
from collections.abc import MutableMapping, Sequence
from typing import Annotated, Any

import typer

from teacache.cli import INTERRUPTED, USAGE, say
from teacache.cli.console import examples

# typer's own name for click's UsageError and ClickException, wherever click comes from.
_CLICK_ERROR: type[Exception] = typer.BadParameter.__mro__[2]

EXAMPLES = (
    "teacache demo",
    "teacache doctor",
    'teacache run --dry-run -- mflux-generate --model dev --prompt "a red fox"',
)

COMMANDS = {  # module of teacache.cli, what of it, and what the list says
    "demo": ("demo", "demo", "Draw pictures with and without the cache."),
    "run": ("run_mflux", "run", "Run a command of mflux, unchanged, with the cache."),
    "compare": ("compare", "compare", "Compare plain, cached and fewer-step pictures."),
    "adapters": ("adapters", "adapters", "List the installed adapters."),
    "check": ("check", "check", "Ask whether the cache tells the truth on this machine."),
    "doctor": ("doctor", "doctor", "Look at this machine and the adapters."),
    "scenario": ("scenario", "scenario", "Say what moves a picture's bytes here."),
    "calibrate": ("calibrate", "calibrate", "Measure a model: polynomial, change curve and kernel."),
    "sweep": ("sweep", "sweep", "Try thresholds and speedups on the same pictures."),
    "calibrations": ("calibrations", "calibrations", "List, show, forget and export recordings."),
    "tolerance": ("tolerance", "tolerance", "Measure the bounds of the oracles, with their evidence."),
    "toy": ("toy", "toy", "Train and calibrate the toys."),
    "bench": ("bench", "bench", "Run the benchmarks behind the documentation's tables."),
}


class Commands(typer.core.TyperGroup):
    """Imports a command when it is asked for: all of them would take half as long again as typer itself."""

    @property
    def commands(self) -> MutableMapping[str, Any]:
        """All commands, imported."""
        return {name: _load(name) for name in COMMANDS}

    @commands.setter
    def commands(self, _: MutableMapping[str, Any]) -> None:
        """Typer sets what was registered: nothing is."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, in the order of the list."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One of them; None where there is none of that name."""
        return _load(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the list of commands, from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, says) for name, (_, _, says) in COMMANDS.items()])


@functools.cache
def _load(name: str) -> Any:
    """Imports one command and gives it to typer."""
    module_name, attribute, _ = COMMANDS[name]
    module = importlib.import_module(f"teacache.cli.{module_name}")
    found = getattr(module, attribute)
    if not isinstance(found, typer.Typer):
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        settings = getattr(module, "SETTINGS", None)
        single.command(name=name, epilog=examples(*module.EXAMPLES), context_settings=settings)(found)
        found = single
    command = typer.main.get_command(found)
    command.name = name
    return command


# Rich's help would take 0.2 s to import.
app = typer.Typer(
    name="teacache", cls=Commands, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
)


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
    say(f"{message}{'' if message.endswith('?') else '.'} Try: {command} --help")
    return USAGE
