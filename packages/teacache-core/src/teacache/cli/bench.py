"""`teacache bench`: the benchmarks behind the tables of the documentation."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teacache.cli import bench_peers, bench_speed
from teacache.cli.console import examples, progress, quiet_libraries
from teacache.cli.files import check_path, write_text
from teacache.cli.lines import Lines
from teacache.errors import OptionError

if TYPE_CHECKING:
    from teacache.bench.rows import Row, Settings

bench = typer.Typer(rich_markup_mode=None)


@bench.callback(invoke_without_command=True, epilog=examples("teacache bench frontier --toys flux2 --prompts 1"))
def root(context: typer.Context) -> None:
    """Run the benchmarks behind the documentation's tables."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


bench.command(short_help="Measure what the cache costs per step.", epilog=examples(*bench_speed.EXAMPLES))(
    bench_speed.speed
)
bench.command(short_help="Compare with other step caches.", epilog=examples(*bench_peers.EXAMPLES))(bench_peers.peers)


@bench.command(
    epilog=examples(
        "teacache bench frontier --out docs/frontier.md", "teacache bench frontier --toys flux2 --prompts 1"
    )
)
def frontier(
    toys: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Whose toys, with commas between. Default: all that are trained."),
    ] = None,
    prompts: Annotated[int, typer.Option(min=1, metavar="N", help="Scenes, none of which is recorded.")] = 5,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Pictures of each scene.")] = 2,
    steps: Annotated[int, typer.Option(min=12, metavar="N", help="Steps of the plain picture.")] = 30,
    guidance: Annotated[float, typer.Option(min=0, metavar="X", help="Strength of guidance; 1 or less: off.")] = 2.0,
    transfer: Annotated[bool, typer.Option(help="Also plan 20 and 50 steps from the same kernel.")] = True,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page; its JSON and plot go beside it.")] = Path(
        "frontier.md"
    ),
) -> None:
    """Compare plan, gate and other ways to spend fewer model calls.

    Every way makes the same pictures at 1.5x, 2x, 3x and 4x; each is compared with the plain picture and with one of
    four times the steps. This takes minutes for each scene. Ctrl-C loses nothing: the same command goes on.
    """
    check_path(out, "--out")
    if out.suffix != ".md":
        raise OptionError(f"--out {out} was given for the page; expected a name that ends in .md.")
    with quiet_libraries(), progress() as bar:
        from teacache.bench.frontier import Toy, made_with
        from teacache.bench.rows import Row, Settings, cases
        from teacache.cli.toys import families_of, load_toy, trained_families

        trained = trained_families()
        for name in families_of(toys, trained):
            if name not in trained:
                load_toy(name)  # says what is wrong with it, before anything is written
        settings = Settings(prompts=prompts, seeds=seeds, steps=steps, guidance=guidance, transfer=transfer)
        families = families_of(toys, trained)
        versions = made_with(families)
        lines = Lines(out.with_suffix(".lines.jsonl"), {**asdict(settings), "toys": families, "made_with": versions})
        done = {(row["toy"], row["prompt"], row["seed"]) for case in lines.rows for row in case["rows"][:1]}
        _, compared = cases(settings)
        task = bar.add_task("loading", total=len(families) * len(compared), completed=len(done))

        def said(doing: str) -> None:
            bar.update(task, description=doing)

        with lines.resumable():
            for family in families:
                left = [case for case in compared if (family, case.prompt, case.seed) not in done]
                if not left:
                    continue
                toy = Toy(family, load_toy(family), settings)
                numbers = toy.record(said)
                for case in left:
                    lines.append({"rows": [asdict(row) for row in toy.compare(case, numbers, said)]})
                    bar.advance(task)
            rows = [Row(**row) for case in lines.rows for row in case["rows"]]
            _write(rows, settings, versions, out)
        lines.path.unlink()


def _write(rows: list[Row], settings: Settings, versions: str, out: Path) -> None:
    from teacache.bench import frontier_page
    from teacache.bench.summary import verdicts
    from teacache.report.files import save_png

    drawing, data = out.with_suffix(".png"), out.with_suffix(".json")
    save_png(frontier_page.picture(rows, settings), drawing)
    write_text(data, frontier_page.numbers(rows, settings, made_with=versions))
    write_text(out, frontier_page.page(rows, settings, made_with=versions, picture=drawing.name))
    for verdict in verdicts(rows, settings):
        typer.echo(
            f"{verdict.toy}, {verdict.asked} of {settings.steps} computed: {verdict.wins} of {verdict.pairs} won, "
            f"{verdict.gain:+.1f} dB over fewer steps, {verdict.over_gate:+.1f} dB over the gate, "
            f"{verdict.over_linear:+.1f} dB over it with linear residuals"
        )
    typer.echo(f"{out}, {data.name}, {drawing.name}")
