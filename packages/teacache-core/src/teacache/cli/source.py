"""The model that a command measures: a toy, or real weights by mflux's name. Heavy imports inside functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from teacache.errors import OptionError

if TYPE_CHECKING:
    from PIL.Image import Image

    from teacache.calibration.record import Case

ToyName = Annotated[str | None, typer.Option("--toy", metavar="NAME", help="A toy, for example flux2.")]
ModelName = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="Real weights, by mflux's name or path.")
]
Base = Annotated[str | None, typer.Option("--base", metavar="NAME", help="What a model of your own derives from.")]
Quantize = Annotated[int | None, typer.Option("--quantize", metavar="BITS", help="Of the real weights.")]
Steps = Annotated[
    int | None, typer.Option("--steps", min=8, metavar="N", help="Of the plain picture. Default: 30; 25 with --model.")
]
Guidance = Annotated[
    float | None, typer.Option("--guidance", min=0, metavar="X", help="Its strength. Default: 2; 4 with --model.")
]
Size = Annotated[int, typer.Option("--size", min=64, metavar="PIXELS", help="Side of the picture, with --model.")]
PromptFile = Annotated[
    Path | None,
    typer.Option("--prompts-file", metavar="FILE", help="One prompt a line. Default: drawn scenes; a list of ours.",
                 exists=True, dir_okay=False),
]  # fmt: skip
Seed = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Of the first picture; the others count up.")]

PROMPTS = (
    "a red fox in the snow, morning light",
    "portrait of an old fisherman, wrinkles, studio light",
    "a bowl of oranges on a blue table, oil painting",
    "city street at night in the rain, neon signs",
    "a watercolor map of an island with mountains",
    "close-up of a bee on a sunflower",
    "an empty library with tall windows, dust in the air",
    "a poster that says OPEN in large letters",
    "a wooden boat on a calm lake, fog",
    "isometric drawing of a small workshop",
    "a black cat asleep on a red sofa",
    "desert dunes at sunset, long shadows",
)
"""Different subjects, styles and compositions, for models that take any prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What pictures are made with.

    Attributes:
        name: for messages and files.
        model: the pipeline.
        steps: of the plain picture.
        guidance: its strength.
        size: side of the picture in pixels.
        quantize: bits of the weights, None where they are not quantised.
    """

    name: str
    model: Any
    steps: int
    guidance: float
    size: int
    quantize: int | None

    def make(self, case: Case, steps: int) -> Image:
        """Makes one picture."""
        made = self.model.generate_image(
            seed=case.seed,
            prompt=case.prompt,
            num_inference_steps=steps,
            width=self.size,
            height=self.size,
            guidance=self.guidance,
        )
        return made.image


def check_source(toy: str | None, model: str | None, base: str | None, quantize: int | None) -> None:
    """Tells before anything is loaded that the options contradict each other.

    Raises:
        OptionError: they do.
    """
    if (toy is None) is (model is None):
        raise OptionError(
            "Give one of --toy NAME (for example --toy flux2) and --model NAME (for example --model dev)."
        )
    if model is None and (base is not None or quantize is not None):
        raise OptionError("--base and --quantize are for real weights. Name them: --model NAME.")


def open_source(
    toy: str | None,
    model: str | None,
    *,
    base: str | None,
    quantize: int | None,
    steps: int | None,
    guidance: float | None,
    size: int,
) -> Source:
    """Loads what is asked for.

    Raises:
        TeaCacheError: there is no such toy or model, its pipeline needs more than a prompt, its weights are not here.
    """
    if toy is not None:
        from teacache.cli.toys import load_toy

        return Source(
            name=toy, model=load_toy(toy), steps=steps or 30, guidance=2.0 if guidance is None else guidance, size=128,
            quantize=None,
        )  # fmt: skip
    from teacache.testing.models import find_class, find_model, load

    name = str(model)
    adapter, calibration, config = find_model(base or name)
    if base is not None:
        config = type(config).from_name(model_name=name, base_model=base)
    pipeline = next(one for one in adapter.pipelines if one.name in calibration.pipelines)
    if pipeline.summary != "text-to-image":
        raise OptionError(
            f"--model {name} is served by {pipeline.name} ({pipeline.summary}), which needs more than a prompt. Wrap "
            "it with speedup= instead: its first picture is the recording."
        )
    loaded = load(find_class(pipeline.cls), config, quantize)
    return Source(
        name=name,
        model=loaded,
        steps=steps or 25,
        guidance=4.0 if guidance is None else guidance,
        size=size,
        quantize=quantize,
    )


def prompts_for(toy: str | None, count: int, file: Path | None) -> list[str]:
    """Returns so many different prompts.

    Raises:
        OptionError: there are not as many.
        ToyPromptError: a toy cannot read one.
    """
    if file is not None:
        found: Sequence[str] = _lines_of(file)
    elif toy is None:
        found = PROMPTS
    else:
        return _drawn(count)
    if toy is not None:
        from teacache.testing.toys.scenes import parse

        for prompt in found:
            parse(prompt)
    if len(found) < count:
        where = "the built-in list" if file is None else str(file)
        raise OptionError(
            f"{count} prompts are needed, and {where} has {len(found)}. Give --prompts-file FILE with more."
        )
    return list(found[:count])


def _lines_of(file: Path) -> list[str]:
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"--prompts-file {file} cannot be read as text ({error}). Give one prompt a line.") from error
    return list(dict.fromkeys(filter(None, map(str.strip, lines))))


def _drawn(count: int) -> list[str]:
    import numpy as np

    from teacache.testing.toys.scenes import random_scene

    rng = np.random.default_rng(5)
    texts: dict[str, None] = {}
    while len(texts) < count:
        texts[random_scene(rng).prompt] = None
    return list(texts)
