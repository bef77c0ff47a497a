"""Writes pictures whole or not at all. Imports neither mlx nor mflux."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from teacache.errors import OptionError

if TYPE_CHECKING:
    from PIL.Image import Image


def check_png_path(path: Path) -> None:
    """Tells before the work begins that a picture could not be written.

    Raises:
        OptionError: the name does not end in .png, its folder does not exist, or a folder has that name.
    """
    folder = path.absolute().parent
    if path.suffix.lower() != ".png":
        raise OptionError(f"{path} was given for the picture; expected a name that ends in .png.")
    if not folder.is_dir():
        raise OptionError(f"{path} was given for the picture, but there is no folder {folder}. Run: mkdir -p {folder}")
    if path.is_dir():
        raise OptionError(f"{path} was given for the picture, but it is a folder. Give a file name in it.")
    if not os.access(folder, os.W_OK):
        raise OptionError(f"{path} was given for the picture, but the folder {folder} cannot be written to.")


def save_png(image: Image, path: Path) -> None:
    """Writes a PNG beside its place and moves it there, so that a reader never sees half of it.

    Raises:
        OptionError: see `check_png_path`.
        OSError: the disk is full, or the like; an older file is then still there.
    """
    check_png_path(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        image.save(draft, format="PNG", optimize=True)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
