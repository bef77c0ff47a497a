"""`teacache bench speed`: what the cache costs and saves per step, into the documentation's page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from teacache.cli.console import progress, quiet_libraries
from teacache.cli.files import check_path, write_text
from teacache.cli.source import Base, Guidance, ModelName, Quantize, Size
from teacache.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from teacache.bench.speed import Subject
    from teacache.bench.speed_report import Report

EXAMPLES = (
    "teacache bench speed --out docs/performance.md",
    "teacache bench speed --toys flux2 --seconds 20 --no-scaling",
    "teacache bench speed --model klein-base-4b --quantize 4 --out performance.md",
)

Families = Annotated[
    str | None, typer.Option("--toys", metavar="NAMES", help="Whose models, with commas between. Default: all.")
]
Width = Annotated[int, typer.Option(min=128, metavar="N", help="Inner width of the models, a multiple of 128.")]
Blocks = Annotated[int, typer.Option(min=2, metavar="N", help="Blocks of the models.")]
Side = Annotated[int, typer.Option(min=64, metavar="PIXELS", help="Side of their pictures; a token is 16 pixels wide.")]


def speed(
    toys: Families = None,
    model: ModelName = None,
    base: Base = None,
    quantize: Quantize = None,
    guidance: Guidance = None,
    size: Size = 512,
    seconds: Annotated[float, typer.Option(min=1, metavar="S", help="For the times of each model, about.")] = 45,
    width: Width = 512,
    blocks: Blocks = 8,
    side: Side = 256,
    scaling: Annotated[bool, typer.Option(help="Also other numbers of blocks and tokens.")] = True,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page; its JSON goes beside it.")] = Path(
        "performance.md"
    ),
) -> None:
    """Measure the cost of the cache per step, in ratios of paired times.

    The models are the families' own classes at a small size with random weights, or one with real weights. Writes the
    tables between the page's marks for this device, and leaves the rest of the page alone.
    """
    check_path(out, "--out")
    if out.suffix != ".md":
        raise OptionError(f"--out {out} was given for the page; expected a name that ends in .md.")
    if width % 128:
        raise OptionError(f"--width {width} was given; expected a multiple of 128, the width of a head.")
    with quiet_libraries(), progress() as bar:
        task = bar.add_task("loading", total=None)

        def said(doing: str) -> None:
            bar.update(task, description=doing)

        settings: dict[str, Any] = {"seconds": seconds}
        if model is not None:
            settings |= {"model": model, "base": base, "quantize": quantize, "size": size}
            subjects = [_real(model, base=base, quantize=quantize, guidance=guidance, size=size)]
            families: tuple[str, ...] = ()
        else:
            from teacache.bench.subjects import subjects as small
            from teacache.cli.toys import families_of, trained_families

            families = families_of(toys, trained_families())
            settings |= {"toys": families, "width": width, "blocks": blocks, "side": side}
            subjects = list(small(families, width=width, blocks=blocks, side=side))
        report = _measured(subjects, families, settings, scaling=scaling and not model, said=said)
    _write(report, out)


def _real(name: str, *, base: str | None, quantize: int | None, guidance: float | None, size: int) -> Subject:
    from teacache.bench.speed import Subject
    from teacache.bench.subjects import draw
    from teacache.cli.source import PROMPTS, open_source

    source = open_source(None, name, base=base, quantize=quantize, steps=None, guidance=guidance, size=size)
    return Subject(
        name=f"{name}{'' if quantize is None else f', {quantize} bits'}, {size} x {size}",
        deep=source.model,
        short=None,
        draw=lambda model, steps: draw(model, steps, side=size, guidance=source.guidance, prompt=PROMPTS[0]),
    )


def _measured(
    subjects: list[Subject],
    families: tuple[str, ...],
    settings: dict[str, Any],
    *,
    scaling: bool,
    said: Callable[[str], None],
) -> Report:
    import datetime

    from teacache.bench.compiled import EAGER, compiling
    from teacache.bench.frontier import made_with
    from teacache.bench.memory import RUNS, growth, peaks
    from teacache.bench.scaling import scaling as other_sizes
    from teacache.bench.speed import measure
    from teacache.bench.speed_report import Report
    from teacache.bench.startup import import_seconds, wrap_seconds
    from teacache.bench.subjects import draw, sizes_of
    from teacache.testing.spies import expected_warnings

    rows, found, compiled = [], [], []
    wrapping, grown, off = {}, {}, {}
    with expected_warnings():
        for subject in subjects:
            rows += measure(subject, settings["seconds"], said)
            said(f"{subject.name}: memory")
            found += peaks(subject, sizes_of(subject))
            wrapping[subject.name] = wrap_seconds(subject.deep)
            if subject.short is not None and subject.name.partition(",")[0] not in grown:
                said(f"{subject.name}: {RUNS} runs")
                name = subject.name.partition(",")[0]
                grown[name] = growth(subject.short, lambda model, side: draw(model, 2, side=side, guidance=1.0))
        for subject in subjects:
            if subject.name in EAGER:
                measured, off[subject.name] = compiling(subject, settings["seconds"] / 2, said)
                compiled += measured
        sizes = {name: settings[name] for name in ("width", "blocks", "side") if name in settings}
        others = list(other_sizes(settings["seconds"], **sizes, said=said)) if scaling else []
    importing, light = import_seconds()
    return Report(
        made_with=made_with(families, weights=False),
        date=datetime.date.today().isoformat(),
        settings=settings | {"runs": RUNS},
        rows=rows,
        scaling=others,
        compiled=compiled,
        compiled_off=off,
        peaks=found,
        growth=grown,
        wrapping=wrapping,
        importing=importing,
        import_is_light=light is False,
    )


def _write(report: Report, out: Path) -> None:
    import mlx.core as mx

    from teacache.bench.blocks import page_of, with_block
    from teacache.bench.speed_page import tables
    from teacache.bench.speed_report import claims, numbers

    device = "metal" if mx.default_device() == mx.gpu else "cpu"
    data = out.with_suffix(".json")
    # Real weights have a place of their own: figures of small models and of theirs are not to be mixed.
    place = f"{device} weights" if "model" in report.settings else device
    page = with_block(page_of(out, "Speed", place), place, tables(report))
    kept = json.loads(data.read_text(encoding="utf-8")) if data.exists() else {}
    kept.pop("claims", None)
    kept[place] = numbers(report)
    kept["claims"] = [claim for measured in kept.values() for claim in measured["claims"]]
    write_text(data, json.dumps(kept, indent=1) + "\n")
    write_text(out, page)
    counted: dict[str, int] = {}
    for claim in claims(report):
        counted[claim["status"]] = counted.get(claim["status"], 0) + 1
    typer.echo(f"Targets: {', '.join(f'{count} {status}' for status, count in sorted(counted.items()))}")
    typer.echo(f"{out}, {data.name}")
