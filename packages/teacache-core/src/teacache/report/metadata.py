"""What made a picture, as plain types for its metadata, and reading it back. Imports neither mlx nor mflux."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from teacache.errors import MissingDependencyError
from teacache.stats import RunStats

KEY = "teacache"
"""Under this name it stands in the host's own metadata."""

_USER_COMMENT = 0x9286
_EXIF = 0x8769
_ASCII = b"ASCII\0\0\0"


def metadata(run: RunStats, packages: tuple[str, ...] = ()) -> dict[str, Any]:
    """Returns what made a picture.

    Args:
        run: the picture's run.
        packages: distributions whose versions belong to it, besides the core.
    """
    return {
        "policy": run.policy,
        "threshold": run.threshold,
        "steps": len(run.records),
        "computed_steps": [record.step for record in run.records if record.action == "compute"],
        "checkpoint": run.checkpoint,
        "identity": run.identity,
        "calibration": run.calibration,
        "versions": {name: found for name in ("teacache-core", *packages) if (found := _version(name)) is not None},
    }


def read_metadata(path: Path) -> dict[str, Any] | None:
    """Returns what `metadata` wrote, from a picture that mflux saved; None where there is nothing of it.

    Raises:
        MissingDependencyError: pillow is not installed.
        OSError: the file is no picture, or cannot be read.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingDependencyError(
            "Reading a picture needs pillow, which is not installed. Run: pip install 'teacache-core[quality]'"
        ) from error
    with Image.open(path) as picture:
        comment = picture.getexif().get_ifd(_EXIF).get(_USER_COMMENT)
    if isinstance(comment, bytes):
        comment = comment.removeprefix(_ASCII).decode("utf-8", errors="replace")
    try:
        found = json.loads(comment or "null")
    except json.JSONDecodeError:
        return None
    ours = found.get(KEY) if isinstance(found, dict) else None
    return ours if isinstance(ours, dict) else None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
