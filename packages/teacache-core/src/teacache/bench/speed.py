"""The speed benchmark: what the cache costs and saves per step, in ratios of paired times. Must not import mflux.

Groups of pictures are drawn in lockstep. Those of the whole model give the cost of a step that is not computed, and the
speedup. The short group (the same model cut to two blocks) gives what a computed step costs more than a plain one: that
is a fixed amount, whatever the number of blocks, and on short steps it drowns less in noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

import teacache
from teacache.bench.lockstep import Drawn, Way, in_lockstep
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
        floor: the same cut to its first block, where the signal is read behind that block; None elsewhere.
    """

    name: str
    deep: Any
    short: Any | None
    draw: Callable[[Any, int], Any]
    floor: Any | None = None


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
        seconds: about how long it may take; twelve rounds of each group, twenty of the one that reuses, are drawn in
            any case.
        said: told what is done.
        brief: only what is not computed on the whole model, and the gate's overhead on the short one.
    """
    said(f"{subject.name}: trying")
    step = step_seconds(subject, subject.deep)
    cut = subject.short is not None
    whole = ["gate", "plan"] if brief else ["gate", "linear", "plan"]
    never = [] if brief else ["plan of all", "gate, never"] if cut else ["off", "plan of all", "gate, never"]

    def drawn(
        model: Any, names: Sequence[str], seconds: float, step: float, per_round: float, least: int = 12
    ) -> dict[str, Drawn]:
        count = rounds(seconds, step, per_round, least=least)
        return in_lockstep(ways(count, *names), model, lambda model: subject.draw(model, count), steps=count)

    said(f"{subject.name}: whole model, reusing")
    reusing = drawn(subject.deep, whole, seconds * 0.3, step, 1 + 0.5 * len(whole), least=20)
    computing = None
    if never:
        said(f"{subject.name}: whole model, computing")
        computing = drawn(subject.deep, never, seconds * (0.1 if cut else 0.7), step, 1 + len(never))
    short = None
    if cut:
        said(f"{subject.name}: two blocks of it")
        fine = ["gate, never"] if brief else ["off", "plan of all", "gate, never"]
        short = drawn(subject.short, fine, seconds * 0.6, step_seconds(subject, subject.short), 1 + len(fine))
    floor = None if subject.floor is None else step_seconds(subject, subject.floor, steps=12)
    return figures(subject.name, reusing, computing, short, floor=floor)


def step_seconds(subject: Subject, model: Any, *, steps: int = 4) -> float:
    """Returns the length of a plain step, once everything is compiled."""
    drawn = in_lockstep([Way(name="plain")], model, lambda model: subject.draw(model, steps), steps=steps)
    return float(np.median(drawn["plain"].wall[2:]))
