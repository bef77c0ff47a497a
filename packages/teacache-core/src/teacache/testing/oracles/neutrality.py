"""Is the wrapper neutral when it is set so? Bytes, in one process, in both orders. Imports mlx; never mflux."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from teacache.distance import distances, worst
from teacache.stats import RunStats
from teacache.testing.oracles.result import Check, Result, environment
from teacache.testing.oracles.subject import FORCED, Subject
from teacache.testing.spies import Latents, same, snapshot

QUESTION = "is the wrapper neutral when it is set so?"

BUG = "The wrapper moves the picture although it is set not to: a bug, not noise. Do not widen anything."


def neutrality(subject: Subject) -> Result:
    """Asks whether a wrapped model that may not change anything changes nothing.

    Plain, wrapped, plain again on one model, and wrapped first on a fresh one; for the threshold 0, for shadow and for
    a plan of all steps. Shadow and plan must also have entered their path. After each `restore()` the model must hold
    the very objects that it held before. A model that was not given back is not asked further.
    """
    model = subject.make_model()
    title = subject.title(model)
    plain = subject.generate(model)
    checks: list[Check] = []
    settings = _settings(subject)
    for name, options in settings.items():
        checks += _asked(subject, model, plain, name, options)
        if any(check.verdict == "failed" and check.name.endswith("given back") for check in checks):
            break
    else:
        del model  # two of them at a time may not fit into memory
        fresh = subject.make_model()
        for name, options in settings.items():
            latents, _ = subject.run(fresh, **options)
            checks.append(_equal(f"{name}: wrapped first", latents, plain))
        checks.append(_equal("plain behind wrapped", subject.generate(fresh), plain))
    return Result(
        oracle="neutrality",
        question=QUESTION,
        subject=title,
        checks=tuple(checks),
        evidence=environment() | {"steps": subject.steps},
    )


def _settings(subject: Subject) -> dict[str, dict[str, Any]]:
    return {
        "threshold 0": {"threshold": 0.0},
        "shadow": {"mode": "shadow", **FORCED},
        "plan of all steps": {"plan": range(subject.steps)},
    }


def _asked(subject: Subject, model: Any, plain: Latents, name: str, options: Mapping[str, Any]) -> list[Check]:
    """One setting on a model that has run plainly."""
    before = snapshot(model, subject.adapter, subject.pipeline(model))
    latents, stats = subject.run(model, **options)
    after = snapshot(model, subject.adapter, subject.pipeline(model))
    kept = [key for key in before if before[key] != after[key]]
    checks = [
        _equal(f"{name}: as plain", latents, plain),
        _entered(name, stats),
        Check.of(
            f"{name}: given back",
            not kept,
            left=", ".join(kept) or "nothing",
            says="restore() left something on the model: a bug. What is left is named by the kind of change.",
        ),
    ]
    if not kept:
        checks.append(_equal(f"{name}: plain again", subject.generate(model), plain))
    return checks


def _equal(name: str, latents: Latents, plain: Latents) -> Check:
    measured = distances(latents, plain)
    apart = [step for step, one in enumerate(measured) if not one.exact]
    furthest = worst(measured)
    figures: dict[str, Any] = {"max_abs": furthest.max_abs, "steps apart": len(apart)}
    if apart:
        figures["first"] = apart[0]
    return Check.of(name, same(latents, plain), says=BUG, **figures)


_ENTERED: Mapping[str, Callable[[RunStats], bool]] = {
    "threshold 0": lambda stats: {record.reason for record in stats.records} == {"off"},
    "shadow": lambda stats: all(
        record.branches and record.body_change is not None and math.isfinite(record.signal_change or 0.0)
        for record in stats.records[1:]
    ),
    "plan of all steps": lambda stats: (
        {record.reason for record in stats.records} <= {"first", "plan", "last"}
        and all(record.branches for record in stats.records)
    ),
}


def _entered(name: str, stats: RunStats | None) -> Check:
    """The setting took the path that it names, and reused nothing on it."""
    return Check.of(
        f"{name}: path taken",
        stats is not None and stats.reused == 0 and _ENTERED[name](stats),
        reused=0 if stats is None else stats.reused,
        computed=0 if stats is None else stats.computed,
        says="The run was not counted, reused a step, or did not go the way that the setting names: equal bytes prove "
        "nothing then.",
    )
