"""`teacache calibrate`: measures a model and writes its numbers, with what they are worth on other prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from teacache.cli.console import console, quiet_libraries
from teacache.cli.files import write_text
from teacache.cli.lines import Lines
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

    from teacache.cli.calibrate_work import Result
    from teacache.held_out import Quality

EXAMPLES = (
    "teacache calibrate --toy flux2 --out toy-numbers",
    "teacache calibrate --model dev --quantize 4 --prompts 6 --held-out 2 --out dev-numbers",
)


def calibrate(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="For the numbers; it is made.")],
    toy: ToyName = None,
    model: ModelName = None,
    base: Base = None,
    quantize: Quantize = None,
    prompts: Annotated[int, typer.Option(min=1, metavar="N", help="Prompts to record.")] = 6,
    held_out: Annotated[int, typer.Option(min=0, metavar="N", help="Others, to try the numbers on.")] = 2,
    prompts_file: PromptFile = None,
    steps: Steps = None,
    guidance: Guidance = None,
    size: Size = 512,
    seed: Seed = 1,
    floor: Annotated[
        float, typer.Option(min=0, max=1, metavar="X", help="Lowest mean SSIM that the threshold may lead to.")
    ] = 0.97,
    keep: Annotated[bool, typer.Option(help="Keep the kernel where wrap() finds it, for this very model.")] = True,
) -> None:
    """Measure a model: polynomial, change curve and kernel.

    Records some prompts in full, and tries on others what the numbers are worth against fewer steps. Writes
    calibration.toml and recording.json into the folder. Ctrl-C loses nothing: the same command goes on. Started by
    mlx.launch, on one machine or several, the prompts are spread over its processes.
    """
    check_source(toy, model, base, quantize)
    texts = prompts_for(toy, prompts + held_out, prompts_file)
    if out.exists() and not out.is_dir():
        raise OptionError(f"--out {out} was given, but it is a file. Give a folder.")
    with quiet_libraries():
        from teacache.calibration import save_calibration
        from teacache.calibration.record import Case
        from teacache.cli.calibrate_work import calibrate
        from teacache.ranks import launched

        ranks = launched()
        cases = [Case(text, seed + number) for number, text in enumerate(texts)]
        source = open_source(toy, model, base=base, quantize=quantize, steps=steps, guidance=guidance, size=size)
        out.mkdir(parents=True, exist_ok=True)
        settings: dict[str, Any] = {"model": source.name, "base": base, "quantize": quantize, "recorded": prompts}
        settings |= {"steps": source.steps, "guidance": source.guidance, "size": source.size}
        kept = "measured.jsonl" if ranks.first else f"measured-{ranks.rank}.jsonl"
        lines = Lines(out / kept, settings | {"cases": [asdict(case) for case in cases]})
        with lines.resumable():
            result = calibrate(source, cases[:prompts], cases[prompts:], lines, floor, ranks)
        if not ranks.first:
            return
        save_calibration(result.calibration, out / "calibration.toml")
        write_text(out / "recording.json", result.recording.to_json())
        _report(result, floor, out)
        if keep:
            _keep(result)


def _report(result: Result, floor: float, out: Path) -> None:
    from teacache.held_out import not_worth

    fits = result.fits
    if result.quality:
        console().print(_table(result.quality))
    typer.echo(f"Change curve: explains {_share(fits.curve_r2)} of the change on prompts that it was not made from.")
    typer.echo(f"Polynomial: explains {_share(fits.polynomial_r2)} of it.")
    if fits.why_no_polynomial is not None:
        typer.echo(f"No gate is written. {fits.why_no_polynomial}")
    elif result.quality and result.chosen is None:
        typer.echo(f"The gate has no threshold: none keeps a mean SSIM of {floor:g} and is better than fewer steps.")
    for row in not_worth(result.quality):
        typer.echo(
            f"Too poor to use: the {row.method} at {row.speedup:g}x, {row.psnr:.1f} dB, no more than fewer steps."
        )
    typer.echo(f"Written: {out / 'calibration.toml'} and {out / 'recording.json'}")


def _keep(result: Result) -> None:
    from teacache.held_out import not_worth
    from teacache.store import Store

    if any((row.method, row.speedup) == ("plan", 2.0) for row in not_worth(result.quality)):
        typer.echo("The kernel is not kept for wrap(): planned for 2x it does no better than fewer steps.")
        return
    store = Store()
    try:
        path = store.save(result.recording)
    except OSError as error:
        raise OptionError(
            f"The kernel could not be kept in {store.folder} ({error}). Set TEACACHE_DATA to a folder that can be "
            "written, or say --no-keep."
        ) from error
    typer.echo(f"wrap(model, speedup=2.0) plans from it now: {path}")


def _table(quality: Sequence[Quality]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="On the held-out prompts", title_justify="left")
    table.add_column("method")
    for heading in ("speedup", "threshold", "computed", "SSIM", "worst", "PSNR dB"):
        table.add_column(heading, justify="right")
    for row in quality:
        threshold = "" if row.threshold is None else f"{row.threshold:g}"
        cells = (f"{row.computed:.1f}", f"{row.ssim:.4f}", f"{row.worst_ssim:.4f}", f"{row.psnr:.1f}")
        table.add_row(row.method, f"{row.speedup:g}x", threshold, *cells)
    return table


def _share(r2: float | None) -> str:
    return "an unknown share (one prompt)" if r2 is None else f"{max(r2, 0.0):.0%}"
