"""The log of what was changed on a model, and its undoing. Knows neither models nor hosts."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from teacache.errors import RestoreError


class Changes:
    """Makes changes and undoes them, the last one first.

    How to undo a change is in the log before the change is made, and leaves it after the change is undone; undoing
    what was never done, or twice, does nothing. So nothing is lost where an error or Ctrl-C falls between two lines.

    Objects are held weakly, so that the log keeps no model alive. A change that cannot be undone stays in the log:
    calling `undo` again retries it.
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def set_class(self, obj: Any, cls: type) -> None:
        """Gives an object another class."""
        previous, reference = type(obj), weakref.ref(obj)

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
        obj.__class__ = cls

    def set_attribute(self, obj: Any, name: str, value: Any) -> None:
        """Sets an attribute on this object alone, past a module's own bookkeeping of its parameters."""
        missing = object()
        previous, reference = vars(obj).get(name, missing), weakref.ref(obj)

        def undo() -> None:
            current = reference()
            if current is None or vars(current).get(name, missing) is previous:
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
        object.__setattr__(obj, name, value)

    def append(self, items: list[Any], item: Any) -> None:
        """Appends to a list; undone by identity, wherever the item stands by then."""

        def undo() -> None:
            items[:] = [other for other in items if other is not item]

        self._undo.append(undo)
        items.append(item)

    def undo(self) -> None:
        """Undoes everything that can be undone.

        Raises:
            RestoreError: a change could not be undone; it stays in the log, and nothing else does.
        """
        failures: list[RestoreError] = []
        for undo in self._undo[::-1]:
            try:
                undo()
            except RestoreError as error:
                failures.append(error)
            except Exception as error:  # noqa: BLE001 - whatever it is, the other changes are undone
                failures.append(_unforeseen(error))
            else:
                self._undo.remove(undo)
        if failures:
            raise failures[0]


def _unforeseen(cause: Exception) -> RestoreError:
    failure = RestoreError(f"A change could not be undone ({cause!r}). Remove the cause, then call restore() again.")
    failure.__cause__ = cause
    return failure
