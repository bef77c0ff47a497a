"""What the pictures of several caches are worth at the time that they take, on the trained toys. No mflux here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from teacache.bench.controls import step_cache_plan
from teacache.bench.frontier import Toy, matching_threshold
from teacache.bench.lockstep import Way, in_lockstep
from teacache.bench.paired import Estimate, ratio
from teacache.bench.peers import PEER, applied, named, taken_by_peer
from teacache.bench.rows import Case, Settings, cases
from teacache.bench.speed_rows import WARM
from teacache.bench.subjects import draw
from teacache.gated import GatedRun
from teacache.policies import Gate
from teacache.policies.kernel import Kernel
from teacache.policies.plan import plan_from_kernel
from teacache.report.quality import psnr
from teacache.run import Run, RunInfo
from teacache.session import Session
from teacache.steering import MakeRun, steered, target_tokens
from teacache.velocity import VelocityRun

SIDE, STEPS, GUIDANCE = 128, 30, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """One way on one toy, over some pictures.

    Attributes:
        model: the toy.
        way: how steps are saved.
        computed: mean of the steps on which the model ran.
        time: a step's mean time over a plain one's, first steps left out.
        psnr: mean against the plain pictures, in dB, at most 99.
        worst: the lowest.
    """

    model: str
    way: str
    computed: float
    time: Estimate
    psnr: float
    worst: float


def pictures(
    family: str,
    model: Any,
    *,
    computed: int,
    count: int,
    peer: bool,
    said: Callable[[str], None] = lambda doing: None,
) -> list[Worth]:
    """Compares the ways on the same pictures of a toy, `computed` of `STEPS` steps computed as nearly as each can.

    Args:
        family: whose toy.
        model: its pipeline, under its own name.
        computed: how many steps are computed.
        count: pictures.
        peer: mlx-teacache is compared too; the model then goes under the real checkpoint's name.
        said: told what is done.
    """
    settings = Settings(prompts=count, seeds=1, steps=STEPS, guidance=GUIDANCE, polynomial_prompts=2)
    toy = Toy(family, model, settings)
    said(f"{family}: recording")
    numbers = toy.record(said)
    recorded, compared = cases(settings)
    changes = toy.changes(recorded[0])
    threshold = matching_threshold(changes, numbers.coefficients, computed)
    if peer:
        named(model, family)

    def gated(info: RunInfo) -> Run:
        gate = Gate(info.steps, coefficients=numbers.coefficients, calibrated_range=None, threshold=threshold)
        return GatedRun(info, target=target_tokens(toy.adapter, info), policy=gate)

    ways = [
        Way(name="plain"),
        _ours("teacache, plan", lambda info: VelocityRun(info, plan=_planned(numbers.kernel, info, computed))),
        _ours("teacache, gate", gated),
        _ours(
            "mflux StepCache's rule",
            lambda info: VelocityRun(info, plan=step_cache_plan(info.active_sigmas, computed)),
        ),
    ]
    if peer:
        options = {"coefficients": numbers.coefficients, "rel_l1_thresh": min(threshold, 1.0)}
        ways.append(Way(name=PEER, wrap=applied(**options), actions=taken_by_peer))
    found: dict[str, list[tuple[int, np.ndarray[Any, Any], float]]] = {}
    base: list[np.ndarray[Any, Any]] = []
    for case in compared:
        said(f"{family}: {case.prompt}")
        drawn = in_lockstep(ways, model, _drawing(case), steps=STEPS)
        plain = drawn["plain"]
        base.append(plain.wall[WARM:])
        for name, one in drawn.items():
            worth = min(psnr(plain.picture.image, one.picture.image), 99.0)
            found.setdefault(name, []).append((one.actions.count("compute"), one.wall[WARM:], worth))
    return [
        Worth(
            model=family,
            way=name,
            computed=float(np.mean([row[0] for row in rows])),
            time=ratio([row[1].sum() for row in rows], [times.sum() for times in base]),
            psnr=float(np.mean([row[2] for row in rows])),
            worst=min(row[2] for row in rows),
        )
        for name, rows in found.items()
    ]


def _planned(kernel: Kernel, info: RunInfo, computed: int) -> Any:
    sigmas = info.active_sigmas
    return plan_from_kernel(kernel.at(sigmas[:-1]), sigmas, computed_steps=computed)


def _ours(name: str, make: MakeRun) -> Way:
    def actions(session: Session) -> list[str]:
        return [record.action for record in session.stats.runs[-1].records]

    return Way(name=name, wrap=lambda model: steered(model, make), actions=actions)


def _drawing(case: Case) -> Callable[[Any], Any]:
    return lambda model: draw(model, STEPS, side=SIDE, guidance=GUIDANCE, prompt=case.prompt, seed=case.seed)
