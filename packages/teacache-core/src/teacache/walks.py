"""How a step goes through the block lists: probed up to them, computed through them, or past them. Changes no model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import mlx.core as mx

from teacache.adapter import Argument, BlockCall, Body, Signal
from teacache.errors import AdapterDescriptionError, RunError

Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]


class Mismatch(Exception):  # noqa: N818 - control flow between boundary and run, never seen outside
    """What is stored does not fit the tokens of this step."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Crossed(BaseException):
    """Ends the forward of a probe at the body boundary; a BaseException, so that no model's handler catches it."""


class Walk:
    """How one piece goes through the block lists."""

    taps_tail = False

    def __init__(self, body: Body, batch: int, target: int | None, tokens: Sequence[mx.array] | None) -> None:
        self.body = body
        self.target = target
        self.tokens = tokens
        self.branch = -1
        self._batch = batch

    def kwargs(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The forward's keyword arguments, as this walk gives them."""
        return kwargs

    def blocks(self, blocks: list[Any], position: int) -> Iterator[Any]:
        """What the forward gets when it iterates over its block list at this position."""
        raise NotImplementedError

    def tap(self, tail: Callable[..., Any]) -> Callable[..., Any]:
        """What is called in the tail's place, where the walk taps it."""
        raise NotImplementedError

    def enter(self, block: Any, args: Args, kwargs: Kwargs) -> BlockCall:
        """The first block's call, with the probed tokens handed back in: what was traced before them is dead code."""
        call = BlockCall(block=block, args=args, kwargs=kwargs)
        image = call[self.body.image]
        if image.ndim > 2 and image.shape[0] not in (1, self._batch):
            raise RunError(
                f"The model was called with a batch of {image.shape[0]}, but its adapter describes {self._batch} "
                "branch per call (branches_in_batch). Make the pictures one at a time."
            )
        if self.tokens is None or self.branch > 0:
            return call
        streams: list[Argument] = [self.body.image] if self.body.text is None else [self.body.image, self.body.text]
        new_args, new_kwargs = list(args), dict(kwargs)
        for argument, tokens in zip(streams, self.tokens, strict=False):
            if isinstance(argument, int):
                new_args[argument] = fresh(tokens)
            else:
                new_kwargs[argument] = fresh(tokens)
        return BlockCall(block=block, args=tuple(new_args), kwargs=new_kwargs)


class _RememberingCall(BlockCall):
    """The first block's call, which remembers what the block returned if it was run."""

    __slots__ = ("ran",)
    ran: list[mx.array]

    def __init__(self, **call: Any) -> None:
        super().__init__(**call)
        object.__setattr__(self, "ran", [])

    def run(self) -> Any:
        returned = super().run()
        self.ran[:] = returned if isinstance(returned, tuple) else [returned]
        return returned


class Probe(Walk):
    """Ends at the first block, with its tokens and the signal."""

    def __init__(self, body: Body, batch: int, target: int | None, signal: Signal) -> None:
        super().__init__(body, batch, target, None)
        self._signal = signal
        self.signal: mx.array
        self.tokens: list[mx.array]

    def blocks(self, blocks: list[Any], position: int) -> Iterator[Any]:
        """See `Walk.blocks`."""
        yield lambda *args, **kwargs: self._cross(blocks[0], args, kwargs)

    def _cross(self, block: Any, args: Args, kwargs: Kwargs) -> None:
        call = self.enter(block, args, kwargs)
        streams = [self.body.image] if self.body.text is None else [self.body.image, self.body.text]
        captured = [fresh(call[stream]) for stream in streams]
        remembering = _RememberingCall(block=call.block, args=call.args, kwargs=call.kwargs)
        self.signal = cut(self._read(remembering), self.target if self._signal.tokens == "target" else None)
        self.tokens = [*captured, *map(fresh, remembering.ran)]
        raise Crossed

    def _read(self, call: BlockCall) -> mx.array:
        try:
            signal: Any = self._signal.read(call)
        except Exception as error:
            # The same exception: the model's own blocks may have raised it.
            error.add_note(f"While the adapter read its signal, {self._signal.tensor!r}.")
            raise
        if not isinstance(signal, mx.array) or signal.ndim < 2:
            given = f"shape {signal.shape}" if isinstance(signal, mx.array) else repr(type(signal))
            raise AdapterDescriptionError(
                f"The adapter's signal {self._signal.tensor!r} is of {given}; expected an array (..., tokens, width). "
                "Correct the adapter's description."
            )
        return signal


class Compute(Walk):
    """Runs every block, and keeps the target tokens before and behind them."""

    taps_tail = True

    def __init__(self, body: Body, batch: int, target: int | None, tokens: Sequence[mx.array] | None) -> None:
        super().__init__(body, batch, target, tokens)
        self.before: list[mx.array] = []
        self.after: list[mx.array] = []

    def blocks(self, blocks: list[Any], position: int) -> Iterator[Any]:
        """See `Walk.blocks`."""
        if position == 0:
            yield lambda *args, **kwargs: self._first(blocks[0], args, kwargs)
            yield from blocks[1:]
        else:
            yield from blocks

    def _first(self, block: Any, args: Args, kwargs: Kwargs) -> Any:
        call = self.enter(block, args, kwargs)
        self.before.append(cut(call[self.body.image], self.target))
        streams = 1 if self.body.text is None else 2
        ran = [] if self.tokens is None or self.branch > 0 else [fresh(one) for one in self.tokens[streams:]]
        if not ran:
            return call.run()
        # Z-Image's signal is read behind its first layer: to run it again would cost a layer on every computed step.
        return ran[0] if self.body.returns is None else tuple(ran)

    def tap(self, tail: Callable[..., Any]) -> Callable[..., Any]:
        """See `Walk.tap`."""

        def tapped(*args: Any, **kwargs: Any) -> Any:
            if len(self.after) <= self.branch:
                self.after.append(cut(args[0] if args else next(iter(kwargs.values())), self.target))
            return tail(*args, **kwargs)

        return tapped


class Reuse(Walk):
    """Runs no block: one stand-in hands on tokens plus residual."""

    def __init__(
        self, body: Body, batch: int, tokens: Sequence[mx.array] | None, residuals: Sequence[mx.array]
    ) -> None:
        super().__init__(body, batch, None, tokens)
        self._residuals = residuals

    def kwargs(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """See `Walk.kwargs`."""
        return {key: None if key in self.body.drop_on_reuse else value for key, value in kwargs.items()}

    def blocks(self, blocks: list[Any], position: int) -> Iterator[Any]:
        """See `Walk.blocks`."""
        if position == 0:
            yield lambda *args, **kwargs: self._stand_in(blocks[0], args, kwargs)

    def _stand_in(self, block: Any, args: Args, kwargs: Kwargs) -> Any:
        call = self.enter(block, args, kwargs)
        if self.branch >= len(self._residuals):
            raise Mismatch("no residual")
        image, residual = call[self.body.image], self._residuals[self.branch]
        count = residual.shape[-2]
        target = cut(image, count)
        if target.shape != residual.shape:
            raise Mismatch("shape")
        carried = target + residual
        if carried.dtype != residual.dtype:
            # The body may widen its tokens (words of higher precision do); tokens that widen a residual are foreign.
            raise Mismatch("shape")
        if count < image.shape[-2]:
            carried = mx.concatenate([carried, image[..., count:, :]], axis=-2)
        if self.body.returns is None:
            return carried
        text = None if self.body.text is None else call[self.body.text]
        return tuple(carried if stream == "image" else text for stream in self.body.returns)


def fresh(array: mx.array) -> mx.array:
    """The same values in an array object of its own.

    mflux's FLUX.1 forward adds in place (``hidden_states += sample``), which rewrites the array object that it holds;
    an object that we keep or hand out must never be the model's.
    """
    return array[...]


def cut(tokens: mx.array, target: int | None) -> mx.array:
    """The first `target` tokens (all for None) of (..., tokens, width), as an array object of its own."""
    return fresh(tokens) if target is None else tokens[..., :target, :]
