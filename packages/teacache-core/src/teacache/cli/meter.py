"""Counts the steps of a command that makes several pictures, for its progress bar. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from teacache.stats import StepRecord


Update = Callable[[str, int, int], None]
"""Takes what is being done, the steps computed so far, and how many there will be in all."""


class Meter:
    """Counts computed steps for a progress bar.

    Args:
        update: called whenever something of it changes.
        expected: about how many there will be.
    """

    def __init__(self, update: Update, expected: int) -> None:
        self._update = update
        self._doing = ""
        self._done = 0
        self._total = expected

    def begin(self, doing: str) -> None:
        """Says what is done from now on."""
        self._doing = doing
        self._update(self._doing, self._done, self._total)

    def expect(self, more: int) -> None:
        """Says by how many steps it is more than was expected."""
        self._total += more

    def step(self, record: StepRecord) -> None:
        """Counts a step where the model ran."""
        if record.action == "compute":
            self._done += 1
            self._update(self._doing, self._done, self._total)
