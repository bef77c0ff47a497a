"""`teacache demo`: toy pictures with and without the cache, side by side in one PNG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teacache.cli.console import console, progress, quiet_libraries
from teacache.errors import OptionError

if TYPE_CHECKING:
    from rich.console import Console

    from teacache.report.pair import Pair, Section

EXAMPLES = (
    "teacache demo",
    "teacache demo --threshold 0.3 --out more-reuse.png",
    'teacache demo --prompt "yellow ring left, red square right, black background"',
)

DEFAULT_PROMPTS = 4

NOTE = (
    "The estimate is steps over computed steps. A toy's step is so short that the measured time says little about a "
    "real model."
)


def demo(
    family: Annotated[str, typer.Option(metavar="NAME", help="Whose toy: flux2, or all that are installed.")] = "flux2",
    out: Annotated[Path, typer.Option(help="The picture.", metavar="FILE")] = Path("teacache-demo.png"),
    threshold: Annotated[
        float | None, typer.Option(metavar="X", help="Of the gate; higher reuses more. Default: the calibrated one.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, metavar="N", help="Steps of each picture.")] = 30,
    prompt: Annotated[
        list[str] | None,
        typer.Option(help="A scene in plain words. Repeat it for several.", metavar="TEXT", show_default="four scenes"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of the first picture; the others count up.")] = 1,
    guidance: Annotated[float, typer.Option(metavar="X", help="Strength of guidance; 1 or less: off.")] = 2.0,
) -> None:
    """Draw pictures with and without the cache.

    A small model trained on drawn scenes makes each picture twice from one seed. It comes with its adapter: nothing
    is downloaded. The pictures, their difference and the steps go side by side into one PNG.
    """
    from teacache.report.contact_sheet import contact_sheet
    from teacache.report.files import check_png_path, save_png
    from teacache.testing.toys import scenes

    check_png_path(out)
    if not math.isfinite(guidance):
        raise OptionError(f"--guidance {guidance} was given; expected a finite number, for example 2.")
    prompts = tuple(prompt or scenes.EXAMPLES[:DEFAULT_PROMPTS])
    for one in prompts:
        scenes.parse(one)
    screen = console()
    with quiet_libraries(), progress() as bar:
        from teacache.cli.demo_pictures import Settings, section_of
        from teacache.cli.toys import trained_families

        settings = Settings(prompts=prompts, threshold=threshold, steps=steps, seed=seed, guidance=guidance)
        families = trained_families() if family == "all" else (family,)
        task = bar.add_task("loading", total=len(families) * (1 + 2 * len(prompts)))

        def advance(doing: str, done: int = 1) -> None:
            bar.update(task, description=doing, advance=done)

        sections = [section_of(name, settings, advance) for name in families]
    for section in sections:
        _print(screen, section)
    screen.print(NOTE, style="dim")
    for why in dict.fromkeys(pair.run.why_nothing for section in sections for pair in section.pairs):
        if why is not None:
            screen.print(f"No step was reused: {why}", style="yellow", markup=False)
    save_png(contact_sheet(sections), out)
    screen.print(f"The picture: {out}", markup=False)


def _print(screen: Console, section: Section) -> None:
    """Prints one table: a row for each prompt."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=escape(section.title), title_justify="left")
    table.add_column("prompt")
    for heading in ("steps", "computed", "reused", "estimate", "SSIM", "PSNR dB"):
        table.add_column(heading, justify="right", no_wrap=True)
    for pair in section.pairs:
        table.add_row(
            escape(pair.prompt),
            str(len(pair.run.records)),
            str(pair.run.computed),
            str(pair.run.reused),
            f"{pair.run.speedup_estimate:.2f}x",
            f"{pair.ssim:.3f}",
            "equal" if math.isinf(pair.psnr) else f"{pair.psnr:.1f}",
        )
    if len(section.pairs) > 1:
        table.add_section()
        table.add_row(*_together(section.pairs))
    screen.print(table)
    screen.print(_time(section.pairs))


def _together(pairs: Sequence[Pair]) -> tuple[str, ...]:
    """The row for all pictures: sums of steps, means of the likeness."""
    from teacache.report.compare_totals import mean_psnr

    steps = sum(len(pair.run.records) for pair in pairs)
    computed = sum(pair.run.computed for pair in pairs)
    psnr = mean_psnr([pair.psnr for pair in pairs])
    return (
        "all",
        str(steps),
        str(computed),
        str(steps - computed),
        f"{steps / computed:.2f}x",
        f"{sum(pair.ssim for pair in pairs) / len(pairs):.3f}",
        "equal" if math.isinf(psnr) else f"{psnr:.1f}",
    )


def _time(pairs: Sequence[Pair]) -> str:
    """One measurement over all pictures: of a single one it is noise."""
    plain, wrapped = sum(pair.plain_seconds for pair in pairs), sum(pair.wrapped_seconds for pair in pairs)
    pictures = "the picture" if len(pairs) == 1 else f"all {len(pairs)} pictures"
    return f"Time of {pictures}, after a warm-up: {plain:.1f} s plain, {wrapped:.1f} s with teacache."
