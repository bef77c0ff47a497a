"""`teacache tolerance`: measures the bounds of an adapter's oracles, and pins what it rests on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teacache.cli.console import examples, progress, quiet_libraries
from teacache.errors import OptionError

if TYPE_CHECKING:
    from teacache.calibration.model import Evidence

tolerance = typer.Typer(rich_markup_mode=None)

Family = Annotated[str, typer.Argument(metavar="FAMILY", help="The adapter's name, for example flux2.")]

TOYS_ONLY = (
    "Measured on a small model on one machine. Missing: real weights on Apple hardware with Metal, where rounding "
    "may differ: teacache tolerance record FAMILY --model NAME --quantize 4"
)

GUIDANCE = (2.0, 4.0)
"""Of the toys' runs, in turn: noise grows with guidance, which multiplies what the branches differ by."""


@tolerance.callback(invoke_without_command=True, epilog=examples("teacache tolerance pin flux2"))
def root(context: typer.Context) -> None:
    """Measure the bounds of the oracles, with their evidence.

    A bound is never written by hand: it lies just beside the measured noise and below the smallest planted bug.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@tolerance.command(
    epilog=examples(
        "teacache tolerance record flux2",
        "teacache tolerance record flux1 --model dev --quantize 4 --steps 25 --out tolerance.toml",
    )
)
def record(
    family: Family,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Real weights, by mflux's name. Default: the toy.")
    ] = None,
    quantize: Annotated[int | None, typer.Option(metavar="BITS", help="Of the real weights.")] = None,
    steps: Annotated[int, typer.Option(min=6, metavar="N", help="Steps of each run.")] = 6,
    prompts: Annotated[int, typer.Option(min=2, max=4, metavar="N", help="Prompts.")] = 3,
    seeds: Annotated[int, typer.Option(min=2, metavar="N", help="Seeds for each prompt.")] = 2,
    size: Annotated[int, typer.Option(min=64, metavar="PIXELS", help="Side of the pictures, real weights.")] = 512,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The tolerance. Default: where the adapter keeps it.")
    ] = None,
) -> None:
    """Measure noise and planted bugs, and set the bounds between.

    Compares several runs, step by step: eager with eager, compiled with compiled, and one with the other. Then it
    plants the bugs worth catching and measures how far each moves the picture. Where noise and the smallest bug are
    not apart, no bound is written.
    """
    with quiet_libraries(), progress() as bar:
        from teacache.testing.measure import measure_tolerance
        from teacache.testing.models import model_subject, toy_subject
        from teacache.testing.planted import BUGS
        from teacache.testing.toys import scenes
        from teacache.tolerance import save_tolerance

        if model is None:
            subject = toy_subject(family, steps=steps)
        else:
            arguments = {"prompt": scenes.EXAMPLES[0], "height": size, "width": size}
            subject = model_subject(model, quantize=quantize, arguments=arguments, steps=steps)
        if subject.adapter.name != family:
            raise OptionError(f"--model {model} belongs to {subject.adapter.name}, not to {family}.")
        out = tolerance_file(family) if out is None else out
        cases = [
            {"prompt": prompt, "seed": 11 + number, **({} if model else {"guidance": GUIDANCE[number % len(GUIDANCE)]})}
            for prompt in scenes.EXAMPLES[:prompts]
            for number in range(seeds)
        ]
        task = bar.add_task("loading", total=len(cases) + len(BUGS))
        measured = measure_tolerance(
            subject,
            cases,
            status="provisional" if model is None else "calibrated",
            missing=TOYS_ONLY.replace("FAMILY", family) if model is None else None,
            evidence={"model": subject.name, **({} if model else toy_evidence(family))},
            advance=lambda doing: bar.update(task, description=doing, advance=1),
        )
        save_tolerance(measured, out)
    for bound in measured.bounds:
        typer.echo(
            f"{bound.comparison}: {'bit-exact' if bound.exact else f'{bound.value:.3g}'}; smallest planted bug "
            f"{measured.smallest_bug.distance.mean_abs:.3g} ({measured.smallest_bug.bug})"
        )
    typer.echo(f"The tolerance: {out}")


@tolerance.command(epilog=examples("teacache tolerance pin flux2", "teacache tolerance pin core"))
def pin(
    family: Annotated[str, typer.Argument(metavar="FAMILY", help="The adapter's name, or core for teacache-core.")],
) -> None:
    """Pin what the adapter rests on: the SHA-256 of its data files.

    Run it when a file was meant to change. Pinned revisions and surfaces are kept.
    """
    from dataclasses import replace

    from teacache.plugins import get_adapter
    from teacache.testing.oracles.drift import CORE, load_pins, package_of, save_pins, shipped

    package = CORE if family == "core" else package_of(get_adapter(family))
    path = save_pins(package, replace(load_pins(package), files=shipped(package)))
    typer.echo(f"The pins: {path}")


def toy_evidence(family: str) -> dict[str, Evidence]:
    """Returns what of a toy's runs a tolerance must say: their guidance, and which weights they had."""
    from teacache.testing.oracles.drift import shipped
    from teacache.testing.toys.toy import WEIGHTS, find_toy

    weights = shipped(find_toy(family).package).get(WEIGHTS)
    return {"guidance": GUIDANCE, **({} if weights is None else {"weights": weights[:12]})}


def tolerance_file(family: str) -> Path:
    """Returns where an adapter keeps its tolerance, in an editable installation."""
    from importlib.resources import files

    from teacache.plugins import get_adapter

    adapter = get_adapter(family)
    reference = adapter.tolerance or adapter.calibrations
    if reference is None:
        raise OptionError(f"The adapter {family!r} says not where its tolerance is. Give --out FILE.")
    package, _, name = reference.partition(":")
    return Path(str(files(package) / (name if adapter.tolerance else "tolerance.toml")))
