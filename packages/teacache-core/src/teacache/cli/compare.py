"""`teacache compare`: the same pictures plain, with the cache and with fewer steps, on one HTML page."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teacache.cli.console import console, progress, quiet_libraries
from teacache.cli.files import check_path, write_text
from teacache.cli.source import (
    Base,
    Guidance,
    ModelName,
    PromptFile,
    Quantize,
    Size,
    Steps,
    ToyName,
    check_source,
    open_source,
)
from teacache.errors import OptionError, UnknownModelError

if TYPE_CHECKING:
    from rich.table import Table

    from teacache.report.compare import Comparison
    from teacache.report.compare_totals import Total

EXAMPLES = (
    "teacache compare flux2",
    "teacache compare flux2 --setting speedup=2 --setting speedup=3 --setting threshold=0.2 --out page.html",
    "teacache compare dev --quantize 4 --prompt 'a red fox in the snow' --seed 1 --seed 2 --json page.json",
)

DEFAULT_SETTINGS = ("speedup=2", "speedup=3")


def compare(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A toy, for example flux2, or real weights by mflux's name.")
    ] = None,
    toy: ToyName = None,
    model: ModelName = None,
    base: Base = None,
    quantize: Quantize = None,
    prompt: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Repeat it for several.", show_default="two built-in ones"),
    ] = None,
    prompts_file: PromptFile = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(min=0, metavar="N", help="Each prompt is drawn with each. Repeat it.", show_default="1"),
    ] = None,
    steps: Steps = None,
    guidance: Guidance = None,
    size: Size = 512,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="What wrap is given: speedup=2, 'threshold=0.2 reconstruction=linear', default. Repeat it.",
            show_default=", ".join(DEFAULT_SETTINGS),
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page.")] = Path("teacache-compare.html"),
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the numbers there too.")
    ] = None,
) -> None:
    """Show the same pictures plain, with the cache, and with fewer steps.

    Writes one HTML page that needs no network: pictures under a slider, differences, likeness, steps, time. The
    control for each setting is the plain model in as many steps as the setting computed. Speedups are planned from
    the recording of this very model; where there is none, one more prompt is recorded first, and kept.
    """
    from teacache.cli.compare_settings import parse_settings
    from teacache.cli.compare_tasks import command_of, source_named, tasks_for, unknown_name

    toy, model = source_named(name, toy, model)
    check_source(toy, model, base, quantize)
    if prompt and prompts_file is not None:
        raise OptionError("--prompt and --prompts-file were given together. Give one of them.")
    _check_files(out, json_file)
    settings = parse_settings(setting or DEFAULT_SETTINGS)
    tasks, spare = tasks_for(toy, prompt, prompts_file, seed or [1])
    command = command_of(
        toy=toy, model=model, base=base, quantize=quantize, prompt=[task.prompt for task in tasks], seed=seed or [1],
        steps=steps, guidance=guidance, size=None if toy else size, setting=[one.label for one in settings],
    )  # fmt: skip
    with quiet_libraries():
        from teacache.cli.compare_work import compare as compared
        from teacache.report.compare_json import to_json
        from teacache.report.compare_page import page

        with progress() as bar:
            task = bar.add_task("loading", total=None)
            try:
                source = open_source(
                    toy, model, base=base, quantize=quantize, steps=steps, guidance=guidance, size=size
                )
            except UnknownModelError as error:
                raise (error if name is None else unknown_name(name, error)) from error

            def update(doing: str, done: int, total: int) -> None:
                bar.update(task, description=doing, completed=done, total=total)

            comparison = compared(
                source,
                tasks,
                spare,
                settings,
                name=f"{toy} toy" if toy else source.name,
                command=command,
                update=update,
            )
        text = page(comparison)
        numbers = to_json(comparison)
        write_text(out, text)
        if json_file is not None:
            write_text(json_file, numbers)
    console().print(_table(comparison))
    typer.echo(f"The page: {out}")
    if json_file is not None:
        typer.echo(f"The numbers: {json_file}")


def _check_files(out: Path, json_file: Path | None) -> None:
    check_path(out, "--out")
    if out.suffix not in (".html", ".htm"):
        raise OptionError(f"--out {out} was given for the page; expected a name that ends in .html.")
    if json_file is not None:
        check_path(json_file, "--json")
        if json_file.absolute() == out.absolute():
            raise OptionError(f"--out and --json are both {out}. Give two names.")


def _table(comparison: Comparison) -> Table:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from teacache.report.compare_totals import plain_total, summaries

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("pictures", overflow="fold")
    for heading in ("computed", "estimate", "time in loop", "SSIM", "PSNR dB"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row("plain", *_cells(plain_total(comparison)))
    for summary in summaries(comparison):
        table.add_row(escape(summary.setting), *_cells(summary.cached))
        if summary.fewer is not None:
            table.add_row(f"  {summary.fewer.steps:.3g} steps", *_cells(summary.fewer), style="dim")
    return table


def _cells(total: Total) -> tuple[str, ...]:
    likeness = total.likeness
    made = (f"{total.computed:.3g} of {total.steps:.3g}", f"{total.speedup:.2f}x", f"{total.seconds:.1f} s")
    if likeness is None:
        return (*made, "", "")
    return (*made, f"{likeness.ssim:.4f}", "equal" if math.isinf(likeness.psnr) else f"{likeness.psnr:.1f}")
