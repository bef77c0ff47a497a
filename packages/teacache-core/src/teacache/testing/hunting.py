"""Sets the oracles on the planted bugs, family by family, and keeps the table of who caught what.

Imports mlx; never mflux.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from teacache.errors import OracleError
from teacache.testing.oracles import equivalence, neutrality, quality
from teacache.testing.oracles.result import Result
from teacache.testing.oracles.subject import FORCED, Subject
from teacache.testing.planted import BUGS, Bug, Need
from teacache.tolerance import Tolerance

LACKS: Mapping[Need, str] = {
    "branches": "one branch",
    "other tokens": "no other tokens",
    "controlnet": "no ControlNet",
    "compile": "nothing is compiled",
    "tail conditioning": "the tail takes tokens alone",
    "callbacks": "no callbacks",
}
"""Why a bug cannot occur in a family that lacks what it needs."""

WRITE = "TEACACHE_WRITE_DOCS"
"""Set to 1, the tests write their column of the table instead of comparing it."""

PAGE = Path("docs/planted-bugs.md")


@dataclass(frozen=True, kw_only=True)
class Catch:
    """Whether an oracle saw a bug, and that it sees nothing without it.

    Attributes:
        bug: the bug.
        subject: what it was planted under.
        clean: the claiming oracle's result without the bug.
        planted: its result with the bug.
    """

    bug: Bug
    subject: Subject
    clean: Result
    planted: Result

    @property
    def caught(self) -> bool:
        """The oracle passed without the bug and failed with it."""
        return self.clean.passed and bool(self.planted.failures)

    def __str__(self) -> str:
        """What was caught by what, or both tables."""
        if self.caught:
            seen = self.planted.failures[0]
            return f"{self.bug.name}: caught by {self.bug.oracle} ({seen.name})"
        return f"{self.bug.name}: NOT caught by {self.bug.oracle}\nwithout: {self.clean}\nwith: {self.planted}"


def hunt(bug: Bug, subject: Subject, *, tolerance: Tolerance | None = None, clean: Result | None = None) -> Catch:
    """Asks the claiming oracle without and with the bug. An exception is no catch: it comes out.

    Args:
        bug: the bug.
        subject: a small model that has what the bug needs.
        tolerance: for comparisons across compile; None: the adapter's own.
        clean: the oracle's result without the bug, where it is known already; see `ask`.
    """
    clean = clean if clean is not None else ask(bug, subject, tolerance=tolerance)
    with bug.plant():
        planted = ask(bug, subject, tolerance=tolerance)
    return Catch(bug=bug, subject=subject, clean=clean, planted=planted)


def ask(bug: Bug, subject: Subject, *, tolerance: Tolerance | None = None) -> Result:
    """Asks the oracle that claims a bug."""
    if bug.oracle == "neutrality":
        return neutrality(subject)
    if bug.oracle == "quality":
        blind = replace(subject, draw=None)  # what is looked at is whether steps are reused
        return quality(blind, band=(1, subject.steps - 2), options=FORCED)
    return equivalence(subject, parts=(bug.part,), tolerance=tolerance)


@dataclass
class Hunt:
    """All planted bugs on one family.

    Attributes:
        family: the head of its column.
        subject: a small model.
        others: other small models for the bugs that need them, by what the bug needs.
        lacks: what the family does not have.
        tolerance: for comparisons across compile; None: the adapter's own.
        said: bug to what was found, so far.
    """

    family: str
    subject: Subject
    others: Mapping[Need, Subject] = field(default_factory=dict)
    lacks: Collection[Need] = ()
    tolerance: Tolerance | None = None
    said: dict[str, str] = field(default_factory=dict)
    cells: dict[str, str] = field(default_factory=dict)
    _clean: dict[tuple[str, str, str], Result] = field(default_factory=dict)

    def caught(self, bug: Bug) -> bool:
        """Tells whether the claiming oracle sees the bug, or the family cannot have it."""
        if bug.needs in self.lacks:
            self.said[bug.name] = self.cells[bug.name] = f"- ({LACKS[bug.needs]})"
            return True
        subject = self.others.get(bug.needs, self.subject)
        key = bug.oracle, bug.part, bug.needs if bug.needs in self.others else ""
        if key not in self._clean:
            self._clean[key] = ask(bug, subject, tolerance=self.tolerance)
        catch = hunt(bug, subject, tolerance=self.tolerance, clean=self._clean[key])
        self.said[bug.name] = str(catch)
        what = catch.planted.subject.rpartition(" ")[2]
        seen = catch.planted.failures[0].name if catch.caught else "MISSED"
        self.cells[bug.name] = f"{bug.oracle}: {seen} ({what})"
        return catch.caught

    def check_docs(self, test: Path) -> None:
        """Compares this family's column of the table with what was found, or writes it.

        Args:
            test: the test's own file: the documentation lies in the same repository, if there is one.

        Raises:
            OracleError: the column is not current.
        """
        page = next((parent / PAGE for parent in test.resolve().parents if (parent / PAGE).parent.is_dir()), None)
        if page is None:
            return
        for bug in BUGS:
            if bug.name not in self.cells:
                self.caught(bug)
        text = page.read_text(encoding="utf-8") if page.exists() else ""
        current = with_column(text, self.family, self.cells)
        if os.environ.get(WRITE) == "1":
            page.write_text(current, encoding="utf-8", newline="\n")
        elif text != current:
            raise OracleError(
                f"{PAGE} is not current for {self.family}. Write it: {WRITE}=1 python -m pytest {test.name}"
            )


TEXT = """# Planted bugs

The kit ships the bugs that are worth catching (`teacache.testing.planted`), and each is claimed by one oracle. A test
for each family plants every bug, asks the oracle that claims it without and with the bug, and fails unless it passes
without and fails with. An exception is no catch. The tests compare this table with what they found; none of it is
written by hand.

In a cell: the oracle, the first of its checks that failed, and the pipeline. `-`: the family cannot have the bug.
"""


def with_column(page: str, family: str, cells: Mapping[str, str]) -> str:
    """Returns the page with one family's column put in, or replaced."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]
    families = rows[0][2:] if rows else []
    known = {row[0]: dict(zip(families, row[2:], strict=False)) for row in rows[2:]}
    families = [*families, *([] if family in families else [family])]
    lines = [TEXT, _line(["bug", "what goes wrong", *families]), _line(["---"] * (len(families) + 2))]
    for bug in BUGS:
        of_others = known.get(bug.name, {})
        found = [cells.get(bug.name, "") if name == family else of_others.get(name, "") for name in families]
        lines.append(_line([bug.name, bug.says, *found]))
    return "\n".join(lines) + "\n"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
