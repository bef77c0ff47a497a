"""`teacache toy`: trains the toys that ship with the adapters, and measures the numbers of their calibrations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teacache.cli.console import examples, progress, quiet_libraries
from teacache.errors import OptionError

if TYPE_CHECKING:
    from teacache.testing.toys.toy import Toy

toy = typer.Typer(rich_markup_mode=None)

Family = Annotated[str, typer.Argument(metavar="FAMILY", help="The toy's family, for example flux2.")]


@toy.callback(invoke_without_command=True, epilog=examples("teacache toy fit flux2"))
def root(context: typer.Context) -> None:
    """Train and calibrate the toys.

    A toy is the small model of an adapter that the demo and the tests use; who works on an adapter trains one.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@toy.command(epilog=examples("teacache toy train flux2 --steps 3000 --out toy.safetensors"))
def train(
    family: Family,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The weights, in safetensors.")],
    steps: Annotated[int, typer.Option(min=1, metavar="N", help="Steps of the optimiser in all.")] = 3000,
    start: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Weights to begin with. Default: random ones.", exists=True, dir_okay=False),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint beside --out.")] = False,
) -> None:
    """Train a toy on drawn scenes.

    Ctrl-C keeps a checkpoint; the same command with --resume goes on from it.
    """
    if not out.absolute().parent.is_dir():
        raise OptionError(f"--out {out} was given, but there is no folder {out.absolute().parent}. Make it first.")
    with quiet_libraries():
        from teacache.testing.toys.toy import find_toy
        from teacache.testing.toys.training import Recipe, train

        found = find_toy(family)
        if start is not None:
            _check_start(found, start)
        report = train(found, Recipe(steps=steps), out, start=start, resume=resume, say=typer.echo)
    typer.echo(f"{report.steps} steps, loss {report.loss:.4f}, {report.seconds_per_step:.2f} s a step: {out}")
    if report.interrupted:
        raise KeyboardInterrupt


def _check_start(found: Toy, start: Path) -> None:
    from teacache.testing.toys.toy import load_weights

    try:
        load_weights(found.transformer(), start)
    except (RuntimeError, ValueError) as error:  # what MLX raises for a file that is none of these weights
        why = str(error).partition("\n")[0].rstrip(".")
        raise OptionError(
            f"--start {start} holds no weights of the {found.family} toy ({why}). Give a safetensors file that "
            "`teacache toy train` wrote for it."
        ) from error


@toy.command(epilog=examples("teacache toy fit flux2"))
def fit(
    family: Family,
    prompts: Annotated[int, typer.Option(min=2, metavar="N", help="Scenes to record.")] = 12,
    held_out: Annotated[int, typer.Option(min=1, metavar="N", help="Other scenes, to choose the threshold on.")] = 8,
    steps: Annotated[int, typer.Option(min=4, metavar="N", help="Steps of each picture.")] = 30,
    guidance: Annotated[float, typer.Option(min=0, metavar="X", help="Strength of guidance; 1 or less: off.")] = 2.0,
    floor: Annotated[
        float, typer.Option(min=0, max=1, metavar="X", help="Lowest mean SSIM that the threshold may lead to.")
    ] = 0.998,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The calibration. Default: where the adapter keeps it.")
    ] = None,
) -> None:
    """Measure a toy and write its calibration.

    Fits the polynomial and the change curve on pictures of random scenes, and chooses the threshold.

    The threshold is the one that reuses most steps while the mean SSIM on scenes that were not recorded stays at the
    floor. The whole sweep is written into the file.
    """
    with quiet_libraries(), progress() as bar:
        from teacache.calibration import save_calibration
        from teacache.calibration.record import MULTIPLES
        from teacache.cli.toy_fit import Settings, calibration_file, measure

        settings = Settings(prompts=prompts, held_out=held_out, steps=steps, guidance=guidance, floor=floor)
        out = calibration_file(family) if out is None else out
        task = bar.add_task("recording", total=prompts + held_out * (1 + len(MULTIPLES)))
        calibration = measure(
            family,
            settings,
            advance=lambda doing: bar.update(task, advance=1, description=doing),
            say=typer.echo,
        )
        save_calibration(calibration, out)
    if calibration.gate is not None:
        typer.echo(f"threshold {calibration.gate.threshold:g}: {out}")
