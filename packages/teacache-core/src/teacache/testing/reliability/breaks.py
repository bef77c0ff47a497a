"""Cases about pictures that break off outside the model. Needs pytest; never imports mflux."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from teacache.store import Store
from teacache.testing.reliability.base import (
    POLICIES,
    ReliabilitySuite,
    each_policy,
    in_a_thread,
    live_arrays,
    outcome,
)
from teacache.testing.spies import compile_disabled, expected_warnings

FAULTS: list[tuple[str, int, type[BaseException]]] = [
    ("before loop", 0, RuntimeError),
    ("in loop", 2, KeyboardInterrupt),
    ("in loop", 5, RuntimeError),
    ("scheduler", 3, RuntimeError),
    ("scheduler", 0, KeyboardInterrupt),
    ("vae", 0, RuntimeError),
    ("after loop", 0, KeyboardInterrupt),
]


class Planted:
    """An mflux callback that raises an error in one place; `step` counts where the place is in the loop."""

    def __init__(self, place: str, step: int, error: type[BaseException]) -> None:
        self.place, self.step, self.error = place, step, error

    def call_before_loop(self, config: Any, **_: Any) -> None:
        """Raises, or makes the scheduler raise."""
        if self.place == "before loop":
            raise self.error("planted before the loop")
        if self.place == "scheduler":
            step = config.scheduler.step

            def failing(*args: Any, **kwargs: Any) -> Any:
                if kwargs.get("timestep", args[1] if len(args) > 1 else None) == self.step:
                    raise self.error("planted in the scheduler")
                return step(*args, **kwargs)

            config.scheduler.step = failing

    def call_in_loop(self, t: int, **_: Any) -> None:
        """Raises at the step."""
        if self.place == "in loop" and t == self.step:
            raise self.error("planted in a callback")

    def call_after_loop(self, **_: Any) -> None:
        """Raises."""
        if self.place == "after loop":
            raise self.error("planted after the loop")


@contextmanager
def planted(model: Any, place: str, step: int, error: type[BaseException]) -> Iterator[None]:
    """Plants an error in a pipeline for the length of a `with` block."""
    callback, registry, vae = Planted(place, step, error), model.callbacks, model.vae
    base = type(vae)

    class Failing(base):  # type: ignore[misc, valid-type]
        def decode(self, *_: Any, **__: Any) -> Any:
            raise error("planted in the VAE")

        decode_packed_latents = decode

    lists = {name: list(value) for name, value in vars(registry).items()}
    registry.register(callback)
    if place == "vae":
        vae.__class__ = Failing
    try:
        yield
    finally:
        vae.__class__ = base
        for name, value in lists.items():
            getattr(registry, name)[:] = value


class Breaks(ReliabilitySuite):
    """Interruption by callback, scheduler and VAE: the same exception as plain mflux, and nothing is left."""

    def faults(self, policy: str) -> list[tuple[str, int, type[BaseException]]]:
        """Where, at which step (0 where there is none) and by what a picture breaks off."""
        if not self.thorough:
            return FAULTS[::2] if policy == "gate" else FAULTS[1::2]
        errors: tuple[type[BaseException], ...] = (RuntimeError, KeyboardInterrupt)
        once = [(place, 0, error) for place in ("before loop", "after loop", "vae") for error in errors]
        steps = range(self.steps)
        return once + [(place, k, error) for place in ("in loop", "scheduler") for k in steps for error in errors]

    @each_policy
    def test_an_error_outside_the_model(self, model: Any, policy: str) -> None:
        """Red when mflux's own exception changes, the run counts, or arrays of it live on or serve the next."""
        with compile_disabled(), expected_warnings():
            plain = {}
            for place, step, error in self.faults(policy):
                with planted(model, place, step, error):
                    plain[place, step, error] = outcome(lambda: self.generate(model))
            with self.wrap(model, **POLICIES[policy]) as handle:
                clean = self.run(model, handle)
                arrays = live_arrays()
                looked = (
                    {place for place, _, _ in plain} if self.thorough else {"in loop", "vae"}
                )  # looking takes 0.2 s
                for (place, step, error), expected in plain.items():
                    with planted(model, place, step, error):
                        found = outcome(lambda: self.generate(model, handle))
                    assert found == expected, f"{place}, step {step}"
                    assert place not in looked or live_arrays() <= arrays, f"{place}, step {step}: kept arrays"
                    self.repeats(model, handle, clean, f"an error {place}, step {step}")
                assert len(handle.stats.runs) == 1 + len(plain)

    @pytest.mark.parametrize("place", ["in loop", "after loop", "vae"])
    def test_a_recording_without_its_picture_is_thrown_away(self, model: Any, place: str) -> None:
        """Red when a kernel is kept although its picture was never made."""
        with compile_disabled(), expected_warnings(), self.wrap(model, speedup=2.0) as handle:
            with planted(model, place, 3, RuntimeError):
                outcome(lambda: self.generate(model, handle))
            assert list(Store().all()) == [] and handle.stats.runs == []
            _, records = self.run(model, handle)
            assert {record.reason for record in records} == {"recording"}

    @pytest.mark.parametrize(("policy", "thread"), [("gate", True), ("plan", False)])
    def test_a_picture_within_a_picture(self, model: Any, policy: str, thread: bool) -> None:
        """Red when a run that another one took over goes on with what it lost, or steps the other one's."""

        class Within:
            inner: Any = None
            busy = False

            def call_in_loop(self, t: int, **_: Any) -> None:
                if t == 2 and not self.busy:
                    self.busy = True
                    self.inner = in_a_thread(make) if thread else make()

        def make() -> Any:
            return self.generate(model, handle, seed=9)

        within = Within()
        with compile_disabled(), expected_warnings(), self.wrap(model, **POLICIES[policy]) as handle:
            clean, alone = self.run(model, handle), self.run(model, handle, seed=9)
            model.callbacks.register(within)
            outer = self.generate(model, handle)
            model.callbacks.in_loop.remove(within)
            assert [step.tobytes() for step in within.inner] == [step.tobytes() for step in alone[0]]
            own = [*outer[:2], *outer[2 + self.steps :]]  # the first recorder saw the inner picture's steps too
            assert [step.tobytes() for step in own[:3]] == [step.tobytes() for step in clean[0][:3]]
            assert len(own) == self.steps and all(np.isfinite(step).all() for step in own)
            self.repeats(model, handle, clean, "a picture within a picture")
