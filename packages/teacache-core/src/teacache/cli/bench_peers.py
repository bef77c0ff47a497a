"""`teacache bench peers`: this cache beside others, in one run, into the documentation's page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teacache.cli.bench_speed import Blocks, Families, Side, Width
from teacache.cli.console import progress, quiet_libraries
from teacache.cli.files import check_path, write_text
from teacache.errors import OptionError

if TYPE_CHECKING:
    from teacache.bench.peers_page import PeersReport

EXAMPLES = ("teacache bench peers --out docs/peers.md", "teacache bench peers --toys flux2 --seconds 10")


def peers(
    toys: Families = None,
    seconds: Annotated[float, typer.Option(min=1, metavar="S", help="For the times of each model, about.")] = 45,
    width: Width = 512,
    blocks: Blocks = 8,
    side: Side = 256,
    pictures: Annotated[int, typer.Option(min=1, metavar="N", help="Pictures of each trained toy.")] = 4,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page; its JSON goes beside it.")] = Path("peers.md"),
) -> None:
    """Compare with mlx-teacache and mflux's StepCache rule: time, memory, exactness, pictures.

    mlx-teacache must be installed beside it; `nox -s peers` makes such an environment.
    """
    check_path(out, "--out")
    if out.suffix != ".md" or width % 128:
        raise OptionError(f"--out {out} and --width {width} were given; expected a name in .md, a multiple of 128.")
    with quiet_libraries(), progress() as bar:
        from teacache.bench.peers_run import run
        from teacache.cli.toys import families_of, trained_families

        task = bar.add_task("loading", total=None)
        report = run(
            families_of(toys, trained_families()),
            seconds=seconds,
            width=width,
            blocks=blocks,
            side=side,
            count=pictures,
            said=lambda doing: bar.update(task, description=doing),
        )
    _write(report, out)


def _write(report: PeersReport, out: Path) -> None:
    from teacache.bench.blocks import page_of, with_block
    from teacache.bench.peers_page import peers_numbers, peers_tables

    page = with_block(page_of(out, "Beside other caches", "peers"), "peers", peers_tables(report))
    write_text(out.with_suffix(".json"), json.dumps(peers_numbers(report), indent=1) + "\n")
    write_text(out, page)
    for row in report.comparisons:
        if row.verdict is not None:
            typer.echo(f"{row.model}, {row.figure}: never slower than the peer: {row.verdict}")
    typer.echo(f"{out}, {out.with_suffix('.json').name}")
