"""The command line. Importing it imports nothing heavy: typer when it starts, all else in the command that needs it."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from teacache.errors import TeaCacheError, TeaCacheWarning

BROKEN = 1
USAGE = 2
INTERRUPTED = 130
DEBUG = "TEACACHE_DEBUG"

NEEDED = ("mlx", "mflux")
"""Packages whose installation is the user's to mend: MLX has no backend of its own on Linux."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command of `teacache`.

    A user's mistake is one line on stderr and exit code 2, Ctrl-C one line and 130; TEACACHE_DEBUG=1 shows the
    traceback of either, and the log.

    Args:
        arguments: what follows the program's name; None: those of the process.

    Returns:
        The exit code.
    """
    try:
        from teacache.cli.app import run

        with _log_shown(debugging()), _warnings_as_lines():
            return run(arguments)
    except TeaCacheError as error:
        if debugging():
            raise
        return _fail(str(error), USAGE)
    except (KeyboardInterrupt, Exception) as error:
        if debugging():
            raise
        if _is_interruption(error):
            return _fail("interrupted; nothing was left half-written.", INTERRUPTED)
        broken = getattr(error, "name", None) if isinstance(error, ImportError) else None
        if broken is None or broken.partition(".")[0] not in NEEDED:
            raise
        return _fail(f"{broken} cannot be imported here ({error}). `teacache doctor` says what is missing.", BROKEN)


def debugging() -> bool:
    """Whether TEACACHE_DEBUG asks for tracebacks and the log."""
    return os.environ.get(DEBUG, "") not in ("", "0")


def _fail(message: str, code: int) -> int:
    say(message)
    return code


def say(message: str) -> None:
    """Writes one line for the user on stderr."""
    sys.stderr.write(f"teacache: {' '.join(message.split())}\n")


@contextmanager
def _log_shown(wanted: bool) -> Iterator[None]:
    """Shows what is logged under `teacache`, on stderr; the logs of other packages stay as they are."""
    if not wanted:
        yield
        return
    import logging

    log, handler = logging.getLogger("teacache"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(relativeCreated)7d ms %(name)s: %(message)s"))
    level, propagate = log.level, log.propagate
    log.addHandler(handler)
    log.propagate = False  # mflux's commands show the root's log too
    log.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagate
        log.setLevel(level)


def _is_interruption(error: BaseException | None) -> bool:
    """Tells whether Ctrl-C is behind an error: hosts turn it into errors of their own."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Shows each warning of teacache as one line, once; leaves all others as they are."""
    said: set[str] = set()
    with warnings.catch_warnings():
        show = warnings.showwarning

        def line(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if not issubclass(category, TeaCacheWarning):
                show(message, category, *where, **more)
            elif str(message) not in said:
                said.add(str(message))
                say(str(message))

        warnings.showwarning = line
        warnings.simplefilter("always", TeaCacheWarning)
        yield
