"""What `teacache compare` is asked for: model, prompts and seeds, and the same as a command. Imports nothing heavy."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from teacache.cli.source import prompts_for
from teacache.errors import OptionError, UnknownModelError

if TYPE_CHECKING:
    from teacache.calibration.record import Case


def source_named(name: str | None, toy: str | None, model: str | None) -> tuple[str | None, str | None]:
    """Returns the toy and the model that are asked for: a name that is a toy's, then one of real weights.

    Raises:
        OptionError: none was given, or several.
    """
    if name is None:
        return toy, model
    if toy is not None or model is not None:
        raise OptionError(f"{name} was given, and --toy or --model too. Give one of them.")
    return (name, None) if name in toy_names() else (None, name)


def toy_names() -> list[str]:
    """Returns the families whose installed adapters bring a toy."""
    from teacache.plugins import adapters

    return [row.name for row in adapters() if row.adapter is not None and row.adapter.toy is not None]


def unknown_name(name: str, why: UnknownModelError) -> UnknownModelError:
    """Returns what to say of a name that is neither a toy's nor a model's."""
    return UnknownModelError(f"{name} is none of the toys here ({', '.join(toy_names()) or 'none'}). As a model: {why}")


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
