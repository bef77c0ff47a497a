"""The speed benchmark: what the cache costs and saves per step, in ratios of paired times. Must not import mflux.

Two groups of pictures are drawn in lockstep. The deep group (the whole model) gives the cost of a step that is not
computed, and the speedup. The short group (the same model cut to two blocks) gives what a computed step costs more
than a plain one: that is a fixed amount, whatever the number of blocks, and on short steps it drowns less in noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

import teacache
from teacache.bench.lockstep import Way, in_lockstep
from teacache.bench.speed_rows import Row, figures

ONE: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 1.0)
"""The polynomial that predicts a change of 1 whatever the signal: the threshold alone says what is reused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is measured.

    Attributes:
        name: as the tables show it.
        deep: the whole model's pipeline.
        short: the same cut to two blocks; None for real weights.
        draw: makes a picture in so many steps, (pipeline, steps) to whatever.
    """

    name: str
    deep: Any
    short: Any | None
    draw: Callable[[Any, int], Any]


def ways(steps: int, *names: str) -> list[Way]:
    """Returns the ways that have these names, plain always first.

    "off": threshold 0; "plan of all": every step computed by a plan; "gate, never": the gate runs and never reuses;
    "gate", "linear", "plan": every second step is reused.
    """
    options: dict[str, dict[str, Any]] = {
        "off": {"threshold": 0.0},
        "plan of all": {"plan": range(steps)},
        "gate, never": {"coefficients": ONE, "threshold": 0.5},
        "gate": {"coefficients": ONE, "threshold": 1.5},
        "linear": {"coefficients": ONE, "threshold": 1.5, "reconstruction": "linear"},
        "plan": {"plan": range(0, steps, 2)},
    }
    return [Way(name="plain"), *(Way(name=name, wrap=wrapping(options[name]), actions=taken) for name in names)]


def wrapping(options: dict[str, Any]) -> Callable[[Any], AbstractContextManager[Any]]:
    """Returns what wraps a model with these options."""
    return lambda model: teacache.wrap(model, **options)


def taken(handle: teacache.Handle) -> Sequence[str]:
    """Returns what the last run did on each step."""
    assert handle.stats.last is not None  # noqa: S101 - the picture is made
    return [record.action for record in handle.stats.last.records]


def rounds(seconds: float, step: float, steps_per_round: float, *, least: int = 12) -> int:
    """Returns how many rounds fit, an even number."""
    return max(least, min(400, int(seconds / (step * steps_per_round)))) // 2 * 2


def measure(
    subject: Subject, seconds: float, said: Callable[[str], None] = lambda doing: None, *, brief: bool = False
) -> list[Row]:
    """Measures one model.

    Args:
        subject: the model.
        seconds: about how long it may take; twelve rounds of each group are drawn in any case.
        said: told what is done.
        brief: only what is not computed on the whole model, and the gate's overhead on the short one.
    """
    said(f"{subject.name}: trying")
    step = step_seconds(subject, subject.deep)
    cut = subject.short is not None
    said(f"{subject.name}: whole model")
    never = ["plan of all", "gate, never"] if cut else ["off", "plan of all", "gate, never"]
    names = ["gate", "plan"] if brief else ["gate", "linear", "plan", *never]
    per_round = 1 + sum(1 if name in never else 0.5 for name in names)
    count = rounds(seconds * (0.5 if cut else 1.0), step, per_round)
    deep = in_lockstep(ways(count, *names), subject.deep, lambda model: subject.draw(model, count), steps=count)
    short = None
    if cut:
        said(f"{subject.name}: two blocks of it")
        fine = ["gate, never"] if brief else ["off", "plan of all", "gate, never"]
        number = rounds(seconds * 0.5, step_seconds(subject, subject.short), 1 + len(fine))
        paired = ways(number, *fine)
        short = in_lockstep(paired, subject.short, lambda model: subject.draw(model, number), steps=number)
    return figures(subject.name, deep, short)


def step_seconds(subject: Subject, model: Any) -> float:
    """Returns the length of a plain step, once everything is compiled."""
    drawn = in_lockstep([Way(name="plain")], model, lambda model: subject.draw(model, 4), steps=4)
    return float(np.median(drawn["plain"].wall[2:]))
