"""Recordings of the user's own models, one small JSON file each, in the user's data folder. Imports no mlx, no mflux.

Nothing here may stop a picture: a file that cannot be read or written is one warning.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from teacache.errors import KernelError
from teacache.policies.kernel import Kernel

log = logging.getLogger(__name__)

FORMAT = 1
"""Version of the recording files: another version is another key, and is left alone."""

LARGEST_FILE = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What a recording belongs to. Anything else makes another key.

    Attributes:
        checkpoint: name of the checkpoint, None where it is unknown.
        level: how surely, see `teacache.identity`.
        fingerprint: of the weights, LoRA included.
        pipeline: class name.
        guidance: whether guidance was on.
    """

    checkpoint: str | None
    level: str
    fingerprint: str
    pipeline: str
    guidance: bool

    @property
    def name(self) -> str:
        """The file name: safe whatever the checkpoint is called."""
        text = json.dumps([FORMAT, *asdict(self).values()])
        return hashlib.sha256(text.encode()).hexdigest()[:24]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One stored kernel with what it was recorded under.

    Attributes:
        key: what it belongs to.
        kernel: the numbers.
        evidence: steps, guidance, size, versions, machine and date: soft fields, named in messages.
    """

    key: Key
    kernel: Kernel
    evidence: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """Returns the file's text."""
        return json.dumps(
            {
                "format": FORMAT,
                "key": asdict(self.key),
                "sigmas": self.kernel.sigmas,
                "products": [[float(f"{value:.9g}") for value in row] for row in self.kernel.products.tolist()],
                "prompts": self.kernel.prompts,
                "evidence": self.evidence,
            },
            indent=None,
        )

    @classmethod
    def from_json(cls, text: str) -> Recording:
        """Reads a file's text.

        Raises:
            KernelError: it is no recording of this format.
        """
        try:
            data = json.loads(text)
            if data["format"] != FORMAT:
                raise KernelError(f"The recording has format {data['format']}; this teacache reads {FORMAT}.")
            key = Key(**data["key"])
            if not isinstance(data["evidence"], dict):
                raise TypeError("evidence")
            kernel = Kernel.of(data["sigmas"], data["products"], prompts=data["prompts"])
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise KernelError(f"This is no recording of teacache: {error!r}.") from error
        return cls(key=key, kernel=kernel, evidence=data["evidence"])


class Store:
    """The folder of recordings.

    Args:
        folder: None takes ``TEACACHE_DATA`` or the platform's data folder for the user.
    """

    def __init__(self, folder: Path | None = None) -> None:
        home = os.environ.get("TEACACHE_DATA") or platformdirs.user_data_dir("teacache", appauthor=False)
        self.folder = folder if folder is not None else Path(home) / "recordings"

    def path(self, key: Key) -> Path:
        """Returns where a key's recording is, or would be."""
        return self.folder / f"{key.name}.json"

    def load(self, key: Key) -> Recording | None:
        """Returns a key's recording, None where there is none.

        Raises:
            KernelError: the file is damaged, or belongs to another key.
            OSError: it cannot be read.
        """
        path = self.path(key)
        log.debug("looking for %s in %s", path.name, self.folder)
        if not path.is_file():
            return None
        recording = self._read(path)
        if recording.key != key:
            raise KernelError(f"{path.name} holds the recording of another model.")
        return recording

    def save(self, recording: Recording) -> Path:
        """Writes a recording, whole or not at all; the last of several writers stands.

        Raises:
            OSError: the folder cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.path(recording.key)
        handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=".writing-", suffix=".json")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(recording.to_json())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        return path

    def forget(self, key: Key) -> bool:
        """Removes a recording; tells whether there was one."""
        path = self.path(key)
        existed = path.is_file()
        path.unlink(missing_ok=True)
        return existed

    def all(self) -> Iterator[tuple[Path, Recording | KernelError]]:
        """Yields every recording file, with what it holds or why it cannot be read."""
        for path in sorted(self.folder.glob("[0-9a-f]*.json")):
            try:
                yield path, self._read(path)
            except KernelError as error:
                yield path, error
            except OSError as error:
                yield path, KernelError(f"{path.name} cannot be read ({error}).")

    @staticmethod
    def _read(path: Path) -> Recording:
        if path.stat().st_size > LARGEST_FILE:
            raise KernelError(f"{path.name} is too large to be a recording.")
        try:
            return Recording.from_json(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise KernelError(f"{path.name} is not text.") from error
