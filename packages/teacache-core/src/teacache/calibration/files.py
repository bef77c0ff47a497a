"""Reads and writes the small files of a package: as a whole, of bounded size, inside the package. Imports no mlx."""

from __future__ import annotations

import os
import threading
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import Any

LARGEST_FILE = 4 * 2**20
"""Bytes that a calibration or tolerance file may have; the largest shipped one has 4,106."""


def resource(reference: str) -> Traversable:
    """Returns what ``"package:path"`` names inside an importable package.

    Raises:
        ValueError: the path leads out of the package, or there is no such package.
    """
    package, _, path = reference.partition(":")
    parts = PurePosixPath(path).parts
    if not parts or ".." in parts or PurePosixPath(path).is_absolute() or "\\" in path:
        raise ValueError(f"{path!r} is no path inside the package")
    try:
        return files(package).joinpath(*parts)
    except (ImportError, TypeError, AttributeError) as error:
        raise ValueError(f"{package!r} cannot be imported: {error}") from error


def read_text(file: Traversable) -> str:
    """Returns a file's text.

    Raises:
        OSError: it cannot be read.
        ValueError: it is larger than `LARGEST_FILE`, or not UTF-8.
    """
    with file.open("rb") as opened:
        data = opened.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise ValueError(f"it has more than {LARGEST_FILE} bytes")
    return data.decode("utf-8").replace("\r\n", "\n")


def write_text(path: Path, text: str) -> None:
    """Writes a file whole or not at all: a reader never sees half of it, and the last of several writers stands.

    Raises:
        OSError: its folder cannot be written to.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        with draft.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def shown(value: Any) -> str:
    """Returns a value as messages show it, however large or deep it is."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python writes no number of more than 4300 digits
        return f"a {type(value).__name__} too large to be shown"
    return text if len(text) <= 200 else f"{text[:200]}..."
