"""Draws several pictures in lockstep, step by step in turns, and times each step. Must not import mflux.

A run's time on a shared machine wanders by a quarter; two steps taken one right after the other share most of that.
Each picture is drawn by the pipeline's own `generate_image` in a thread of its own, and only the one whose turn it is
runs.
"""

from __future__ import annotations

import copy
import gc
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from teacache.bench.paired import Times


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to draw the picture.

    Attributes:
        name: of the way.
        wrap: puts something around the model for as long as its context is open.
        actions: from what `wrap` gave, behind the picture, what was done on each step ("compute" or "reuse"); None:
            every step was computed.
    """

    name: str
    wrap: Callable[[Any], AbstractContextManager[Any]] = nullcontext
    actions: Callable[[Any], Sequence[str]] | None = None


@dataclass(slots=True, kw_only=True)
class Drawn:
    """What one way came to.

    Attributes:
        wall: seconds of each step.
        cpu: CPU seconds of the whole process in each step; no other way runs meanwhile.
        actions: what was done on each step.
        latents: the last ones, as float32.
        picture: what `draw` returned.
    """

    wall: Times = field(default_factory=lambda: np.zeros(0))
    cpu: Times = field(default_factory=lambda: np.zeros(0))
    actions: tuple[str, ...] = ()
    latents: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    picture: Any = None

    def on(self, action: str, *, behind: int) -> NDArray[np.bool_]:
        """Tells which steps took this action, without the first `behind` (they trace and compile)."""
        taken = np.array([one == action for one in self.actions])
        taken[:behind] = False
        return taken


def twin(model: Any, transformer: str = "transformer") -> Any:
    """Returns a second pipeline object with the same weights, which can be wrapped by itself."""
    other = copy.copy(model)
    setattr(other, transformer, copy.copy(getattr(model, transformer)))
    other.callbacks = type(model.callbacks)()
    # What one thread put in lazily, another could not evaluate.
    other.prompt_cache = {}
    return other


def in_lockstep(
    ways: Sequence[Way], model: Any, draw: Callable[[Any], Any], *, steps: int, seed: int = 0
) -> dict[str, Drawn]:
    """Draws the picture in all ways at once, one step of each in turn, in another order in every round.

    Args:
        ways: at least one.
        model: an mflux pipeline, not wrapped; each way gets a twin of it.
        draw: makes the picture with a twin, by its own `generate_image`.
        steps: how many steps the picture has.
        seed: of the orders.

    Returns:
        What each way came to, by its name.

    Raises:
        Exception: whatever the first way that failed raised; the others are given up.
    """
    rng = np.random.default_rng(seed)
    turns = _Turns(len(ways), [int(number) for _ in range(steps) for number in rng.permutation(len(ways))])
    drawn = {way.name: Drawn() for way in ways}

    def work(number: int, way: Way) -> None:
        try:
            with way.wrap(other := twin(model)) as handle:
                other.callbacks.register(_Clock(turns, number, steps, drawn[way.name]))
                drawn[way.name].picture = draw(other)
            actions = ("compute",) * steps if way.actions is None else way.actions(handle)
            drawn[way.name].actions = tuple(actions)
        except BaseException as error:  # noqa: BLE001 - handed to the caller
            turns.give_up(error)

    threads = [threading.Thread(target=work, args=one, daemon=True) for one in enumerate(ways)]
    gc.collect()
    gc.disable()  # one way's garbage would be collected in the time of another
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException as error:
        turns.give_up(error)
        for thread in threads:
            thread.join()
        raise
    finally:
        gc.enable()
    if turns.error is not None:
        raise turns.error
    return drawn


class _Turns:
    """Whose turn it is."""

    def __init__(self, ways: int, order: list[int]) -> None:
        self.error: BaseException | None = None
        self._gates = [threading.Semaphore(0) for _ in range(ways)]
        self._order = iter(order)
        self.next()

    def wait(self, number: int) -> None:
        self._gates[number].acquire()
        if self.error is not None:
            raise RuntimeError("another way failed")

    def next(self) -> None:
        following = next(self._order, None)
        if following is not None:
            self._gates[following].release()

    def give_up(self, error: BaseException) -> None:
        self.error = self.error or error
        for gate in self._gates:
            gate.release()


class _Clock:
    """The last of the callbacks: waits for the turn, and times the step."""

    def __init__(self, turns: _Turns, number: int, steps: int, drawn: Drawn) -> None:
        self._turns, self._number, self._steps, self._drawn = turns, number, steps, drawn
        self._wall: list[float] = []
        self._cpu: list[float] = []
        self._started = (0.0, 0.0)

    def call_before_loop(self, **_: Any) -> None:
        self._start()

    def call_in_loop(self, t: int, latents: mx.array, **_: Any) -> None:
        mx.eval(latents)
        self._wall.append(time.perf_counter() - self._started[0])
        self._cpu.append(time.process_time() - self._started[1])
        if t == self._steps - 1:
            self._drawn.wall, self._drawn.cpu = np.array(self._wall), np.array(self._cpu)
            self._drawn.latents = np.array(latents.astype(mx.float32))
        self._turns.next()
        if t < self._steps - 1:
            self._start()

    def _start(self) -> None:
        self._turns.wait(self._number)
        self._started = time.perf_counter(), time.process_time()
