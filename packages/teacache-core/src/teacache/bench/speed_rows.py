"""The figures of the speed benchmark: from times of steps to costs, overheads and speedups. Imports no mflux."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from teacache.bench.lockstep import Drawn
from teacache.bench.paired import Estimate, Times, Verdict, decide, ratio, share

WARM = 4
"""Steps at the start that are not counted: pieces are traced and compiled there."""

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
        floor: of a cost: the share of a plain step that the model's refiners and first block take by themselves, where
            the signal is read behind that block; `target` holds it already.
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
    floor: float | None = None
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


def figures(
    model: str,
    deep: dict[str, Drawn],
    computing: dict[str, Drawn] | None,
    short: dict[str, Drawn] | None,
    *,
    floor: float | None = None,
) -> list[Row]:
    """Returns the figures of one model.

    Args:
        model: its name.
        deep: what the whole model's pictures came to that reuse, by the names of `speed.ways`.
        computing: the same of those that compute every step; None where there are none.
        short: the same of the model that is cut to two blocks; None where there is none.
        floor: seconds of a plain step of the model cut to its first block, where a reused step has to run that.
    """
    computing = computing or {}
    rows = []
    overheads: dict[str, dict[Clock, Estimate]] = {}
    targets = {"off": OFF_TARGET, "plan of all": PLAN_TARGET, "gate, never": GATE_TARGET}
    for name, target in targets.items():
        if name not in (computing if short is None else short):
            continue
        whole = None
        if name in computing:
            whole = {
                clock: ratio(*_pair(computing, name, "compute", clock)).mapped(lambda x: x - 1) for clock in CLOCKS
            }
        if short is not None:
            found = {clock: share(*_pair(short, name, "compute", clock), _plain(deep, clock)) for clock in CLOCKS}
        else:
            assert whole is not None  # noqa: S101 - the name is in it
            found, whole = whole, None
        overheads[name] = found
        rows.append(
            Row(
                model=model,
                figure=name,
                unit="overhead",
                wall=found["wall"],
                cpu=found["cpu"],
                direct=None if whole is None else whole["wall"],
                target=target,
                steps=found["wall"].pairs,
            )
        )
    for name, target in (("gate", REUSED_TARGET), ("linear", REUSED_TARGET), ("plan", CARRIED_TARGET)):
        if name not in deep:
            continue
        least = None if floor is None or name == "plan" else floor / float(np.median(_plain(deep, "wall")))
        cost = {clock: ratio(*_pair(deep, name, "reuse", clock)) for clock in CLOCKS}
        steps, reused = _counts(deep[name])
        rows.append(
            Row(
                model=model,
                figure=name,
                unit="cost",
                wall=cost["wall"],
                cpu=cost["cpu"],
                target=target + (least or 0.0),
                floor=least,
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
