"""`teacache demo`: toy pictures with and without the cache, side by side in one PNG."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from teacache.cli.console import console, progress, quiet_libraries
from teacache.errors import AdapterNotInstalledError, NothingReusedWarning, OptionError, UnknownModelError

if TYPE_CHECKING:
    from PIL.Image import Image
    from rich.console import Console

    from teacache.report.pair import Pair, Section

EXAMPLES = (
    "teacache demo",
    "teacache demo --threshold 0.3 --out more-reuse.png",
    'teacache demo --prompt "yellow ring left, red square right, black background"',
)

SIZE = 128
DEFAULT_PROMPTS = 4

NOTE = (
    "Time is plain over wrapped, measured here after a warm-up. A toy's step is so short that the ratio says little "
    "about a real model; the estimate is steps over computed steps."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What all pictures of a demo have in common."""

    prompts: tuple[str, ...]
    threshold: float | None
    steps: int
    seed: int
    guidance: float


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
    settings = Settings(prompts=prompts, threshold=threshold, steps=steps, seed=seed, guidance=guidance)
    screen = console()
    with quiet_libraries(), progress() as bar:
        families = _families(family)
        task = bar.add_task("loading", total=len(families) * (1 + 2 * len(prompts)))

        def advance(doing: str, done: int = 1) -> None:
            bar.update(task, description=doing, advance=done)

        sections = [_section(name, settings, advance) for name in families]
    for section in sections:
        _print(screen, section)
    screen.print(NOTE, style="dim")
    for why in dict.fromkeys(pair.run.why_nothing for section in sections for pair in section.pairs):
        if why is not None:
            screen.print(f"No step was reused: {why}", style="yellow", markup=False)
    save_png(contact_sheet(sections), out)
    screen.print(f"The picture: {out}", markup=False)


def _families(family: str) -> tuple[str, ...]:
    """Returns the families whose toys are asked for."""
    from teacache.plugins import adapters

    if family != "all":
        return (family,)
    names = [row.name for row in adapters() if row.status == "working" and row.adapter and row.adapter.toy]
    found = tuple(name for name in names if _weights(name).is_file())
    if not found:
        raise AdapterNotInstalledError(
            "No installed adapter brings a trained toy; expected one at least. Run: pip install teacache-flux2"
        )
    return found


def _weights(family: str) -> Any:
    """Where the trained weights of a family's toy are, or would be."""
    from importlib.resources import files

    from teacache.testing.toys.toy import WEIGHTS, find_toy

    return files(find_toy(family).package) / WEIGHTS


def _section(family: str, settings: Settings, advance: Callable[..., None]) -> Section:
    """Makes all pictures of one toy."""
    from teacache import wrap
    from teacache.report.pair import Section
    from teacache.testing import toy_pipeline

    advance(f"{family}: loading", 0)
    if not _weights(family).is_file():
        raise UnknownModelError(
            f"The toy of {family} has no trained weights. Another family has: teacache demo --family flux2"
        )
    model = toy_pipeline(family)
    with wrap(model, threshold=settings.threshold) as handle:
        adapter = handle.adapter.name
    advance(f"{family}: warming up", 0)
    _warm_up(model, settings)
    advance(f"{family}: warmed up")
    pairs = tuple(_pair(model, index, settings, advance) for index in range(len(settings.prompts)))
    policy = dict.fromkeys(pair.run.policy for pair in pairs)
    details = [
        *policy, f"{settings.steps} steps", f"guidance {settings.guidance:g}", f"seed {settings.seed}",
        *_versions(adapter),
    ]  # fmt: skip
    title = f"{type(model).__name__} ({family}): a small model trained on drawn scenes"
    return Section(title=title, details="  ·  ".join(details), pairs=pairs)


def _warm_up(model: Any, settings: Settings) -> None:
    """Makes two pictures of few steps that nobody sees: MLX builds its kernels when they are first used."""
    from teacache import wrap

    few = 4
    _picture(model, settings.prompts[0], settings.seed, few, settings.guidance)
    with wrap(model, coefficients=[0.0] * 5, threshold=1.0):  # reuses all but the first and the last step
        _picture(model, settings.prompts[0], settings.seed, few, settings.guidance)


def _pair(model: Any, index: int, settings: Settings, advance: Callable[..., None]) -> Pair:
    import warnings

    from teacache import wrap
    from teacache.report.pair import Pair

    prompt, seed = settings.prompts[index], settings.seed + index
    advance(f"plain: {prompt}", 0)
    plain, plain_seconds = _picture(model, prompt, seed, settings.steps, settings.guidance)
    advance(f"wrapped: {prompt}")
    with wrap(model, threshold=settings.threshold) as handle, warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingReusedWarning)  # said below the table, once
        wrapped, wrapped_seconds = _picture(model, prompt, seed, settings.steps, settings.guidance)
        run = handle.stats.runs[-1]
    advance(f"wrapped: {prompt}")
    return Pair.of(
        prompt=prompt,
        plain=plain,
        wrapped=wrapped,
        run=run,
        plain_seconds=plain_seconds,
        wrapped_seconds=wrapped_seconds,
    )


def _picture(model: Any, prompt: str, seed: int, steps: int, guidance: float) -> tuple[Image, float]:
    """Makes one picture and takes its time."""
    begun = time.perf_counter()
    made = model.generate_image(
        seed=seed, prompt=prompt, num_inference_steps=steps, width=SIZE, height=SIZE, guidance=guidance
    )
    return made.image, time.perf_counter() - begun


def _versions(adapter: str) -> Sequence[str]:
    """Names what the pictures were made with."""
    from importlib.metadata import version

    import mlx.core as mx

    from teacache.plugins import adapters

    packages = ["teacache-core", *(row.package for row in adapters() if row.name == adapter), "mflux", "mlx"]
    device = "GPU" if mx.default_device() == mx.gpu else "CPU"
    return [*(f"{package} {version(package)}" for package in packages[:-1]), f"MLX {version('mlx')} ({device})"]


def _print(screen: Console, section: Section) -> None:
    """Prints one table: a row for each prompt."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=escape(section.title), title_justify="left")
    table.add_column("prompt")
    for heading in ("steps", "reused", "time", "estimate", "SSIM", "PSNR dB"):
        table.add_column(heading, justify="right", no_wrap=True)
    for pair in section.pairs:
        table.add_row(
            escape(pair.prompt),
            str(len(pair.run.records)),
            str(pair.run.reused),
            f"{pair.time_ratio:.2f}x",
            f"{pair.run.speedup_estimate:.2f}x",
            f"{pair.ssim:.3f}",
            "equal" if math.isinf(pair.psnr) else f"{pair.psnr:.1f}",
        )
    if len(section.pairs) > 1:
        table.add_section()
        table.add_row(*_together(section.pairs))
    screen.print(table)


def _together(pairs: Sequence[Pair]) -> tuple[str, ...]:
    """The row for all pictures: sums of steps and of time, means of the likeness."""
    steps = sum(len(pair.run.records) for pair in pairs)
    computed = sum(pair.run.computed for pair in pairs)
    ratio = sum(pair.plain_seconds for pair in pairs) / sum(pair.wrapped_seconds for pair in pairs)
    error = sum(10 ** (-pair.psnr / 10) for pair in pairs) / len(pairs)
    return (
        "all",
        str(steps),
        str(steps - computed),
        f"{ratio:.2f}x",
        f"{steps / computed:.2f}x",
        f"{sum(pair.ssim for pair in pairs) / len(pairs):.3f}",
        f"{-10 * math.log10(error):.1f}" if error else "equal",
    )
