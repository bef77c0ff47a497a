"""`teacache sweep`: thresholds and speedups against computed steps and likeness."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from teacache.cli import say
from teacache.cli.console import console, quiet_libraries
from teacache.cli.source import (
    Base,
    Guidance,
    ModelName,
    PromptFile,
    Quantize,
    Seed,
    Size,
    Steps,
    ToyName,
    check_source,
    open_source,
    prompts_for,
)
from teacache.errors import OptionError

if TYPE_CHECKING:
    from rich.table import Table

    from teacache.cli.sweep_work import Point

EXAMPLES = (
    "teacache sweep --toy flux2 --threshold 0.1 --threshold 0.2 --speedup 2 --speedup 3",
    "teacache sweep --model dev --quantize 4 --speedup 1.5 --speedup 2 --plot dev.png",
)


def sweep(
    toy: ToyName = None,
    model: ModelName = None,
    base: Base = None,
    quantize: Quantize = None,
    threshold: Annotated[
        list[float] | None, typer.Option(metavar="X", help="Of the gate. Repeat it for several.")
    ] = None,
    speedup: Annotated[
        list[float] | None, typer.Option(metavar="X", help="Planned, for example 2. Repeat it for several.")
    ] = None,
    reconstruction: Annotated[str, typer.Option(metavar="NAME", help="The gate's: reuse or linear.")] = "reuse",
    calibration: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Whose polynomial the gate uses.", exists=True, dir_okay=False),
    ] = None,
    prompts: Annotated[int, typer.Option(min=1, metavar="N", help="Prompts to compare.")] = 2,
    prompts_file: PromptFile = None,
    steps: Steps = None,
    guidance: Guidance = None,
    size: Size = 512,
    seed: Seed = 1,
    control: Annotated[bool, typer.Option(help="Also take fewer steps, as many as each speedup computes.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw PSNR against computed steps.")] = None,
) -> None:
    """Try thresholds and speedups on the same pictures.

    Each is compared with the plain pictures. Speedups are planned from the recording of this very model; where there
    is none, one more prompt is recorded first, and not kept.
    """
    check_source(toy, model, base, quantize)
    wanted_thresholds, wanted_speedups = threshold or [], speedup or []
    if not wanted_thresholds and not wanted_speedups:
        raise OptionError("Give --threshold X or --speedup X, each as often as you like, for example --speedup 2.")
    if any(not math.isfinite(value) or value < 0 for value in wanted_thresholds):
        raise OptionError(f"--threshold {wanted_thresholds} was given; expected numbers from 0 up, for example 0.1.")
    if any(not math.isfinite(value) or value < 1 for value in wanted_speedups):
        raise OptionError(f"--speedup {wanted_speedups} was given; expected numbers from 1 up, for example 2.")
    if plot is not None:
        from teacache.report.files import check_png_path

        check_png_path(plot)
    texts = prompts_for(toy, prompts + 1, prompts_file)
    with quiet_libraries():
        from teacache.cli.sweep_work import Wishes, drawing, sweep

        wishes = Wishes(
            thresholds=tuple(wanted_thresholds),
            speedups=tuple(wanted_speedups),
            reconstruction=reconstruction,
            calibration=calibration,
            control=control,
        )
        source = open_source(toy, model, base=base, quantize=quantize, steps=steps, guidance=guidance, size=size)
        points: list[Point] = []
        try:
            sweep(source, wishes, texts, seed, points)
        except BaseException:
            _say_done(points, source.steps)
            raise
        if plot is not None:
            from teacache.report.files import save_png

            save_png(drawing(points, source), plot)
    if as_json:
        typer.echo(json.dumps([_plain(point) for point in points], indent=2))
    else:
        console().print(_table(points, source.steps))
        if plot is not None:
            typer.echo(f"The plot: {plot}")


def _say_done(points: Sequence[Point], steps: int) -> None:
    """What is known already where the work breaks off: on a real model it took hours."""
    if points:
        console(stderr=True).print(_table(points, steps))
        say("the table has what was tried so far. Give the others alone to go on.")


def _plain(point: Point) -> dict[str, Any]:
    return asdict(point) | {"psnr": point.psnr if math.isfinite(point.psnr) else None}


def _table(points: Sequence[Point], steps: int) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("method")
    for heading in ("setting", f"computed of {steps}", "SSIM", "worst", "PSNR dB"):
        table.add_column(heading, justify="right")
    for point in points:
        setting = f"{point.value:g}x" if point.method == "plan" else f"{point.value:g}"
        psnr = f"{point.psnr:.1f}" if math.isfinite(point.psnr) else "equal"
        likeness = (f"{point.ssim:.4f}", f"{point.worst_ssim:.4f}", psnr)
        table.add_row(point.method, setting, f"{point.computed:.1f}", *likeness)
    return table
