"""The cache beside other caches, in one run: mlx-teacache where it is installed, mflux's StepCache rule on our loops.

Must not import mflux. mlx-teacache is used through its public API alone.
"""

from __future__ import annotations

import copy
import importlib
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from teacache.bench.lockstep import Drawn, Way, in_lockstep
from teacache.bench.paired import Estimate, Times, Verdict, decide, ratio, share
from teacache.bench.speed import Subject, rounds, step_seconds, taken, wrapping
from teacache.bench.speed_rows import WARM
from teacache.errors import MissingDependencyError

PEER = "mlx-teacache"
OURS = "teacache"

HALF: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.5)
"""The polynomial that predicts a change of one half whatever the signal."""
NEVER, SECOND = 0.25, 0.75
"""Thresholds at which nothing and every second step is reused by it."""

NAMES = {"flux1": "dev", "flux2": "flux2-klein-base-4b", "qwen": "qwen-image", "zimage": "z-image"}
"""mflux's names of the checkpoints under which mlx-teacache takes the models."""

COMPILED = {"flux2", "zimage"}
"""Families whose step mflux compiles. mlx-teacache runs them eagerly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One figure of one model, both caches against the same plain steps.

    Attributes:
        model: which, as the tables show it.
        figure: what is compared.
        ours: this cache's.
        theirs: mlx-teacache's.
        between: ours over theirs, or the difference of two shares; None where the two columns say it all.
        verdict: of "never slower": `between` lies below 1 as a whole; None where nothing is asked.
    """

    model: str
    figure: str
    ours: Estimate
    theirs: Estimate
    between: Estimate | None = None
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exactness:
    """How far the last latents of a picture without any reuse are from plain mflux's.

    Attributes:
        model: which, as the tables show it.
        ours: largest difference with this cache; 0 where they are equal bit for bit.
        theirs: the same with mlx-teacache.
    """

    model: str
    ours: float
    theirs: float


def named(model: Any, family: str) -> Any:
    """Gives a model the configuration of the family's real checkpoint, by which mlx-teacache knows it."""
    from teacache.testing.models import find_model

    model.model_config = copy.copy(find_model(NAMES[family])[2])
    return model


def applied(**options: Any) -> Callable[[Any], AbstractContextManager[Any]]:
    """Returns what puts mlx-teacache around a model.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        peer = importlib.import_module("mlx_teacache")
    except ImportError as error:
        raise MissingDependencyError(
            f"{PEER} is not installed here; the comparison needs it. Run: nox -s peers, which makes an environment "
            "with it."
        ) from error

    def apply(model: Any) -> AbstractContextManager[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", peer.TeaCacheUntestedMfluxWarning)
            handle: AbstractContextManager[Any] = peer.apply_teacache(model, **options)
        return handle

    return apply


def taken_by_peer(handle: Any) -> Sequence[str]:
    """Returns what mlx-teacache did on each step of the last picture."""
    return ["reuse" if one.decision == "skipped" else "compute" for one in handle.stats.last_generation.decisions]


def both(threshold: float, *, ours: str, theirs: str, eager: bool = False) -> list[Way]:
    """Returns the plain way, and both caches' gates at the same coefficients and threshold."""
    options = {"coefficients": HALF, "threshold": threshold} | ({"compile": False} if eager else {})
    return [
        Way(name="plain"),
        Way(name=ours, wrap=wrapping(options), actions=taken),
        Way(name=theirs, wrap=applied(coefficients=HALF, rel_l1_thresh=threshold), actions=taken_by_peer),
    ]


def compare(
    subject: Subject, seconds: float, said: Callable[[str], None] = lambda doing: None, *, eager: bool = False
) -> tuple[list[Comparison], Exactness]:
    """Compares the two on one model, whose parts were given their names by `named`.

    Args:
        subject: the model.
        seconds: about how long it may take.
        said: told what is done.
        eager: teacache runs what mflux compiles eagerly, as mlx-teacache does.
    """
    name = f"{subject.name}, compile=False" if eager else subject.name
    said(f"{name}: every second step reused")
    count = rounds(seconds / 2, step_seconds(subject, subject.deep), 2)
    deep = in_lockstep(
        both(SECOND, ours=OURS, theirs=PEER, eager=eager),
        subject.deep,
        lambda model: subject.draw(model, count),
        steps=count,
    )
    said(f"{name}: nothing reused")
    number = rounds(seconds / 2, step_seconds(subject, subject.short), 3)
    short = in_lockstep(
        both(NEVER, ours=OURS, theirs=PEER, eager=eager),
        subject.short,
        lambda model: subject.draw(model, number),
        steps=number,
    )
    whole = deep["plain"].wall[WARM:]
    plain = short["plain"].wall[WARM:]
    overhead = {name: share(short[name].wall[WARM:], plain, whole) for name in (OURS, PEER)}
    cost = {name: ratio(*_reused(deep, name)) for name in (OURS, PEER)}
    speed = {name: ratio(*_stretches(deep, name)).mapped(lambda x: 1 / x) for name in (OURS, PEER)}
    ours, theirs = _stretches(deep, OURS)[0], _stretches(deep, PEER)[0]
    pairs = min(len(ours), len(theirs))
    between = ratio(ours[:pairs], theirs[:pairs])
    never = share(short[OURS].wall[WARM:], short[PEER].wall[WARM:], whole)
    found = [
        Comparison(
            model=name,
            figure="nothing reused: overhead over plain",
            ours=overhead[OURS],
            theirs=overhead[PEER],
            between=never,
            verdict=decide(never, 0.0, at_most=True),
        ),
        Comparison(model=name, figure="reused step, share of a plain one", ours=cost[OURS], theirs=cost[PEER]),
        Comparison(
            model=name,
            figure="every second step reused: speedup",
            ours=speed[OURS],
            theirs=speed[PEER],
            between=between,
            verdict=decide(between, 1.0, at_most=True),
        ),
    ]
    return found, Exactness(model=name, ours=_off(short, OURS), theirs=_off(short, PEER))


def _reused(drawn: dict[str, Drawn], name: str) -> tuple[Times, Times]:
    chosen = drawn[name].on("reuse", behind=WARM)
    return drawn[name].wall[chosen], drawn["plain"].wall[chosen]


def _stretches(drawn: dict[str, Drawn], name: str) -> tuple[Times, Times]:
    """The times of a computed step and the reused one behind it, and of the same plain steps."""
    actions = drawn[name].actions
    starts = [
        step for step in range(WARM, len(actions) - 1) if (actions[step], actions[step + 1]) == ("compute", "reuse")
    ]

    def sums(times: Times) -> Times:
        return np.array([times[step : step + 2].sum() for step in starts])

    return sums(drawn[name].wall), sums(drawn["plain"].wall)


def _off(drawn: dict[str, Drawn], name: str) -> float:
    return float(np.abs(drawn[name].latents - drawn["plain"].latents).max())
