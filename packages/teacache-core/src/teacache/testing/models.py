"""Subjects for the commands: the toy that an adapter brings, or a model with its real weights.

Imports mlx; mflux only inside functions.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from teacache.adapter import Adapter
from teacache.calibration import Calibration, load_calibrations
from teacache.errors import OptionError, UnknownModelError, WeightsError
from teacache.hosts import names_from_config
from teacache.identity import identify
from teacache.plugins import adapters, get_adapter, missing_package
from teacache.testing.fetching import why_not_fetched
from teacache.testing.oracles.subject import Subject
from teacache.testing.toys import scenes
from teacache.testing.toys.toy import WEIGHTS, find_toy, toy_pipeline

TOY_SIDE = 64


def toy_subject(family: str, *, steps: int, guidance: float = 2.0, side: int = TOY_SIDE) -> Subject:
    """The toy of an installed adapter, with its trained weights where the package has them, else with random ones."""
    adapter = get_adapter(family)
    trained = (files(find_toy(family).package) / WEIGHTS).is_file()
    arguments = {"prompt": scenes.EXAMPLES[0], "height": side, "width": side, "guidance": guidance}
    return Subject.of_mflux(
        adapter,
        lambda: toy_pipeline(family, weights=trained),
        arguments,
        steps=steps,
        name=f"the {family} toy ({'trained' if trained else 'random'} weights)",
    )


def toy_calibration(family: str) -> Calibration | None:
    """What was measured of the toy of an adapter; None where nothing was, or where its weights are not there."""
    adapter = get_adapter(family)
    if adapter.calibrations is None or not (files(find_toy(family).package) / WEIGHTS).is_file():
        return None
    return next((one for one in load_calibrations(adapter.calibrations) if one.matches(f"teacache/toy-{family}")), None)


def model_subject(
    model: str, *, quantize: int | None, arguments: Mapping[str, Any], steps: int, seed: int = 3
) -> Subject:
    """A model with its real weights, by any name that mflux knows. Nothing is loaded before it is made.

    Raises:
        UnknownModelError: mflux is not installed, or no installed adapter knows the checkpoint.
        OptionError: its pipeline needs more than a prompt.
    """
    adapter, calibration, config = find_model(model)
    pipeline = next(one for one in adapter.pipelines if one.name in calibration.pipelines)
    if pipeline.summary != "text-to-image":
        raise OptionError(
            f"--model {model} is served by {pipeline.name} ({pipeline.summary}), which needs more than a prompt. Ask "
            "the oracles from Python, with its pictures: teacache.testing.oracles.Subject.of_mflux."
        )

    def make() -> Any:
        return load(find_class(pipeline.cls), config, quantize)

    bits = "" if quantize is None else f", {quantize} bit"
    return Subject.of_mflux(
        adapter, make, arguments, steps=steps, seed=seed, name=f"{calibration.checkpoint} ({pipeline.name}{bits})"
    )


def find_model(model: str) -> tuple[Adapter, Calibration, Any]:
    """Returns the adapter, its knowledge of the checkpoint, and mflux's configuration for a name.

    Raises:
        UnknownModelError: mflux does not know the name, or no installed adapter the checkpoint.
    """
    if find_spec("mflux") is None:
        raise UnknownModelError(f"--model {model} needs mflux, which is not installed. Run: pip install mflux")
    from mflux.models.common.config.model_config import ModelConfig

    try:
        config = ModelConfig.from_name(model_name=model)
    except Exception as error:
        raise UnknownModelError(
            f"--model {model}: mflux does not know it ({error}). Give a name as mflux-generate --model takes it."
        ) from error
    names: list[str] = []
    for row in adapters():
        if row.status != "working" or row.adapter is None or row.adapter.calibrations is None:
            continue
        calibrations = load_calibrations(row.adapter.calibrations)
        known = identify(names_from_config(config), calibrations).calibration
        if known is not None and any(one.name in known.pipelines for one in row.adapter.pipelines):
            return row.adapter, known, config
        names += [one.aliases[0] for one in calibrations if one.aliases]
    package = missing_package(config.model_name)
    raise UnknownModelError(
        f"--model {model} is {config.model_name}, which no installed adapter knows. "
        + (f"Run: pip install {package}" if package else f"They know {', '.join(names) or 'none'}.")
    )


def load(cls: Any, config: Any, quantize: int | None) -> Any:
    """Loads a pipeline's weights; mflux downloads what is not there.

    Raises:
        WeightsError: they are not here and cannot be fetched: gated, no credentials, no network, no room.
    """
    try:
        return cls(model_config=config, quantize=quantize)
    except Exception as error:
        says = why_not_fetched(error, config.model_name)
        if says is None:
            raise
        raise WeightsError(f"The weights of {config.model_name} could not be loaded: {says}") from error


def find_class(reference: str) -> Any:
    """Returns the class that ``"package:Class"`` names, wherever it lies below the package."""
    package, _, name = reference.partition(":")
    spec = find_spec(package)
    roots = [] if spec is None else [Path(root) for root in spec.submodule_search_locations or ()]
    for root in roots:
        for path in sorted(root.rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if f"class {name}" in text and _defines(text, name):
                module = ".".join([package, *path.relative_to(root).with_suffix("").parts])
                return getattr(importlib.import_module(module), name)
    raise OptionError(f"{reference}: there is no such class in the installed {package.partition('.')[0]}.")


def _defines(text: str, name: str) -> bool:
    return any(isinstance(node, ast.ClassDef) and node.name == name for node in ast.parse(text).body)
