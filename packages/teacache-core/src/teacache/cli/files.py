"""Writes the files of the commands whole or not at all. Imports nothing heavy."""

from __future__ import annotations

import os
from pathlib import Path

from teacache.errors import OptionError


def check_path(path: Path, option: str) -> None:
    """Tells before the work begins that a file could not be written.

    Raises:
        OptionError: its folder does not exist or cannot be written to, or a folder has that name.
    """
    folder = path.absolute().parent
    if not folder.is_dir():
        raise OptionError(f"{option} {path} was given, but there is no folder {folder}. Run: mkdir -p {folder}")
    if path.is_dir():
        raise OptionError(f"{option} {path} was given, but it is a folder. Give a file name in it.")
    if not os.access(folder, os.W_OK):
        raise OptionError(f"{option} {path} was given, but the folder {folder} cannot be written to.")


def write_text(path: Path, text: str) -> None:
    """Writes a text beside its place and moves it there, so that a reader never sees half of it.

    Raises:
        OSError: the disk is full, or the like; an older file is then still there.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
