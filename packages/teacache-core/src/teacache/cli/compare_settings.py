"""Settings of the cache as the command line has them, for example ``threshold=0.2 reconstruction=linear``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from teacache.cli.run_mflux import steps_of
from teacache.errors import OptionError, PlanError
from teacache.options import Options

DEFAULT = "default"
"""Stands for `wrap(model)` with no option."""


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


OPTIONS: dict[str, Callable[[str], Any]] = {
    "threshold": float,
    "speedup": float,
    "computed_steps": int,
    "plan": steps_of,
    "coefficients": _numbers,
    "reconstruction": str,
    "warmup": int,
    "cooldown": int,
    "max_reuse": int,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What `wrap` is given for some pictures.

    Attributes:
        label: as the user wrote it.
        options: as `teacache.wrap` takes them.
    """

    label: str
    options: dict[str, Any]

    def expected(self, steps: int) -> int:
        """Returns about how many of so many steps will be computed; of a gate nobody knows: a half."""
        if "computed_steps" in self.options:
            return min(steps, int(self.options["computed_steps"]))
        if "plan" in self.options:
            return min(steps, len({0, steps - 1, *self.options["plan"]}))
        return max(1, int(steps / self.options.get("speedup", 2.0)))


def parse_settings(texts: Sequence[str]) -> list[Setting]:
    """Reads all settings; one that is given twice counts once.

    Raises:
        OptionError: one is no setting, or has an impossible value.
    """
    return list({setting.label: setting for setting in map(parse_setting, texts)}.values())


def parse_setting(text: str) -> Setting:
    """Reads one setting: options of `teacache.wrap` with spaces between, or `default`.

    Raises:
        OptionError: it is none, or has an impossible value (ThresholdError, PlanError, CoefficientsError).
    """
    words = text.split()
    options: dict[str, Any] = {}
    for word in words if words != [DEFAULT] else []:
        name, equals, value = word.partition("=")
        if name not in OPTIONS or not equals or name in options:
            raise _wrong(text, f"{word!r} in it is not one of {', '.join(OPTIONS)} with a value, each once")
        try:
            options[name] = OPTIONS[name](value)
        except (ValueError, PlanError) as error:
            raise _wrong(text, f"{value!r} is no value of {name}") from error
    if not words:
        raise _wrong(text, "it is empty")
    Options(**options)
    return Setting(label=" ".join(words), options=options)


def _wrong(text: str, why: str) -> OptionError:
    return OptionError(
        f"--setting {text!r} was given, but {why}. Write for example --setting speedup=2 or "
        "--setting 'threshold=0.2 reconstruction=linear'."
    )
