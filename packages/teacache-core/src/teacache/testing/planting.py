"""How the bugs of `teacache.testing.planted` are planted, and taken out again.

They patch core, never a model's weights, and use the seams of `Pieces` and `Run` only. Imports mlx; never mflux.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import mlx.core as mx

from teacache import walks
from teacache.changes import Changes
from teacache.gated import GatedRun
from teacache.pieces import COMPILED, Pieces
from teacache.policies import Gate
from teacache.run import Run


@contextmanager
def patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Puts a function in the place of a class's or module's own."""
    before = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def reuse_with(change: Callable[[_Place, list[mx.array]], Sequence[mx.array]]) -> Iterator[None]:
    """Reuses other residuals than the run hands out."""
    place, compute, reuse = _Place(), Pieces.compute, Pieces.reuse
    call, end_step = GatedRun.call, Run.end_step

    def called(run: GatedRun, *args: Any, **kwargs: Any) -> Any:
        place.enter(run)
        try:
            return call(run, *args, **kwargs)
        finally:
            place.branch += 1

    def ended(run: Run, *args: Any, **kwargs: Any) -> Any:
        place.branch = 0
        return end_step(run, *args, **kwargs)

    def computed(pieces: Pieces, args: Any, kwargs: Any, tokens: Any) -> Any:
        output, residuals, outputs = compute(pieces, args, kwargs, tokens)
        place.keep(residuals)
        return output, residuals, outputs

    def reused(pieces: Pieces, args: Any, kwargs: Any, tokens: Any, residuals: Sequence[mx.array]) -> Any:
        return reuse(pieces, args, kwargs, tokens, change(place, list(residuals)))

    with (
        patched(GatedRun, "call", called),
        patched(Run, "end_step", ended),
        patched(Pieces, "compute", computed),
        patched(Pieces, "reuse", reused),
    ):
        yield


class _Place:
    """Where in a run the code is, and the residuals of its computed steps, newest last, by branch."""

    def __init__(self) -> None:
        self.branch = 0
        self.computed: dict[int, list[list[mx.array]]] = {}
        self.last_run: dict[int, list[list[mx.array]]] = {}
        self._run: Run | None = None

    def enter(self, run: Run) -> None:
        if run is not self._run:
            self._run, self.branch = run, 0
            self.last_run, self.computed = self.computed, {}

    def keep(self, residuals: list[mx.array]) -> None:
        mx.eval(residuals)
        self.computed.setdefault(self.branch, []).append(residuals)


def too_old(place: _Place, residuals: list[mx.array]) -> Sequence[mx.array]:
    """Returns the residuals of the last computed step but one."""
    history = place.computed[place.branch]
    return history[-2] if len(history) > 1 else residuals


def other_branch(place: _Place, residuals: list[mx.array]) -> Sequence[mx.array]:
    """Returns the residuals of another branch of guidance."""
    if len(residuals) > 1:
        return residuals[::-1]
    others = [history[-1] for branch, history in place.computed.items() if branch != place.branch]
    return others[0] if others else residuals


def of_the_run_before(place: _Place, residuals: list[mx.array]) -> Sequence[mx.array]:
    """Returns the residuals of the run before this one."""
    before = place.last_run.get(place.branch)
    fits = before and [old.shape for old in before[-1]] == [new.shape for new in residuals]
    return before[-1] if before and fits else residuals


def twice(place: _Place, residuals: list[mx.array]) -> Sequence[mx.array]:
    """Returns the residuals, doubled."""
    return [residual + residual for residual in residuals]


@contextmanager
def changed_in_place() -> Iterator[None]:
    """`residual += tokens` where `tokens + residual` is meant: the picture of this step is right, later ones not."""
    reuse = Pieces.reuse

    def reused(pieces: Pieces, args: Any, kwargs: Any, tokens: Any, residuals: Sequence[mx.array]) -> Any:
        output = reuse(pieces, args, kwargs, tokens, [residual + 0 for residual in residuals])
        for residual in residuals:
            residual += tokens[0][..., : residual.shape[-2], :] if tokens is not None else residual
        return output

    with patched(Pieces, "reuse", reused):
        yield


@contextmanager
def block_left_out() -> Iterator[None]:
    """The traced path runs all blocks but the last."""
    blocks = walks.Compute.blocks

    def all_but_the_last(walk: Any, listed: list[Any], position: int) -> Any:
        last_list = position == len(walk.body.blocks) - 1
        return blocks(walk, listed[:-1] if last_list and len(listed) > 1 else listed, position)

    with patched(walks.Compute, "blocks", all_but_the_last):
        yield


@contextmanager
def all_tokens() -> Iterator[None]:
    """Text and reference tokens count as the picture's."""
    make = Pieces.__init__

    def init(pieces: Pieces, *args: Any, **kwargs: Any) -> None:
        make(pieces, *args, **{**kwargs, "target": None})

    with patched(Pieces, "__init__", init):
        yield


@contextmanager
def tail_of_the_step_before() -> Iterator[None]:
    """What the tail gets beside the tokens is kept from the call before."""
    kept: dict[int, tuple[tuple[Any, ...], dict[str, Any]]] = {}
    tap = walks.Compute.tap

    def compute_tap(walk: Any, tail: Any) -> Any:
        def keeping(*args: Any, **kwargs: Any) -> Any:
            kept[walk.branch] = args[1:], dict(list(kwargs.items())[0 if args else 1 :])
            return tail(*args, **kwargs)

        return tap(walk, keeping)

    def reuse_tap(walk: Any, tail: Any) -> Any:
        def late(*args: Any, **kwargs: Any) -> Any:
            rest, named = kept[walk.branch]
            first = args[:1]
            tokens = {} if first else dict(list(kwargs.items())[:1])
            return tail(*first, *rest, **tokens, **named)

        return late

    with (
        patched(walks.Compute, "tap", compute_tap),
        _added(walks.Reuse, "taps_tail", True),
        _added(walks.Reuse, "tap", reuse_tap),
    ):
        yield


@contextmanager
def _added(owner: type, name: str, value: Any) -> Iterator[None]:
    """Gives a class an attribute that it inherits."""
    setattr(owner, name, value)
    try:
        yield
    finally:
        delattr(owner, name)


@contextmanager
def controlnet_kept() -> Iterator[None]:
    """ControlNet's samples are handed on to a reused step."""
    with patched(walks.Reuse, "kwargs", lambda walk, kwargs: kwargs):
        yield


@contextmanager
def class_left() -> Iterator[None]:
    """`restore` forgets the classes that were set."""
    set_class = Changes.set_class

    def forgetting(changes: Changes, obj: Any, cls: type) -> None:
        set_class(changes, obj, cls)
        changes._undo.pop()

    with patched(Changes, "set_class", forgetting):
        yield


@contextmanager
def callback_left() -> Iterator[None]:
    """`restore` forgets the callbacks that were registered."""
    append = Changes.append

    def forgetting(changes: Changes, items: list[Any], item: Any) -> None:
        append(changes, items, item)
        changes._undo.pop()

    with patched(Changes, "append", forgetting):
        yield


@contextmanager
def frozen() -> Iterator[None]:
    """A compiled function keeps doing what it was traced with: the first step was computed, so all are."""
    reuse, make = Pieces.reuse, Pieces.__init__
    compiled: set[int] = set()

    def init(pieces: Pieces, boundary: Any, fn: Any, **kwargs: Any) -> None:
        make(pieces, boundary, fn, **kwargs)
        wish = kwargs.get("compile")
        is_compiled = wish or (wish is None and type(fn) is COMPILED)
        (compiled.add if is_compiled else compiled.discard)(id(pieces))

    def reused(pieces: Pieces, args: Any, kwargs: Any, tokens: Any, residuals: Sequence[mx.array]) -> Any:
        if id(pieces) in compiled:
            return pieces.compute(args, kwargs, tokens)[0]
        return reuse(pieces, args, kwargs, tokens, residuals)

    with patched(Pieces, "__init__", init), patched(Pieces, "reuse", reused):
        yield


@contextmanager
def never() -> Iterator[None]:
    """The gate decides, and nothing is ever reused."""
    decide = Gate.decide

    def never(gate: Gate, *args: Any, **kwargs: Any) -> Any:
        return replace(decide(gate, *args, **kwargs), reuse=False)

    with patched(Gate, "decide", never):
        yield
