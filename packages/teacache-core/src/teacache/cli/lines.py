"""What a long command has done so far: JSON lines that the same command goes on from. Imports nothing heavy."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from teacache.cli import say
from teacache.cli.files import write_text
from teacache.errors import OptionError


class Lines:
    """The results of a command that may be interrupted, each written as soon as it is there.

    Args:
        path: the file; its first line holds the settings.
        settings: what the results belong to, as plain types.

    Raises:
        OptionError: the file holds results of other settings, or no results at all.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []
        header: dict[str, Any] = json.loads(json.dumps({"settings": settings}))
        if path.exists():
            found = self._read()
            if not found or found[0] != header:
                raise OptionError(
                    f"{path} holds what was measured under other settings. Go on with those, remove the file, or give "
                    "another --out."
                )
            self.rows = found[1:]
        write_text(path, "".join(_line(row) for row in (header, *self.rows)))

    def append(self, row: dict[str, Any]) -> None:
        """Adds one result, and has it on the disk before it returns."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line(row))
            file.flush()
            os.fsync(file.fileno())
        self.rows.append(row)

    @contextmanager
    def resumable(self) -> Iterator[None]:
        """Says how to go on where the work breaks off."""
        try:
            yield
        except BaseException:
            kept = "1 result is" if len(self.rows) == 1 else f"{len(self.rows)} results are"
            say(f"{kept} kept in {self.path}. The same command goes on from there.")
            raise

    def _read(self) -> list[dict[str, Any]]:
        """The lines up to the first that is damaged: a power cut may have left half of the last one."""
        rows: list[dict[str, Any]] = []
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError:
                break
        return rows


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row) + "\n"
