"""`teacache check`: puts the four questions to the toys, or to a model with its real weights."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from teacache.cli.console import quiet_libraries
from teacache.errors import OptionError

if TYPE_CHECKING:
    from teacache.testing.oracles import Expected, Result, Subject

EXAMPLES = (
    "teacache check",
    "teacache check flux2 --only neutrality",
    "teacache check --model dev --quantize 4 --prompt 'a red fox in the snow'",
)

ORACLES = ("drift", "neutrality", "equivalence", "quality")

PATH_STEPS = 8
"""Steps of the pictures that are compared byte for byte with real weights: some twenty, each as good with few steps."""


@dataclass(frozen=True)
class Asked:
    """One model and what it is asked.

    Attributes:
        paths: for neutrality and equivalence.
        picture: for quality, at the steps that its figures were measured at.
        expected: those figures.
    """

    paths: Subject
    picture: Subject
    expected: Expected


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
    size: Annotated[
        int | None,
        typer.Option(min=64, metavar="PIXELS", help="Side of the picture, with --model. Default: the calibration's."),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=6, metavar="N", help="Default: few for the paths, those of the calibration for quality."),
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
        if "drift" in wanted and not families:
            results.append(_core(as_json))
        for asked in _asked(families or [], model, quantize, prompt, size, steps, seed):
            for name in ORACLES:
                if name in wanted:
                    results.append(_ask(name, asked))
                    if not as_json:
                        typer.echo(f"{results[-1]}\n")
    if as_json:
        typer.echo(json.dumps([json.loads(result.to_json()) for result in results], indent=2))
    if any(result.failures for result in results):
        raise typer.Exit(1)


def _core(as_json: bool) -> Result:
    from teacache.testing.oracles import drift_of_core

    result = drift_of_core()
    if not as_json:
        typer.echo(f"{result}\n")
    return result


def _asked(
    families: list[str],
    model: str | None,
    quantize: int | None,
    prompt: str,
    size: int | None,
    steps: int | None,
    seed: int,
) -> list[Asked]:
    from teacache.plugins import adapters

    if model is not None:
        return [_real(families, model, quantize, prompt, size, steps, seed)]
    names = families or [row.name for row in adapters() if row.adapter is not None and row.adapter.toy]
    if not names:
        raise OptionError(
            "No installed adapter brings a toy. Install one, for example: pip install teacache-flux2, or in a clone: "
            "uv pip install -e packages/teacache-flux2"
        )
    return [_toy(name, steps) for name in names]


def _real(
    families: list[str],
    model: str,
    quantize: int | None,
    prompt: str,
    size: int | None,
    steps: int | None,
    seed: int,
) -> Asked:
    from teacache.testing.models import find_model, model_subject
    from teacache.testing.oracles import expected_of

    adapter, calibration, _ = find_model(model)
    if families and families != [adapter.name]:
        raise OptionError(f"--model {model} belongs to {adapter.name}; leave {' '.join(families)} out.")
    recipe = calibration.recipe
    side = size or (recipe.height if recipe else None) or 512
    arguments: dict[str, Any] = {"prompt": prompt, "height": side, "width": side}
    if recipe is not None:
        arguments["guidance"] = recipe.guidance
    wanted = steps or (recipe.steps if recipe else 25)
    picture = model_subject(model, quantize=quantize, arguments=arguments, steps=wanted, seed=seed)
    paths = model_subject(model, quantize=quantize, arguments=arguments, steps=steps or PATH_STEPS, seed=seed)
    return Asked(paths, picture, expected_of(calibration, steps=wanted))


def _toy(family: str, steps: int | None) -> Asked:
    from teacache.testing.models import toy_calibration, toy_subject
    from teacache.testing.oracles import Expected, expected_of
    from teacache.testing.oracles.subject import FORCED

    paths, calibration = toy_subject(family, steps=steps or 6), toy_calibration(family)
    if calibration is None or calibration.recipe is None:
        forced = Expected(
            band=(1, paths.steps - 2), options=FORCED, status="by construction", source="every third step"
        )
        return Asked(paths, paths, forced)
    recipe = calibration.recipe
    wanted = steps or recipe.steps
    picture = toy_subject(family, steps=wanted, guidance=recipe.guidance, side=recipe.height or 128)
    return Asked(paths, picture, expected_of(calibration, steps=wanted))


def _ask(name: str, asked: Asked) -> Result:
    from teacache.testing import oracles

    if name == "drift":
        return oracles.drift(asked.paths.adapter)
    if name == "neutrality":
        return oracles.neutrality(asked.paths)
    if name == "equivalence":
        return oracles.equivalence(asked.paths)
    expected = asked.expected
    return oracles.quality(
        asked.picture,
        band=expected.band,
        options=expected.options,
        least_ssim=expected.least_ssim,
        source=f"{expected.status}: {expected.source}",
    )
