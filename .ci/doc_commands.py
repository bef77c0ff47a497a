"""Finds what README and docs tell a reader to run, and the list of how each of it is checked. Imports no mlx, no mflux.

Commands stand in fenced `sh` blocks, code in fenced `python` blocks. The list is `doc_commands.toml`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_name("doc_commands.toml")
SPOKEN = ("sh", "python", "toml", "text", "json", "html")
"""Languages that a fence may name. A bare fence is for drawings and output."""

_FENCE = re.compile(r"^( *)```(\S*)[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`(teacache [^`\n]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: its file, from the root of the repository.
        language: what the fence names; empty where it names nothing.
        text: what it holds.
    """

    page: str
    language: str
    text: str


@dataclass(frozen=True)
class Entry:
    """How one command, or one block of Python, is checked.

    Attributes:
        says: the command as it stands, or a part of the block that no other block of the page has.
        page: of a block; empty for a command, which may stand on several pages.
        check: "run": it is run, as it stands or as `run` has it; "parse": the command line takes it; "nox": the session
            exists; "install": the folders and files that it names exist; "elsewhere": the file `where` checks it.
        why: the reason, where it is not simply run.
        slow: it is run by `nox -s docs` only.
        more: what the check needs besides.
    """

    says: str
    page: str = ""
    check: str = "run"
    why: str = ""
    slow: bool = False
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For the test's name."""
        return f"{self.page}: {self.says}" if self.page else self.says


def pages() -> list[Path]:
    """Every page that a reader sees."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("packages/*/README.md"))]


def blocks() -> list[Block]:
    """All fenced blocks of all pages."""
    found = []
    for path in pages():
        page = path.relative_to(ROOT).as_posix()
        found += [Block(page, one[2], one[3]) for one in _FENCE.finditer(path.read_text(encoding="utf-8"))]
    return found


def commands(text: str) -> list[str]:
    """The commands of a shell block, one by one: continued lines joined, comments and what `&&` joins taken apart."""
    lines = [re.sub(r"(^|\s)#.*", "", line).strip() for line in text.replace("\\\n", " ").splitlines()]
    return [part.strip() for line in lines if line for part in line.split(" && ")]


def shell_commands() -> dict[str, str]:
    """Each command of all pages, with the first page that has it."""
    found: dict[str, str] = {}
    for block in blocks():
        if block.language == "sh":
            for command in commands(block.text):
                found.setdefault(command, block.page)
    return found


def spoken_commands() -> dict[str, str]:
    """Each `teacache ...` in the running text of all pages, with the first page that has it."""
    found: dict[str, str] = {}
    for path in pages():
        text = _FENCE.sub("", path.read_text(encoding="utf-8"))
        for command in _INLINE.findall(text):
            found.setdefault(command, path.relative_to(ROOT).as_posix())
    return found


def entries(kind: str) -> list[Entry]:
    """The list, "sh" or "python"."""
    return list(_read(tomllib.loads(LIST.read_text(encoding="utf-8"))[kind]))


def _read(rows: list[dict[str, Any]]) -> Iterator[Entry]:
    own = ("says", "page", "check", "why", "slow")
    for row in rows:
        known = {name: row[name] for name in own if name in row}
        yield Entry(**known, more={name: value for name, value in row.items() if name not in own})
