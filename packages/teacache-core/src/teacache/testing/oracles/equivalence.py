"""Is the changed path numerically the same? Every half of it, step by step. Imports mlx; never mflux.

Bytes where both sides take the same path (eager and eager, compiled and compiled); else the adapter's tolerance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np

from teacache.adapter import Adapter
from teacache.distance import Distance, distance, distances, worst
from teacache.errors import OptionError
from teacache.stats import RunStats
from teacache.testing.oracles.result import Check, Result, environment
from teacache.testing.oracles.subject import FORCED, Subject
from teacache.testing.reference import reference_reuse
from teacache.testing.spies import Latents, same
from teacache.tolerance import Bound, Tolerance, load_tolerance

QUESTION = "is the changed path numerically the same?"
PARTS = ("computed", "reused", "compiled", "runs")
"""Computed steps on the traced path; reused steps against the reference; compiled against eager; one run behind
another."""

KEPT = 2**24
"""Numbers of the tail's input that are kept in all; beyond them only their hashes are."""


def equivalence(subject: Subject, *, parts: Collection[str] = PARTS, tolerance: Tolerance | None = None) -> Result:
    """Asks whether what runs under the wrapper is what the model and the rule of reuse say.

    Args:
        subject: the model.
        parts: which of `PARTS` are asked.
        tolerance: bounds for compiled against eager; None: the adapter's own file. Without one that comparison is
            measured and not judged.
    """
    unknown = sorted(set(parts) - set(PARTS))
    if unknown or not parts:
        raise OptionError(f"parts={sorted(parts)} was given; expected some of {', '.join(PARTS)}.")
    if tolerance is None and subject.adapter.tolerance is not None:
        tolerance = load_tolerance(subject.adapter.tolerance)
    model = subject.make_model()
    asking = _Asking(subject, model, tolerance)
    checks: list[Check] = []
    if "computed" in parts:
        checks += asking.computed()
    if "reused" in parts:
        checks += asking.reused()
    if "compiled" in parts and subject.compiles(model):
        checks += asking.compiled()
    if "runs" in parts:
        checks += asking.runs()
    return Result(
        oracle="equivalence",
        question=QUESTION,
        subject=subject.title(model),
        checks=tuple(checks),
        evidence=environment() | {"steps": subject.steps},
    )


@dataclass
class _Asking:
    """One model and what was measured on it so far."""

    subject: Subject
    model: Any
    tolerance: Tolerance | None
    _forced: tuple[Latents, RunStats | None] | None = field(default=None)

    def computed(self) -> Iterator[Check]:
        """Shadow: the gate runs, every step is computed on the traced path."""
        subject, model = self.subject, self.model
        shadow, stats = subject.run(model, mode="shadow", **FORCED)
        yield self._same("computed, as the pipeline runs", shadow, subject.generate(model), stats)
        if subject.compiles(model):
            eager, stats = subject.run(model, mode="shadow", **FORCED, **subject.eager(model))
            with subject.uncompiled(model):
                yield self._same("computed, eager", eager, subject.generate(model), stats)

    def reused(self) -> Iterator[Check]:
        """Forced reuse against the reference, which shares no code with the wrapper: latents, and the tail's input."""
        subject, model = self.subject, self.model
        with tail_inputs(model, subject) as wrapped_tail:
            latents, stats = self._forced = subject.run(model, **FORCED, **subject.eager(model))
        pattern = [] if stats is None else [record.action == "reuse" for record in stats.records]
        if stats is None or not any(pattern):
            yield Check.of("reused, eager", False, reused=0, says="No step was reused, so nothing could be compared.")
            return
        with (
            subject.uncompiled(model),
            reference_reuse(
                subject.transformer(model),
                subject.adapter,
                reused=pattern,
                branches=max(record.branches for record in stats.records),
                target=stats.target_tokens,
            ),
            tail_inputs(model, subject) as reference_tail,
        ):
            reference = subject.generate(model)
        yield self._same("reused, latents", latents, reference, stats)
        apart = [
            call for call, pair in enumerate(zip(wrapped_tail, reference_tail, strict=False)) if pair[0] != pair[1]
        ]
        yield Check.of(
            "reused, what the tail gets",
            not apart and len(wrapped_tail) == len(reference_tail),
            max_abs=worst(_between(wrapped_tail, reference_tail)).max_abs,
            calls=len(reference_tail),
            apart=len(apart),
            says="The tail gets other tokens than tokens + residual on the target tokens, and the others as they came.",
        )

    def compiled(self) -> Iterator[Check]:
        """Compiled against eager, where bytes may differ: within what was measured."""
        subject, model = self.subject, self.model
        eager, eager_stats = self._eager()
        compiled, stats = subject.run(model, **FORCED, compile=True)
        bound = None if self.tolerance is None else self.tolerance.bound("across compile")
        yield _within("reused, compiled against eager", worst(distances(compiled, eager)), bound)
        shadow, _ = subject.run(model, mode="shadow", **FORCED, compile=True)
        with subject.uncompiled(model):
            plain = subject.generate(model)
        yield _within("computed, compiled against eager", worst(distances(shadow, plain)), bound)
        yield Check.of(
            "compiled decides as eager does",
            stats is not None and eager_stats is not None and stats.timeline == eager_stats.timeline,
            compiled="" if stats is None else stats.timeline,
            eager="" if eager_stats is None else eager_stats.timeline,
            says="The decision was traced into a compiled function and is frozen there.",
        )

    def runs(self) -> Iterator[Check]:
        """A run behind another equals the same run alone."""
        subject, model = self.subject, self.model
        alone, stats = self._eager()
        with subject.wrapped(model, **FORCED, **subject.eager(model)) as handle:
            subject.generate(model, handle, **{"seed": 5, **subject.variation})
            subject.generate(model, handle, seed=5)
            behind = subject.generate(model, handle)
        yield self._same("a run behind others", behind, alone, stats)

    def _eager(self) -> tuple[Latents, RunStats | None]:
        if self._forced is None:
            self._forced = self.subject.run(self.model, **FORCED, **self.subject.eager(self.model))
        return self._forced

    @staticmethod
    def _same(name: str, latents: Latents, against: Latents, stats: RunStats | None) -> Check:
        measured = distances(latents, against)
        apart = [step for step, one in enumerate(measured) if not one.exact]
        figures: dict[str, Any] = {"max_abs": worst(measured).max_abs, "cosine": worst(measured).cosine}
        if apart:
            figures["first step apart"] = apart[0]
        if stats is not None:
            figures["steps"] = stats.timeline
        return Check.of(
            name,
            same(latents, against) and stats is not None,
            says="Both sides take the same path, so every byte must be equal: this is a bug, not noise.",
            **figures,
        )


def _within(name: str, measured: Distance, bound: Bound | None) -> Check:
    figures: dict[str, Any] = {"mean_abs": measured.mean_abs, "max_abs": measured.max_abs}
    if bound is None:
        return Check(
            name=name,
            verdict="not judged",
            figures=figures,
            says="There is no tolerance to judge by. Measure it: teacache tolerance record",
        )
    says = "Further apart than the measured noise and its margin: a bug. Do not widen the bound."
    return Check.of(name, bound.allows(measured), says=says, **figures, bound=bound.value)


@dataclass(frozen=True)
class TailInput:
    """What the tail was called with once; equal when every byte of the tokens is.

    Attributes:
        digest: SHA-256 of the tokens.
        tokens: the tokens themselves, where there was room.
        conditioned: it was given something beside the tokens: the embedding of the time.
    """

    digest: str
    tokens: np.ndarray[Any, Any] | None = field(compare=False)
    conditioned: bool = field(compare=False, default=False)


@contextmanager
def tail_inputs(model: Any, subject: Subject) -> Iterator[list[TailInput]]:
    """Collects what the tail is called with. Eager runs only: a compiled function would be traced with it."""
    calls: list[TailInput] = []
    tail = tail_of(subject.transformer(model), subject.adapter)
    base, room = type(tail), KEPT

    class Spied(base):  # type: ignore[misc, valid-type]
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            nonlocal room
            tokens = args[0] if args else next(iter(kwargs.values()))
            seen = np.array(tokens.astype(mx.float32))
            room -= seen.size
            digest = hashlib.sha256(seen.tobytes()).hexdigest()
            calls.append(TailInput(digest, seen if room >= 0 else None, len(args) + len(kwargs) > 1))
            return super().__call__(*args, **kwargs)

    tail.__class__ = Spied
    try:
        yield calls
    finally:
        tail.__class__ = base


def tail_of(transformer: Any, adapter: Adapter) -> Any:
    """Returns the module that the adapter calls the tail."""
    tail: str | Callable[[Any], tuple[Any, str]] = adapter.body.tail
    container, key = (transformer, tail) if isinstance(tail, str) else tail(transformer)
    return container[key]


def _between(wrapped: Iterable[TailInput], reference: Iterable[TailInput]) -> Iterator[Distance]:
    for one, other in zip(wrapped, reference, strict=False):
        if one.tokens is not None and other.tokens is not None:
            yield distance(one.tokens, other.tokens)
