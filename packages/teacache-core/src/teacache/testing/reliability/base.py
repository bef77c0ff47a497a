"""What the cases of the reliability suite share. Needs pytest; never imports mflux."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import mlx.core as mx
import pytest

from teacache.stats import StepRecord
from teacache.testing.spies import Latents, same
from teacache.testing.suite import ALTERNATE, AdapterSuite
from teacache.wrapping import Handle

Result = TypeVar("Result")

POLICIES: dict[str, dict[str, Any]] = {"gate": ALTERNATE, "plan": {"plan": [0, 2, 3]}}
"""One that reuses residuals, one that carries velocities: of 6 steps, ``#.#.##`` and ``#.##.#``."""

COMPUTED_BY_ALL = (0, 2, 5)
"""Of 6 steps those that both policies compute."""

each_policy = pytest.mark.parametrize("policy", POLICIES)


class ReliabilitySuite(AdapterSuite):
    """The base of every mixin of the suite.

    Attributes:
        others: arguments of runs that differ from the suite's in one thing each, by what that is.
        thorough: break a run in every way at every step; else in every way, and at a few.
    """

    steps = 6
    thorough: ClassVar[bool] = False
    others: ClassVar[dict[str, dict[str, Any]]] = {}

    def between(self) -> dict[str, dict[str, Any]]:
        """Returns the runs that differ in one thing each, and the one that differs in all."""
        each = {"seed": {"seed": 5}, "steps": {"num_inference_steps": self.steps + 3}, **self.others}
        together: dict[str, Any] = {}
        for arguments in each.values():
            together |= arguments
        return {**each, "all of them": together}

    def run(self, model: Any, handle: Handle, **arguments: Any) -> tuple[Latents, tuple[StepRecord, ...]]:
        """Makes one picture with a wrapped model and returns its latents and records."""
        counted = len(handle.stats.runs)
        latents = self.generate(model, handle, **arguments)
        assert len(handle.stats.runs) == counted + 1, "the run was not counted"
        return latents, handle.stats.runs[-1].records

    def repeats(self, model: Any, handle: Handle, expected: tuple[Latents, tuple[StepRecord, ...]], after: str) -> None:
        """Makes the suite's picture again: latents and decisions must be those of a clean run."""
        latents, records = self.run(model, handle)
        assert same(latents, expected[0]), f"after {after} the picture is another one"
        assert records == expected[1], f"after {after} the decisions are others"


def outcome(call: Callable[[], Any]) -> tuple[type[BaseException], str]:
    """Returns the type and the words of what a call raises."""
    try:
        call()
    except BaseException as error:  # noqa: BLE001 - Ctrl-C is one of the cases
        return type(error), str(error)
    raise AssertionError("the planted error was swallowed")


def live_arrays() -> int:
    """Returns how many arrays Python holds."""
    gc.collect()
    return sum(type(held) is mx.array for held in gc.get_objects())


def in_a_thread(call: Callable[[], Result]) -> Result:
    """Runs a call in a thread of its own and returns what it returns, or raises what it raises."""
    results: list[Result] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 - handed over
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
