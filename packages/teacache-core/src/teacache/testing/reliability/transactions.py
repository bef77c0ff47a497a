"""Cases about failures inside `wrap` and `restore`: one at every line that runs. Needs pytest; never imports mflux."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import teacache
from teacache.errors import RestoreError
from teacache.testing.reliability.base import POLICIES, ReliabilitySuite
from teacache.testing.spies import expected_warnings, snapshot
from teacache.wrapping import Handle

SOURCE = Path(teacache.__file__).parent
WATCHED = frozenset(
    str(SOURCE / name)
    for name in ("wrapping.py", "boundary.py", "changes.py", "session.py", "hosts/mflux.py", "hosts/loop.py")
)
"""Every module that changes a model, or runs between two changes."""


class InjectedError(Exception):
    """An error that nobody foresaw."""


class InjectedInterrupt(BaseException):
    """Ctrl-C, or the end of the process."""


@contextmanager
def failing_at(line: int, error: type[BaseException]) -> Iterator[list[str]]:
    """Raises an error in place of the n-th line of the watched modules that would run; 0: in none.

    Yields:
        The lines that ran, as ``file:number``.
    """
    ran: list[str] = []

    def each(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            ran.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
            if len(ran) == line:
                raise error(ran[-1])
        return each

    def entered(frame: FrameType, event: str, _: Any) -> Any:
        return each if frame.f_code.co_filename in WATCHED else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        yield ran
    finally:
        sys.settrace(before)


def lines_of(call: Callable[[], Any]) -> int:
    """Returns how many lines of the watched modules a call runs."""
    with failing_at(0, InjectedError) as ran:
        call()
    return len(ran)


class Transactions(ReliabilitySuite):
    """Transactions: a failure at any line of `wrap` or `restore` leaves nothing half done."""

    @pytest.mark.parametrize(("policy", "error"), [("gate", InjectedError), ("plan", InjectedInterrupt)])
    def test_a_failure_at_any_line_of_wrap(self, model: Any, policy: str, error: type[BaseException]) -> None:
        """Red when a change that was made is not in the log yet, or a step of `wrap` lies outside its transaction."""
        pipeline, options = self.pipeline_of(model), POLICIES[policy]
        before = snapshot(model, self.adapter, pipeline)
        with expected_warnings():
            self.wrap(model, **options).restore()  # what is imported at the first wrap runs no more
            handles: list[Handle] = []
            lines = lines_of(lambda: handles.append(self.wrap(model, **options)))
            handles[0].restore()
            for line in range(1, lines + 1):
                with failing_at(line, error) as ran, pytest.raises(error):
                    self.wrap(model, **options)
                assert snapshot(model, self.adapter, pipeline) == before, f"a failure at {ran[-1]} left something"
        assert lines > 50

    @pytest.mark.parametrize("error", [InjectedError, InjectedInterrupt])
    def test_a_failure_at_any_line_of_restore(self, model: Any, error: type[BaseException]) -> None:
        """Red when a failed `restore` forgets a change, cannot be called again, or undoes something twice."""
        pipeline = self.pipeline_of(model)
        before = snapshot(model, self.adapter, pipeline)
        with expected_warnings():
            handle = self.wrap(model, **POLICIES["gate"])
            lines = lines_of(handle.restore)
            for line in range(1, lines + 1):
                handle = self.wrap(model, **POLICIES["gate"])
                with failing_at(line, error) as ran, pytest.raises((error, RestoreError)):
                    handle.restore()
                handle.restore()
                assert snapshot(model, self.adapter, pipeline) == before, f"a failure at {ran[-1]} left something"
        assert lines > 10
