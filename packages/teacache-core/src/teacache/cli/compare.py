"""`teacache compare`: the same pictures plain, with the cache and with fewer steps, on one HTML page."""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Sequence
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
    prompts_for,
)
from teacache.errors import OptionError

if TYPE_CHECKING:
    from rich.table import Table

    from teacache.calibration.record import Case
    from teacache.report.compare import Comparison, Total

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
            source = open_source(toy, model, base=base, quantize=quantize, steps=steps, guidance=guidance, size=size)

            def update(doing: str, done: int, total: int) -> None:
                bar.update(task, description=doing, completed=done, total=total)

            comparison = compared(source, tasks, spare, settings, command, update)
        text = page(comparison)
        numbers = to_json(comparison)
        write_text(out, text)
        if json_file is not None:
            write_text(json_file, numbers)
    console().print(_table(comparison))
    typer.echo(f"The page: {out}")
    if json_file is not None:
        typer.echo(f"The numbers: {json_file}")


def source_named(name: str | None, toy: str | None, model: str | None) -> tuple[str | None, str | None]:
    """Returns the toy and the model that are asked for: a name that is a toy's, then one of real weights.

    Raises:
        OptionError: none was given, or several.
    """
    if name is None:
        return toy, model
    if toy is not None or model is not None:
        raise OptionError(f"{name} was given, and --toy or --model too. Give one of them.")
    from teacache.plugins import adapters

    toys = {row.name for row in adapters() if row.adapter is not None and row.adapter.toy is not None}
    return (name, None) if name in toys else (None, name)


def tasks_for(
    toy: str | None, prompts: Sequence[str] | None, file: Path | None, seeds: Sequence[int]
) -> tuple[list[Case], Case]:
    """Returns what is compared, each prompt with each seed, and another prompt to record the model on.

    Raises:
        OptionError: a file of prompts is empty.
        ToyPromptError: the toy cannot read a prompt.
    """
    from teacache.calibration.record import Case

    if toy is not None and prompts:
        from teacache.testing.toys.scenes import parse

        for one in prompts:
            parse(one)
    if prompts:
        texts = list(dict.fromkeys(prompts))
    elif file is not None:
        prompts_for(toy, 1, file)  # refuses what is empty, or not for this toy
        texts = list(dict.fromkeys(filter(None, map(str.strip, file.read_text("utf-8").splitlines()))))
    else:
        texts = prompts_for(toy, 2, None)
    spare = next((one for one in prompts_for(toy, 12, None) if one not in texts), texts[-1])
    cases = [Case(text, seed) for text, seed in itertools.product(texts, dict.fromkeys(seeds))]
    return cases, Case(spare, max(seeds) + 1)


def command_of(**options: object) -> str:
    """Returns the command that makes the same comparison again."""
    words = ["teacache", "compare"]
    for name, value in options.items():
        for one in dict.fromkeys(value) if isinstance(value, list) else [value]:
            if one is not None:
                words += [f"--{name}", f"{one:g}" if isinstance(one, float) else str(one)]
    return shlex.join(words)


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

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("pictures")
    for heading in ("computed", "estimate", "time in loop", "SSIM", "worst", "PSNR dB"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row("plain", *_cells(comparison.plain))
    for summary in comparison.summaries():
        table.add_row(escape(summary.setting), *_cells(summary.cached))
        if summary.fewer is not None:
            table.add_row(f"  {summary.fewer.steps:.3g} steps instead", *_cells(summary.fewer), style="dim")
    return table


def _cells(total: Total) -> tuple[str, ...]:
    likeness, worst = total.likeness, total.worst_ssim
    time = f"{total.seconds:.1f} s"
    computed = f"{total.computed:.3g} of {total.steps:.3g}"
    if likeness is None or worst is None:
        return (computed, f"{total.speedup:.2f}x", time, "", "", "")
    psnr = "equal" if math.isinf(likeness.psnr) else f"{likeness.psnr:.1f}"
    return (computed, f"{total.speedup:.2f}x", time, f"{likeness.ssim:.4f}", f"{worst:.4f}", psnr)
