"""Steers a transformer's own forward at its body boundary. The only module that changes a transformer.

The transformer's `__call__` runs as its authors wrote it; only the iteration over its block lists is steered. Nothing
of a forward is copied here, and no family is known.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mlx.core as mx

from teacache.adapter import Body, Signal
from teacache.changes import Changes
from teacache.errors import AdapterDescriptionError
from teacache.walks import Args, Compute, Crossed, Kwargs, Probe, Reuse, Walk


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
    def _walk(self) -> Walk | None:
        """This thread's: a call from another thread is none of it."""
        walk: Walk | None = getattr(self._own, "walk", None)
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
        walk = Probe(self.body, self.batch, target, self.signal)
        with self._walking(walk):
            try:
                fn(*args, **kwargs)
            except Crossed:
                return walk.signal, walk.tokens
        raise self._not_reached()

    def compute(
        self, fn: Callable[..., Any], args: Args, kwargs: Kwargs, target: int | None, tokens: Sequence[mx.array] | None
    ) -> tuple[Any, list[mx.array], list[mx.array]]:
        """Runs a step in full, from the probed tokens on where there are any.

        Returns:
            What the step returns; the target tokens before and behind the body, one pair of entries per branch.
        """
        walk = Compute(self.body, self.batch, target, tokens)
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
        walk = Reuse(self.body, self.batch, tokens, residuals)
        with self._walking(walk):
            return fn(*args, **kwargs)

    @contextmanager
    def _walking(self, walk: Walk) -> Iterator[None]:
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

    def _tapped(self, tail: Callable[..., Any], walk: Walk) -> Callable[..., Any]:
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

    def __init__(self, blocks: list[Any], boundary: Boundary, walk: Walk, position: int) -> None:
        super().__init__(blocks)
        self._boundary = boundary
        self._walk = walk
        self._position = position

    def __iter__(self) -> Iterator[Any]:
        if self._boundary._walk is not self._walk:
            return super().__iter__()
        return self._walk.blocks(list(super().__iter__()), self._position)
