"""`teacache check`: puts the four questions to the toys, or to a model with its real weights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from teacache.cli.console import quiet_libraries
from teacache.errors import OptionError

if TYPE_CHECKING:
    from teacache.testing.oracles import Result, Subject

EXAMPLES = (
    "teacache check",
    "teacache check flux2 --only neutrality",
    "teacache check --model dev --quantize 4 --prompt 'a red fox in the snow'",
)

ORACLES = ("drift", "neutrality", "equivalence", "quality")


def check(
    families: Annotated[
        list[str] | None, typer.Argument(metavar="[FAMILY]...", help="Adapters. Default: all that are installed.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help=f"One of {', '.join(ORACLES)}. Repeat it for several.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Real weights, by mflux's name. Default: the toys.")
    ] = None,
    quantize: Annotated[int | None, typer.Option(metavar="BITS", help="Of the real weights.")] = None,
    prompt: Annotated[str, typer.Option(metavar="TEXT", help="With --model.")] = "a red fox in the snow",
    size: Annotated[int, typer.Option(min=64, metavar="PIXELS", help="Side of the picture, with --model.")] = 512,
    steps: Annotated[
        int | None, typer.Option(min=6, metavar="N", help="Default: 6 for toys, those of the calibration for a model.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of the picture, with --model.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Ask whether the cache tells the truth on this machine.

    Drift: has a file, revision or version moved? Neutrality: does a wrapper that is set to change nothing change
    nothing? Equivalence: is the traced path the model's own, and a reused step what the rule says? Quality: are steps
    reused, and is the picture still the same? The exit code is 1 if an answer is no.
    """
    wanted = tuple(only or ORACLES)
    unknown = [name for name in wanted if name not in ORACLES]
    if unknown:
        raise OptionError(f"--only {unknown[0]}: there is no such oracle; there are {', '.join(ORACLES)}.")
    if model is None and quantize is not None:
        raise OptionError("--quantize is for real weights. Name them: --model NAME.")
    results: list[Result] = []
    with quiet_libraries():
        for subject, quality in _subjects(families or [], model, quantize, prompt, size, steps, seed):
            for name in ORACLES:
                if name in wanted:
                    results.append(_asked(name, subject, quality))
                    if not as_json:
                        typer.echo(f"{results[-1]}\n")
    if as_json:
        typer.echo(json.dumps([json.loads(result.to_json()) for result in results], indent=2))
    if any(result.failures for result in results):
        raise typer.Exit(1)


def _subjects(
    families: list[str], model: str | None, quantize: int | None, prompt: str, size: int, steps: int | None, seed: int
) -> list[tuple[Subject, dict[str, Any]]]:
    """The subjects, each with what quality is asked for."""
    from teacache.plugins import adapters
    from teacache.testing.models import find_model, model_subject, toy_subject
    from teacache.testing.oracles.quality import EXPECTED
    from teacache.testing.oracles.subject import FORCED

    if model is not None:
        adapter, calibration, _ = find_model(model)
        if families and families != [adapter.name]:
            raise OptionError(f"--model {model} belongs to {adapter.name}; leave {' '.join(families)} out.")
        steps = steps or (25 if calibration.recipe is None else calibration.recipe.steps)
        arguments = {"prompt": prompt, "height": size, "width": size}
        band = EXPECTED.get((calibration.checkpoint, steps), (1, steps - 2))
        subject = model_subject(model, quantize=quantize, arguments=arguments, steps=steps, seed=seed)
        return [(subject, {"band": band})]
    names = families or [row.name for row in adapters() if row.adapter is not None and row.adapter.toy]
    if not names:
        raise OptionError("No installed adapter brings a toy. Install one, for example: pip install teacache-flux2")
    steps = steps or 6
    return [(toy_subject(name, steps=steps), {"band": (1, steps - 2), "options": FORCED}) for name in names]


def _asked(name: str, subject: Subject, quality: dict[str, Any]) -> Result:
    from teacache.testing import oracles

    if name == "drift":
        return oracles.drift(subject.adapter)
    if name == "neutrality":
        return oracles.neutrality(subject)
    return oracles.equivalence(subject) if name == "equivalence" else oracles.quality(subject, **quality)
