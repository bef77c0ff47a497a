"""Measures an adapter's tolerance: the noise of correct code, where the planted bugs land, the bound between.

Imports mlx; never mflux.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from teacache.calibration.model import Evidence
from teacache.distance import Distance, distances, worst
from teacache.errors import ToleranceError
from teacache.stats import RunStats
from teacache.testing.oracles.equivalence import tail_inputs
from teacache.testing.oracles.result import environment
from teacache.testing.oracles.subject import FORCED, Subject
from teacache.testing.planted import BUGS, Bug, Need
from teacache.testing.reference import reference_reuse
from teacache.testing.spies import Latents
from teacache.tolerance import Comparison, Landing, Noise, Status, Tolerance, bound_for

SHADOW: Mapping[str, Any] = {"mode": "shadow", **FORCED}


@dataclass
class _Measured:
    """Pairs of runs by what they compare, in the order in which they were made."""

    pairs: dict[Comparison, list[list[Distance]]] = field(default_factory=dict)

    def add(self, comparison: Comparison, latents: Latents, against: Latents) -> None:
        self.pairs.setdefault(comparison, []).append(distances(latents, against))

    def noise(self) -> tuple[Noise, ...]:
        return tuple(
            Noise(
                comparison=comparison,
                runs=len(runs),
                steps=tuple(worst(step) for step in zip(*runs, strict=True)),
                final=tuple(run[-1] for run in runs),
            )
            for comparison, runs in self.pairs.items()
        )


def measure_tolerance(
    subject: Subject,
    cases: Sequence[Mapping[str, Any]],
    *,
    status: Status,
    missing: str | None,
    evidence: Mapping[str, Evidence],
    advance: Callable[[str], None] = lambda doing: None,
) -> Tolerance:
    """Measures one adapter's tolerance on one model.

    Args:
        subject: the model.
        cases: arguments of its runs: several prompts and seeds.
        status: "calibrated", or "provisional" with what is missing.
        missing: what is missing; None where nothing is.
        evidence: what the model is, beside the environment and the cases.
        advance: told what is being done, once for each case and each bug.

    Raises:
        ToleranceError: noise and the smallest planted bug are not apart.
    """
    model, measured = subject.make_model(), _Measured()
    for case in cases:
        advance("noise")
        _noise(subject, model, case, measured)
    bugs, lacks = [], lacking(subject, model)
    for bug in BUGS:
        if bug.moves_latents and bug.needs not in lacks:
            advance(bug.name)
            bugs.append(Landing(bug=bug.name, distance=_lands(subject, model, cases[:2], bug)))
    noise = measured.noise()
    return Tolerance(
        adapter=subject.adapter.name,
        status=status,
        missing=missing,
        evidence={
            **environment(),
            **evidence,
            "pipeline": type(model).__name__,
            "steps": subject.steps,
            "prompts": tuple(dict.fromkeys(str(case["prompt"]) for case in cases)),
            "seeds": tuple(dict.fromkeys(int(case["seed"]) for case in cases)),
        },
        bounds=tuple(bound_for(one, bugs) for one in noise),
        noise=noise,
        bugs=tuple(bugs),
    )


def lacking(subject: Subject, model: Any) -> set[Need]:
    """Returns what a model does not have, so that the bugs that need it cannot be planted in it."""
    with tail_inputs(model, subject) as tails:
        _, stats = subject.run(model, **FORCED, **subject.eager(model))
    branches = 1 if stats is None else max(record.branches for record in stats.records)
    has: dict[Need, bool] = {
        "branches": branches > 1,
        "compile": subject.compiles(model),
        "controlnet": bool(subject.adapter.body.drop_on_reuse) and "ControlNet" in subject.pipeline(model).summary,
        "tail conditioning": any(one.conditioned for one in tails),
    }
    return {need for need, there in has.items() if not there}


def _noise(subject: Subject, model: Any, case: Mapping[str, Any], measured: _Measured) -> None:
    """All pairs of one case: plain and traced, reused and the reference, each eager and compiled."""
    eager = subject.eager(model)
    with subject.uncompiled(model):
        plain = subject.generate(model, **case)
    shadow, _ = subject.run(model, overrides=case, **SHADOW, **eager)
    measured.add("same path", shadow, plain)
    reused, stats = subject.run(model, overrides=case, **FORCED, **eager)
    measured.add("same path", reused, _reference(subject, model, case, stats))
    if subject.compiles(model):
        compiled, _ = subject.run(model, overrides=case, **SHADOW, compile=True)
        measured.add("across compile", compiled, plain)
        forced, _ = subject.run(model, overrides=case, **FORCED, compile=True)
        measured.add("across compile", forced, reused)
        own, _ = subject.run(model, overrides=case, **SHADOW)
        measured.add("same path", own, subject.generate(model, **case))


def _reference(subject: Subject, model: Any, case: Mapping[str, Any], stats: RunStats | None) -> Latents:
    if stats is None or not stats.reused:
        raise ToleranceError("The run reused no step, so nothing of the reuse can be measured: give more steps.")
    with (
        subject.uncompiled(model),
        reference_reuse(
            subject.transformer(model),
            subject.adapter,
            reused=[record.action == "reuse" for record in stats.records],
            branches=max(record.branches for record in stats.records),
            target=stats.target_tokens,
        ),
    ):
        return subject.generate(model, **case)


def _lands(subject: Subject, model: Any, cases: Sequence[Mapping[str, Any]], bug: Bug) -> Distance:
    """How far a bug moves the latents in the worst step; of several cases the one that it moves least."""
    options = SHADOW if bug.part == "computed" else FORCED
    compiled = {"compile": True} if bug.needs == "compile" else subject.eager(model)
    landed = []
    for case in cases:
        clean, _ = subject.run(model, overrides=case, **options, **subject.eager(model))
        with bug.plant():
            planted, _ = subject.run(model, overrides=case, **options, **compiled)
        landed.append(worst(distances(planted, clean)))
    return min(landed, key=lambda one: one.mean_abs)
