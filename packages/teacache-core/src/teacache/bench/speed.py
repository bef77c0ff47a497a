"""The speed benchmark: what the cache costs and saves per step, in ratios of paired times. Must not import mflux.

Two groups of pictures are drawn in lockstep. The deep group (the whole model) gives the cost of a step that is not
computed, and the speedup. The short group (the same model cut to two blocks) gives what a computed step costs more
than a plain one: that is a fixed amount, whatever the number of blocks, and on short steps it drowns less in noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import teacache
from teacache.bench.lockstep import Drawn, Way, in_lockstep
from teacache.bench.paired import Estimate, Times, Verdict, decide, ratio, share

WARM = 4
"""Steps at the start that are not counted: pieces are traced and compiled there."""

ONE: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 1.0)
"""The polynomial that predicts a change of 1 whatever the signal: the threshold alone says what is reused."""

GATE_TARGET, PLAN_TARGET, OFF_TARGET = 0.02, 0.01, 0.01
REUSED_TARGET, CARRIED_TARGET, IDEAL_TARGET = 0.02, 0.005, 0.97

Clock = Literal["wall", "cpu"]
CLOCKS: tuple[Clock, ...] = ("wall", "cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure of one model.

    Attributes:
        model: which, as the tables show it.
        figure: what was measured.
        unit: "overhead" (share of a plain step, above it), "cost" (share of a plain step) or "speedup".
        wall: by wall time. This one decides.
        cpu: by CPU time of the process.
        direct: an overhead as paired with plain steps of the whole model; None where `wall` is that already.
        target: the bound, None where there is none.
        reused: how many of the counted steps were not computed.
        steps: how many were counted.
        ideal: of a speedup: N / (N - k), k of N steps reused.
        bound: of a speedup: N / (N - k (1 - c)), c the measured cost of a step that is not computed.
        kept: of a speedup: the share of `bound` that is left of the measured parts (c, and a computed step's overhead).
    """

    model: str
    figure: str
    unit: Literal["overhead", "cost", "speedup"]
    wall: Estimate
    cpu: Estimate
    direct: Estimate | None = None
    target: float | None = None
    reused: int = 0
    steps: int = 0
    ideal: float | None = None
    bound: float | None = None
    kept: Estimate | None = None

    @property
    def verdict(self) -> Verdict | None:
        """Whether the target is met."""
        if self.target is None:
            return None
        if self.unit != "speedup":
            return decide(self.wall, self.target, at_most=True, direct=self.direct)
        assert self.kept is not None and self.bound is not None  # noqa: S101 - every speedup has both
        bound = self.bound
        return decide(self.kept, self.target, at_most=False, direct=self.wall.mapped(lambda x: x / bound))


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
    return _rows(subject.name, deep, short)


def step_seconds(subject: Subject, model: Any) -> float:
    """Returns the length of a plain step, once everything is compiled."""
    drawn = in_lockstep([Way(name="plain")], model, lambda model: subject.draw(model, 4), steps=4)
    return float(np.median(drawn["plain"].wall[2:]))


def _rows(model: str, deep: dict[str, Drawn], short: dict[str, Drawn] | None) -> list[Row]:
    rows = []
    overheads: dict[str, dict[Clock, Estimate]] = {}
    targets = {"off": OFF_TARGET, "plan of all": PLAN_TARGET, "gate, never": GATE_TARGET}
    for name, target in targets.items():
        if name not in (deep if short is None else short):
            continue
        direct = None if name not in deep else ratio(*_pair(deep, name, "compute", "wall")).mapped(lambda x: x - 1)
        if short is None:
            found = {clock: ratio(*_pair(deep, name, "compute", clock)).mapped(lambda x: x - 1) for clock in CLOCKS}
            direct = None
        else:
            whole = {clock: _plain(deep, clock) for clock in CLOCKS}
            found = {clock: share(*_pair(short, name, "compute", clock), whole[clock]) for clock in CLOCKS}
        overheads[name] = found
        rows.append(
            Row(
                model=model,
                figure=name,
                unit="overhead",
                wall=found["wall"],
                cpu=found["cpu"],
                direct=direct,
                target=target,
                steps=found["wall"].pairs,
            )
        )
    for name, target in (("gate", REUSED_TARGET), ("linear", REUSED_TARGET), ("plan", CARRIED_TARGET)):
        if name not in deep:
            continue
        cost = {clock: ratio(*_pair(deep, name, "reuse", clock)) for clock in CLOCKS}
        steps, reused = _counts(deep[name])
        rows.append(
            Row(
                model=model,
                figure=name,
                unit="cost",
                wall=cost["wall"],
                cpu=cost["cpu"],
                target=target,
                steps=steps,
                reused=reused,
            )
        )
        beside = "plan of all" if name == "plan" else "gate, never"
        if beside not in overheads:
            continue
        overhead = overheads[beside]["wall"]
        rows.append(_speedup(model, name, deep, cost["wall"].value, overhead))
    return rows


def _speedup(model: str, name: str, deep: dict[str, Drawn], cost: float, overhead: Estimate) -> Row:
    """The speedup over the counted steps, paired by stretches of a computed step and the reused ones behind it."""
    drawn, plain = deep[name], deep["plain"]
    steps, reused = _counts(drawn)
    starts = [step for step in range(WARM, len(drawn.actions)) if drawn.actions[step] == "compute"]
    ends = [*starts[1:], len(drawn.actions)]
    whole = [(a, b) for a, b in zip(starts, ends, strict=True) if b - a > 1]

    def sums(times: Times) -> Times:
        return np.array([times[a:b].sum() for a, b in whole])

    found = {clock: ratio(sums(getattr(plain, clock)), sums(getattr(drawn, clock))) for clock in CLOCKS}
    length, of_them = whole[0][1] - whole[0][0], whole[0][1] - whole[0][0] - 1
    bound = length / (length - of_them * (1 - cost))
    kept = overhead.mapped(lambda o: (1 + of_them * cost) / (1 + o + of_them * cost))
    return Row(
        model=model,
        figure=name,
        unit="speedup",
        wall=found["wall"],
        cpu=found["cpu"],
        target=IDEAL_TARGET,
        reused=reused,
        steps=steps,
        ideal=length / (length - of_them),
        bound=bound,
        kept=kept,
    )


def _pair(drawn: dict[str, Drawn], name: str, action: str, clock: Clock) -> tuple[Times, Times]:
    """The times of the steps on which a way took this action, and of the same plain steps."""
    chosen = drawn[name].on(action, behind=WARM)
    return getattr(drawn[name], clock)[chosen], getattr(drawn["plain"], clock)[chosen]


def _plain(drawn: dict[str, Drawn], clock: Clock) -> Times:
    times: Times = getattr(drawn["plain"], clock)[WARM:]
    return times


def _counts(drawn: Drawn) -> tuple[int, int]:
    """How many steps are counted, and how many of them were not computed."""
    return len(drawn.actions) - WARM, int(drawn.on("reuse", behind=WARM).sum())
