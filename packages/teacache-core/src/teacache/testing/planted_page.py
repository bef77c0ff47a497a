"""docs/planted-bugs.md: read, changed in one place, compared or written. Imports mlx; never mflux."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from teacache.errors import OracleError
from teacache.testing.planted import BUGS

WRITE = "TEACACHE_WRITE_DOCS"
"""Set to 1, the tests write their part of the page instead of comparing it."""

PAGE = Path("docs/planted-bugs.md")

TEXT = """# Planted bugs

The kit ships the bugs that are worth catching (`teacache.testing.planted`), and each is claimed by one check of one
oracle. A test for each family plants every bug, asks the oracle without and with it, and fails unless everything passes
without and that very check fails with it. An exception is no catch, nor are latents that are NaN or of another shape,
nor another check that happens to fail. The tests compare these tables with what they found; none of it is written by
hand.

In a cell: the oracle, its check, and the pipeline. `-`: the family cannot have the bug, and why.
"""

PIPELINES = """## Every pipeline

The same hunt on each pipeline of mflux that the adapters serve (`pytest -m slow`). What a pipeline is said to be unable
to have was planted there too, and changed nothing.
"""

PIPELINE_HEAD = ("pipeline", "caught", "it has")


@dataclass(frozen=True)
class Page:
    """The two tables.

    Attributes:
        columns: family to bug to what was found.
        pipelines: pipeline to its two cells.
    """

    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    pipelines: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> Page:
        """Reads the page back."""
        bugs, _, pipelines = text.partition(PIPELINES.splitlines()[0])
        head, *rows = _rows(bugs) or [[]]
        columns = {
            family: {row[0]: row[2 + index] for row in rows if len(row) == len(head)}
            for index, family in enumerate(head[2:])
        }
        return cls(columns, {row[0]: (row[1], row[2]) for row in _rows(pipelines)[1:]})

    def with_column(self, family: str, cells: Mapping[str, str]) -> Page:
        """Returns the page with one family's column put in, or replaced."""
        return replace(self, columns={**self.columns, family: dict(cells)})

    def with_pipeline(self, pipeline: str, cells: Mapping[str, str]) -> Page:
        """Returns the page with one pipeline's row put in, or replaced."""
        caught = [name for name, cell in cells.items() if not cell.startswith(("-", "MISSED"))]
        possible = [name for name, cell in cells.items() if not cell.startswith("-")]
        lacks = [cell.removeprefix("- (").removesuffix(")") for cell in cells.values() if cell.startswith("-")]
        row = f"{len(caught)} of {len(possible)}", "; ".join(lacks)
        return replace(self, pipelines={**self.pipelines, pipeline: row})

    def __str__(self) -> str:
        """The page as Markdown."""
        head = ["bug", "what goes wrong", *self.columns]
        lines = [TEXT, _line(head), _line(["---"] * len(head))]
        for bug in BUGS:
            lines.append(_line([bug.name, bug.says, *(cells.get(bug.name, "") for cells in self.columns.values())]))
        lines += ["", PIPELINES, _line(PIPELINE_HEAD), _line(["---"] * len(PIPELINE_HEAD))]
        lines += [_line([name, *self.pipelines[name]]) for name in sorted(self.pipelines)]
        return "\n".join(lines) + "\n"


def current(test: Path, what: str, change: Callable[[Page], Page]) -> Page | None:
    """Compares the page with what a test found, or writes it, and returns it; None where there is no page.

    Args:
        test: the test's own file: the page lies in the same repository, if there is one.
        what: what the test found something about.
        change: puts it into the page.

    Raises:
        OracleError: the page says something else.
    """
    path = next((parent / PAGE for parent in test.resolve().parents if (parent / PAGE).parent.is_dir()), None)
    if path is None:
        return None
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    page = change(Page.read(text))
    found = str(page)
    if os.environ.get(WRITE) == "1":
        path.write_text(found, encoding="utf-8", newline="\n")
    elif text != found:
        raise OracleError(f"{PAGE} is not current for {what}. Write it: {WRITE}=1 python -m pytest {test.name}")
    return page


def _rows(text: str) -> list[list[str]]:
    """The cells of a table, without the line below its head."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return [row for row in rows if set(row) != {"---"}]


def _line(cells: list[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"
