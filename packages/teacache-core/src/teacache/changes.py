"""The log of what was changed on a model, and its undoing. Knows neither models nor hosts."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from teacache.errors import RestoreError


class Changes:
    """Makes changes and undoes them, the last one first.

    Objects are held weakly, so that the log keeps no model alive. A change that cannot be undone stays in the log:
    calling `undo` again retries it.
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def set_class(self, obj: Any, cls: type) -> None:
        """Gives an object another class."""
        previous, reference = type(obj), weakref.ref(obj)
        obj.__class__ = cls

        def undo() -> None:
            current = reference()
            if current is None or type(current) is previous:
                return
            if type(current) is not cls:
                raise RestoreError(
                    f"The class of {cls.__name__} was changed to {type(current)!r} after it was wrapped. "
                    "Undo that change first, then call restore() again."
                )
            current.__class__ = previous

        self._undo.append(undo)

    def set_attribute(self, obj: Any, name: str, value: Any) -> None:
        """Sets an attribute on this object alone, past a module's own bookkeeping of its parameters."""
        missing = object()
        previous, reference = vars(obj).get(name, missing), weakref.ref(obj)
        object.__setattr__(obj, name, value)

        def undo() -> None:
            current = reference()
            if current is None:
                return
            if vars(current).get(name) is not value:
                raise RestoreError(
                    f"{type(current).__name__}.{name} was replaced after it was wrapped. "
                    "Undo that change first, then call restore() again."
                )
            if previous is missing:
                object.__delattr__(current, name)
            else:
                object.__setattr__(current, name, previous)

        self._undo.append(undo)

    def append(self, items: list[Any], item: Any) -> None:
        """Appends to a list; undone by identity, wherever the item stands by then."""
        items.append(item)

        def undo() -> None:
            items[:] = [other for other in items if other is not item]

        self._undo.append(undo)

    def undo(self) -> None:
        """Undoes everything that can be undone.

        Raises:
            RestoreError: a change could not be undone; it stays in the log, and nothing else does.
        """
        left: list[Callable[[], None]] = []
        failures: list[RestoreError] = []
        while self._undo:
            undo = self._undo.pop()
            try:
                undo()
            except RestoreError as error:
                left.insert(0, undo)
                failures.append(error)
        self._undo = left
        if failures:
            raise failures[0]
