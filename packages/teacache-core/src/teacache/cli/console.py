"""Where the commands print tables and progress. Imports rich inside functions only."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from teacache.errors import MissingDependencyError, TeaCacheError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

# Read by tqdm and transformers when they are imported: mflux's own bar would run through the command's, and
# transformers says that torch is missing, which mflux does not need.
_QUIET = {"TQDM_DISABLE": "1", "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1"}


def examples(*commands: str) -> str:
    """Returns commands as a help text shows them, each on its line."""
    return "\n".join(["\b", "Examples:" if len(commands) > 1 else "Example:", *(f"  {line}" for line in commands)])


def as_options(text: str) -> str:
    """Turns what a message says of Python's arguments into the options of the command line."""
    text = re.sub(r"\bwrap\(model, checkpoint='([^']*)'\)", r"--checkpoint \1", text)
    return re.sub(
        r"\b(speedup|threshold|computed_steps|plan|checkpoint)=('[^']*'|\w[\w.]*\w|\w)?",
        lambda found: f"--{found[1].replace('_', '-')} {found[2] or ''}".rstrip(),
        text,
    )


@contextmanager
def spoken_as_options() -> Iterator[None]:
    """Lets errors of teacache speak of the command line's options instead of Python's arguments."""
    try:
        yield
    except TeaCacheError as error:
        text = as_options(str(error))
        if text == str(error):
            raise
        raise type(error)(text) from error


def console(*, stderr: bool = False) -> Console:
    """Returns rich's console, which honours NO_COLOR.

    Raises:
        MissingDependencyError: rich is not installed.
    """
    try:
        from rich.console import Console
    except ImportError as error:
        raise MissingDependencyError(
            "Tables need rich, which is not installed. Run: pip install 'teacache-core[quality]'"
        ) from error
    return Console(stderr=stderr, highlight=False)


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keeps the libraries that mflux brings from printing; effective if they were not imported before."""
    before = {name: os.environ.get(name) for name in _QUIET}
    os.environ.update(_QUIET)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def progress() -> Iterator[Progress]:
    """A bar with the time left on stderr, gone when the work is done. Where stderr is no terminal, nothing."""
    from rich import progress as rich_progress

    columns = (
        rich_progress.SpinnerColumn(),
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(),
        rich_progress.MofNCompleteColumn(),
        rich_progress.TimeRemainingColumn(),
    )
    screen = console(stderr=True)
    with rich_progress.Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        yield bar
