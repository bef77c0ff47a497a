"""Bugs worth catching, to plant and to take out again. Each is claimed by one oracle, which must see it.

They patch core, never a model's weights, and use the seams of `Pieces` and `Run` only. Imports mlx; never mflux.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import mlx.core as mx

from teacache import boundary
from teacache.changes import Changes
from teacache.errors import OptionError
from teacache.gated import GatedRun
from teacache.pieces import COMPILED, Pieces
from teacache.policies import Gate
from teacache.run import Run

Need = Literal["any", "branches", "other tokens", "controlnet", "compile", "tail conditioning", "callbacks"]


@dataclass(frozen=True, kw_only=True)
class Bug:
    """A bug to plant.

    Attributes:
        name: what it is called in tables and tolerance files.
        says: what goes wrong.
        oracle: which oracle claims it.
        part: of the equivalence oracle; empty for the others.
        needs: what a family must have for the bug to be possible.
        plant: plants it, and takes it out.
        seen_by: the check of the oracle that must fail, with figures that are numbers. Another failure, or latents that
            are NaN or of another shape, is a crash in disguise and no catch.
        moves_latents: it changes the latents of a run, so that its distance can be measured.
    """

    name: str
    says: str
    oracle: Literal["neutrality", "equivalence", "quality"]
    plant: Callable[[], AbstractContextManager[None]]
    seen_by: str
    part: str = ""
    needs: Need = "any"
    moves_latents: bool = True


def find_bug(name: str) -> Bug:
    """Returns the bug of that name."""
    for bug in BUGS:
        if bug.name == name:
            return bug
    raise OptionError(f"There is no planted bug {name!r}; there are {', '.join(bug.name for bug in BUGS)}.")


# How each is planted.


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
def _reuse_with(change: Callable[[_Place, list[mx.array]], Sequence[mx.array]]) -> Iterator[None]:
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


def _too_old(place: _Place, residuals: list[mx.array]) -> Sequence[mx.array]:
    history = place.computed[place.branch]
    return history[-2] if len(history) > 1 else residuals


def _other_branch(place: _Place, residuals: list[mx.array]) -> Sequence[mx.array]:
    if len(residuals) > 1:
        return residuals[::-1]
    others = [history[-1] for branch, history in place.computed.items() if branch != place.branch]
    return others[0] if others else residuals


def _of_the_run_before(place: _Place, residuals: list[mx.array]) -> Sequence[mx.array]:
    before = place.last_run.get(place.branch)
    fits = before and [old.shape for old in before[-1]] == [new.shape for new in residuals]
    return before[-1] if before and fits else residuals


def _twice(place: _Place, residuals: list[mx.array]) -> Sequence[mx.array]:
    return [residual + residual for residual in residuals]


@contextmanager
def _changed_in_place() -> Iterator[None]:
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
def _block_left_out() -> Iterator[None]:
    blocks = boundary._Compute.blocks

    def all_but_the_last(walk: Any, listed: list[Any], position: int) -> Any:
        last_list = position == len(walk.body.blocks) - 1
        return blocks(walk, listed[:-1] if last_list and len(listed) > 1 else listed, position)

    with patched(boundary._Compute, "blocks", all_but_the_last):
        yield


@contextmanager
def _all_tokens() -> Iterator[None]:
    make = Pieces.__init__

    def init(pieces: Pieces, *args: Any, **kwargs: Any) -> None:
        make(pieces, *args, **{**kwargs, "target": None})

    with patched(Pieces, "__init__", init):
        yield


@contextmanager
def _tail_of_the_step_before() -> Iterator[None]:
    """What the tail gets beside the tokens is kept from the call before."""
    kept: dict[int, tuple[tuple[Any, ...], dict[str, Any]]] = {}
    tap = boundary._Compute.tap

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
        patched(boundary._Compute, "tap", compute_tap),
        _added(boundary._Reuse, "taps_tail", True),
        _added(boundary._Reuse, "tap", reuse_tap),
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
def _controlnet_kept() -> Iterator[None]:
    with patched(boundary._Reuse, "kwargs", lambda walk, kwargs: kwargs):
        yield


@contextmanager
def _class_left() -> Iterator[None]:
    set_class = Changes.set_class

    def forgetting(changes: Changes, obj: Any, cls: type) -> None:
        set_class(changes, obj, cls)
        changes._undo.pop()

    with patched(Changes, "set_class", forgetting):
        yield


@contextmanager
def _callback_left() -> Iterator[None]:
    append = Changes.append

    def forgetting(changes: Changes, items: list[Any], item: Any) -> None:
        append(changes, items, item)
        changes._undo.pop()

    with patched(Changes, "append", forgetting):
        yield


@contextmanager
def _frozen() -> Iterator[None]:
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
def _never() -> Iterator[None]:
    decide = Gate.decide

    def never(gate: Gate, *args: Any, **kwargs: Any) -> Any:
        return replace(decide(gate, *args, **kwargs), reuse=False)

    with patched(Gate, "decide", never):
        yield


BUGS: tuple[Bug, ...] = (
    Bug(
        name="residual one step too old",
        says="The residual of the last computed step but one is reused.",
        oracle="equivalence",
        seen_by="reused, latents",
        part="reused",
        plant=lambda: _reuse_with(_too_old),
    ),
    Bug(
        name="residual added twice",
        says="tokens + 2 * residual.",
        oracle="equivalence",
        seen_by="reused, latents",
        part="reused",
        plant=lambda: _reuse_with(_twice),
    ),
    Bug(
        name="branches swapped",
        says="The negative branch gets the positive one's residual, and the other way round.",
        oracle="equivalence",
        seen_by="reused, latents",
        part="reused",
        needs="branches",
        plant=lambda: _reuse_with(_other_branch),
    ),
    Bug(
        name="a block left out",
        says="The traced path runs all blocks but the last.",
        oracle="equivalence",
        seen_by="computed, as the pipeline runs",
        part="computed",
        plant=_block_left_out,
    ),
    Bug(
        name="other tokens in the residual",
        says="Text or reference tokens get a residual too, where they should pass through.",
        oracle="equivalence",
        seen_by="reused, what the tail gets",
        part="reused",
        needs="other tokens",
        plant=_all_tokens,
        moves_latents=False,
    ),
    Bug(
        name="previous timestep in the tail",
        says="On a reused step the tail is modulated for the last computed one.",
        oracle="equivalence",
        seen_by="reused, latents",
        part="reused",
        needs="tail conditioning",
        plant=_tail_of_the_step_before,
    ),
    Bug(
        name="leaked class",
        says="restore() leaves the traced class on the transformer.",
        oracle="neutrality",
        seen_by="threshold 0: given back",
        plant=_class_left,
        moves_latents=False,
    ),
    Bug(
        name="leaked callback",
        says="restore() leaves a callback registered.",
        oracle="neutrality",
        seen_by="threshold 0: given back",
        needs="callbacks",
        plant=_callback_left,
        moves_latents=False,
    ),
    Bug(
        name="decision frozen by compile",
        says="A compiled function repeats what its first step did, whatever is decided.",
        oracle="equivalence",
        seen_by="reused, compiled against eager",
        part="compiled",
        needs="compile",
        plant=_frozen,
    ),
    Bug(
        name="cache that never engages",
        says="Every step is computed.",
        oracle="quality",
        seen_by="reused steps in the band",
        plant=_never,
    ),
    Bug(
        name="ControlNet sample on a reused step",
        says="The sample is in the residual, and added again.",
        oracle="equivalence",
        seen_by="reused, latents",
        part="reused",
        needs="controlnet",
        plant=_controlnet_kept,
    ),
    Bug(
        name="stale residual across runs",
        says="A run reuses what the run before it left.",
        oracle="equivalence",
        seen_by="a run behind others",
        part="runs",
        plant=lambda: _reuse_with(_of_the_run_before),
        moves_latents=False,
    ),
    Bug(
        name="stored array changed in place",
        says="Reusing a residual changes it for the next reuse.",
        oracle="equivalence",
        seen_by="reused, latents",
        part="reused",
        plant=_changed_in_place,
    ),
)
