"""What core uses of a host's model, read off one run: block lists and arguments, return order, tail, entries.

Compared with what was pinned, it says in one sentence what the host changed. Imports mlx; never mflux.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import mlx.core as mx

from teacache.testing.oracles.drift import changed, load_pins, save_pins
from teacache.testing.oracles.equivalence import tail_of
from teacache.testing.oracles.result import Check, Result, environment
from teacache.testing.oracles.subject import Subject
from teacache.testing.spies import compile_disabled

PIN = "TEACACHE_PIN"
"""Set to 1, the tests pin the surfaces that they find instead of comparing them."""


def surface(subject: Subject, pinned: Mapping[str, str] | None) -> Result:
    """Asks whether the installed model still looks as it did when the adapter was written.

    Args:
        subject: a small model.
        pinned: its surface then, as `read_surface` returned it; None: there is none yet.
    """
    model = subject.make_model()
    now = read_surface(subject, model)
    said = [] if pinned is None else list(changed(type(model).__name__, pinned, now))
    checks = [
        Check.of(
            fact,
            pinned is not None and pinned.get(fact) == value,
            now=value,
            says=next(
                (line for line in said if f": {fact} was " in line),
                "It is not pinned: TEACACHE_PIN=1 pytest of its test",
            ),
        )
        for fact, value in now.items()
    ]
    return Result(
        oracle="drift",
        question="is the host's model what the adapter describes?",
        subject=subject.title(model),
        checks=tuple(checks),
        evidence=environment(),
    )


def check_surface(subject: Subject, package: str) -> None:
    """Holds a model to the surface that its package pinned; with TEACACHE_PIN=1, pins it.

    Raises:
        OracleError: the host changed something; the message says what.
    """
    pins, model = load_pins(package), subject.make_model()
    name = type(model).__name__
    if os.environ.get(PIN) == "1":
        save_pins(package, replace(pins, surface={**pins.surface, name: read_surface(subject, model)}))
    else:
        surface(subject, pins.surface.get(name)).require()


def read_surface(subject: Subject, model: Any) -> dict[str, str]:
    """Runs a model once, unwrapped and eager, and returns what core uses of it, in words."""
    adapter, pipeline = subject.adapter, subject.pipeline(model)
    transformer = subject.transformer(model)
    lists = {name: transformer.get(name) for name in adapter.body.blocks}
    facts = {
        "transformer": f"{type(transformer).__module__}.{type(transformer).__qualname__}",
        "block lists": ", ".join(
            f"{name} of {type(blocks[0]).__name__}" if isinstance(blocks, list) and blocks else f"no list {name}"
            for name, blocks in lists.items()
        ),
        "entries": ", ".join(_entry(model, name) for name in pipeline.factories) or "the transformer's call",
    }
    first = next((blocks[0] for blocks in lists.values() if isinstance(blocks, list) and blocks), None)
    if first is None:
        return facts
    with compile_disabled(), _calls(first) as blocks, _calls(tail_of(transformer, adapter)) as tails:
        subject.generate(model)
    if not blocks or not tails:
        return facts | {
            "forward": f"calls the first block {len(blocks)} times and the tail {len(tails)} times in a run"
        }
    call, tail = blocks[0], tails[0]
    return facts | {
        "block arguments": ", ".join([*map(str, range(len(call.args))), *sorted(call.kwargs)]),
        "block returns": _order(call, adapter.body.image, adapter.body.text),
        "tail": f"{type(tail_of(transformer, adapter)).__name__} called with "
        f"{', '.join([*map(str, range(len(tail.args))), *sorted(tail.kwargs)])}",
        "tail calls": f"{len(tails)} for {len(blocks)} of the first block",
    }


class _Call:
    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args, self.kwargs = args, kwargs
        self.returned: Any = None

    def tokens(self, argument: str | int | None) -> tuple[int, ...] | None:
        given = self.kwargs.get(argument) if isinstance(argument, str) else None
        if isinstance(argument, int) and argument < len(self.args):
            given = self.args[argument]
        return None if given is None else tuple(given.shape)


@contextmanager
def _calls(module: Any) -> Iterator[list[_Call]]:
    """Collects the calls of a module."""
    calls: list[_Call] = []
    base = type(module)

    class Spied(base):  # type: ignore[misc, valid-type]
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            call = _Call(args, kwargs)
            calls.append(call)
            call.returned = super().__call__(*args, **kwargs)
            return call.returned

    module.__class__ = Spied
    try:
        yield calls
    finally:
        module.__class__ = base


def _order(call: _Call, image: str | int, text: str | int | None) -> str:
    """Names what a block returns by the stream whose shape it has."""
    shapes = {call.tokens(text): "text", call.tokens(image): "image"}
    returned = call.returned if isinstance(call.returned, tuple) else (call.returned,)
    named = [shapes.get(tuple(one.shape), "other") if isinstance(one, mx.array) else "other" for one in returned]
    return named[0] + " alone" if len(named) == 1 else ", ".join(named)


def _entry(model: Any, name: str) -> str:
    static = inspect.getattr_static(type(model), name, None)
    if static is None:
        return f"no {name}"
    function = getattr(static, "__func__", static)
    kind = "static" if isinstance(static, staticmethod) else "method"
    return f"{name}({', '.join(inspect.signature(function).parameters)}) ({kind})"
