"""Steers a transformer's own forward at its body boundary. The only module that changes a transformer.

The transformer's `__call__` runs as its authors wrote it; only the iteration over its block lists is steered. Nothing
of a forward is copied here, and no family is known.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import mlx.core as mx

from teacache.adapter import Argument, BlockCall, Body, Signal
from teacache.changes import Changes
from teacache.errors import AdapterDescriptionError, RunError

Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]


class Mismatch(Exception):  # noqa: N818 - control flow between boundary and run, never seen outside
    """What is stored does not fit the tokens of this step."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Crossed(BaseException):
    """Ends the forward of a probe at the body boundary; a BaseException, so that no model's handler catches it."""


class Boundary:
    """Steers one transformer.

    Attributes:
        on_call: takes over calls of the transformer that come from outside a piece, as
            ``on_call(entry, args, kwargs)``, where `entry` is the transformer's call, steered inside a piece and plain
            outside; None: they run plain.
    """

    def __init__(self, body: Body, signal: Signal, *, batch: int = 1) -> None:
        self.body = body
        self.signal = signal
        self.batch = batch
        self.on_call: Callable[[Callable[..., Any], Args, dict[str, Any]], Any] | None = None
        self._own = threading.local()
        self._steering = threading.RLock()

    @property
    def _walk(self) -> _Walk | None:
        """This thread's: a call from another thread is none of it."""
        walk: _Walk | None = getattr(self._own, "walk", None)
        return walk

    def install(self, transformer: Any, changes: Changes) -> None:
        """Gives the transformer a subclass of its own, through which its calls can be steered."""
        for name in self.body.blocks:
            if not isinstance(transformer.get(name), list) or not transformer[name]:
                raise AdapterDescriptionError(
                    f"{type(transformer).__name__} has no list of blocks named {name!r}; its lists are "
                    f"{[key for key, value in transformer.items() if isinstance(value, list)]}. "
                    "The installed model and the adapter do not fit: `teacache adapters` shows the versions."
                )
        base = type(transformer)
        boundary = self

        class Traced(base):  # type: ignore[misc, valid-type]
            teacache_boundary = boundary

            def __call__(self, *args: Any, **kwargs: Any) -> Any:
                forward = super().__call__

                def entry(*args: Any, **kwargs: Any) -> Any:
                    if boundary._walk is None:
                        return forward(*args, **kwargs)
                    return boundary._steer(forward, self, args, kwargs)

                if boundary._walk is None and boundary.on_call is not None:
                    return boundary.on_call(entry, args, kwargs)
                return entry(*args, **kwargs)

        Traced.__name__, Traced.__qualname__, Traced.__module__ = base.__name__, base.__qualname__, base.__module__
        Traced.__doc__ = base.__doc__
        changes.set_class(transformer, Traced)

    def probe(
        self, fn: Callable[..., Any], args: Args, kwargs: Kwargs, target: int | None
    ) -> tuple[mx.array, list[mx.array]]:
        """Runs a step up to the body.

        Returns:
            The signal, and the tokens that enter the body (image, then text where it has a stream of its own); behind
            them what the first block made of them, where reading the signal ran it.
        """
        walk = _Probe(self, target)
        with self._walking(walk):
            try:
                fn(*args, **kwargs)
            except _Crossed:
                return walk.signal, walk.tokens
        raise self._not_reached()

    def compute(
        self, fn: Callable[..., Any], args: Args, kwargs: Kwargs, target: int | None, tokens: Sequence[mx.array] | None
    ) -> tuple[Any, list[mx.array], list[mx.array]]:
        """Runs a step in full, from the probed tokens on where there are any.

        Returns:
            What the step returns; the target tokens before and behind the body, one pair of entries per branch.
        """
        walk = _Compute(self, target, tokens)
        with self._walking(walk):
            output = fn(*args, **kwargs)
        if not walk.before or len(walk.before) != len(walk.after):
            raise self._not_reached()
        return output, walk.before, walk.after

    def reuse(
        self,
        fn: Callable[..., Any],
        args: Args,
        kwargs: Kwargs,
        tokens: Sequence[mx.array] | None,
        residuals: Sequence[mx.array],
    ) -> Any:
        """Runs a step without its body: the residuals stand in for it, one per branch.

        Raises:
            Mismatch: a residual is missing, or does not have the shape of the tokens or less than their precision.
        """
        walk = _Reuse(self, tokens, residuals)
        with self._walking(walk):
            return fn(*args, **kwargs)

    @contextmanager
    def _walking(self, walk: _Walk) -> Iterator[None]:
        previous, self._own.walk = self._walk, walk
        try:
            yield
        finally:
            self._own.walk = previous

    def _steer(self, forward: Callable[..., Any], transformer: Any, args: Args, kwargs: dict[str, Any]) -> Any:
        """One branch: the block lists, and in compute the tail, are swapped while the forward runs."""
        walk = self._walk
        assert walk is not None  # noqa: S101 - narrowed by the caller
        walk.branch += 1
        # One thread at a time: a second one would put the first one's lists back as the model's own.
        with self._steering, _Swapped() as swapped:
            for position, name in enumerate(self.body.blocks):
                swapped.swap(transformer, name, _BlockList(transformer[name], self, walk, position))
            if walk.taps_tail:
                container, key, tail = self._tail(transformer)
                swapped.swap(container, key, self._tapped(tail, walk))
            return forward(*args, **walk.kwargs(kwargs))

    def _tail(self, transformer: Any) -> tuple[Any, str, Callable[..., Any]]:
        tail = self.body.tail
        try:
            container, key = (transformer, tail) if isinstance(tail, str) else tail(transformer)
            return container, key, container[key]
        except (KeyError, TypeError, ValueError) as error:
            raise AdapterDescriptionError(
                f"{type(transformer).__name__} has no tail {tail!r} ({error!r}). The installed model and the adapter "
                "do not fit: `teacache adapters` shows the versions."
            ) from error

    def _tapped(self, tail: Callable[..., Any], walk: _Walk) -> Callable[..., Any]:
        tapped = walk.tap(tail)

        def call(*args: Any, **kwargs: Any) -> Any:
            return (tapped if self._walk is walk else tail)(*args, **kwargs)

        return call

    def _not_reached(self) -> AdapterDescriptionError:
        return AdapterDescriptionError(
            f"The model's forward did not iterate over its blocks {list(self.body.blocks)} and call its tail once per "
            "branch. The installed model and the adapter do not fit: `teacache adapters` shows the versions."
        )


class _Swapped:
    """Entries of mappings, swapped and put back in reverse order whatever happens."""

    def __init__(self) -> None:
        self._entries: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> _Swapped:
        return self

    def swap(self, container: Any, key: str, value: Any) -> None:
        self._entries.append((container, key, container[key]))
        container[key] = value

    def __exit__(self, *_: object) -> None:
        for container, key, value in reversed(self._entries):
            container[key] = value


class _BlockList(list[Any]):
    """The same blocks (length, indexing and walks over the parameters stay true); iteration is steered.

    In another thread, and once its call has ended, it is a list like any other.
    """

    def __init__(self, blocks: list[Any], boundary: Boundary, walk: _Walk, position: int) -> None:
        super().__init__(blocks)
        self._boundary = boundary
        self._walk = walk
        self._position = position

    def __iter__(self) -> Iterator[Any]:
        if self._boundary._walk is not self._walk:
            return super().__iter__()
        return self._walk.blocks(list(super().__iter__()), self._position)


class _Walk:
    """How one piece goes through the block lists."""

    taps_tail = False

    def __init__(self, boundary: Boundary, target: int | None, tokens: Sequence[mx.array] | None) -> None:
        self.body = boundary.body
        self.target = target
        self.tokens = tokens
        self.branch = -1
        self._batch = boundary.batch

    def kwargs(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        return kwargs

    def blocks(self, blocks: list[Any], position: int) -> Iterator[Any]:
        raise NotImplementedError

    def tap(self, tail: Callable[..., Any]) -> Callable[..., Any]:
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


class _Probe(_Walk):
    def __init__(self, boundary: Boundary, target: int | None) -> None:
        super().__init__(boundary, target, None)
        self._signal = boundary.signal
        self.signal: mx.array
        self.tokens: list[mx.array]

    def blocks(self, blocks: list[Any], position: int) -> Iterator[Any]:
        yield lambda *args, **kwargs: self._cross(blocks[0], args, kwargs)

    def _cross(self, block: Any, args: Args, kwargs: Kwargs) -> None:
        call = self.enter(block, args, kwargs)
        streams = [self.body.image] if self.body.text is None else [self.body.image, self.body.text]
        captured = [fresh(call[stream]) for stream in streams]
        remembering = _RememberingCall(block=call.block, args=call.args, kwargs=call.kwargs)
        self.signal = cut(self._read(remembering), self.target if self._signal.tokens == "target" else None)
        self.tokens = [*captured, *map(fresh, remembering.ran)]
        raise _Crossed

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


class _Compute(_Walk):
    taps_tail = True

    def __init__(self, boundary: Boundary, target: int | None, tokens: Sequence[mx.array] | None) -> None:
        super().__init__(boundary, target, tokens)
        self.before: list[mx.array] = []
        self.after: list[mx.array] = []

    def blocks(self, blocks: list[Any], position: int) -> Iterator[Any]:
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
        def tapped(*args: Any, **kwargs: Any) -> Any:
            if len(self.after) <= self.branch:
                self.after.append(cut(args[0] if args else next(iter(kwargs.values())), self.target))
            return tail(*args, **kwargs)

        return tapped


class _Reuse(_Walk):
    def __init__(self, boundary: Boundary, tokens: Sequence[mx.array] | None, residuals: Sequence[mx.array]) -> None:
        super().__init__(boundary, None, tokens)
        self._residuals = residuals

    def kwargs(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        return {key: None if key in self.body.drop_on_reuse else value for key, value in kwargs.items()}

    def blocks(self, blocks: list[Any], position: int) -> Iterator[Any]:
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
