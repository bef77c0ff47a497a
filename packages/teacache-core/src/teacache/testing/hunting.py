"""Sets the oracles on the planted bugs, family by family. Imports mlx; never mflux."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from teacache.errors import OracleError
from teacache.testing.oracles import equivalence, neutrality, quality
from teacache.testing.oracles.result import Result
from teacache.testing.oracles.subject import FORCED, Subject
from teacache.testing.planted import BUGS, Bug, Need
from teacache.testing.planted_page import current
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
        """The oracle passed without the bug; with it, the check that must see it failed, and by numbers."""
        seen = next((check for check in self.planted.failures if check.name == self.bug.seen_by), None)
        return self.clean.passed and seen is not None and all(map(_is_a_figure, seen.figures.values()))

    def __str__(self) -> str:
        """What was caught by what, or both tables."""
        if self.caught:
            return f"{self.bug.name}: caught by {self.bug.oracle} ({self.bug.seen_by})"
        return f"{self.bug.name}: NOT caught by {self.bug.oracle}\nwithout: {self.clean}\nwith: {self.planted}"


def _is_a_figure(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


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
    """All planted bugs on one family, or on one of its pipelines.

    Attributes:
        family: the head of its column.
        subject: a small model.
        others: other small models for the bugs that need them, by what the bug needs.
        lacks: what the family does not have.
        tolerance: for comparisons across compile; None: the adapter's own.
        said: bug to what was found, so far.
        cells: the same, as the table has it.
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
        what = "toy" if subject.name else catch.planted.subject.rpartition(" ")[2]
        self.cells[bug.name] = f"{bug.oracle}: {bug.seen_by} ({what})" if catch.caught else f"MISSED ({what})"
        return catch.caught

    def harmless(self, bug: Bug) -> bool:
        """Tells whether a bug that the family is said to lack the means for changes nothing there, when planted."""
        with bug.plant():
            found = ask(bug, self.subject, tolerance=self.tolerance)
        if found.failures:
            self.said[bug.name] = f"{bug.name} was said to be impossible ({LACKS[bug.needs]})\n{found}"
        return not found.failures

    def all(self) -> dict[str, str]:
        """Returns what the table says of every bug."""
        for bug in BUGS:
            if bug.name not in self.cells:
                self.caught(bug)
        return self.cells

    def check_pipeline(self, test: Path, pipeline: str) -> None:
        """Every bug on one pipeline: caught, or harmless where it cannot be; and the pipeline's row of the page.

        Args:
            test: as for `check_docs`.
            pipeline: its name.

        Raises:
            OracleError: a bug was missed, one was said to be impossible and is not, or the row is not current.
        """
        cells = self.all()
        impossible = [bug for bug in BUGS if bug.needs in self.lacks]
        missed = [self.said[name] for name, cell in cells.items() if cell.startswith("MISSED")]
        missed += [self.said[bug.name] for bug in impossible if not self.harmless(bug)]
        if missed:
            raise OracleError("\n".join(missed))
        current(test, pipeline, lambda page: page.with_pipeline(pipeline, cells))

    def check_docs(self, test: Path) -> None:
        """Compares this family's column of the table with what was found, or writes it.

        Args:
            test: the test's own file: the documentation lies in the same repository, if there is one.

        Raises:
            OracleError: the column is not current, or a pipeline of the adapter has no row.
        """
        cells = self.all()
        page = current(test, self.family, lambda page: page.with_column(self.family, cells))
        listed = [one.name for one in self.subject.adapter.pipelines if self.subject.adapter.host == "mflux"]
        missing = [] if page is None else [name for name in listed if name not in page.pipelines]
        if missing:
            raise OracleError(f"{', '.join(missing)}: nobody planted the bugs there. Run: pytest -m slow {test.name}")
