"""docs/claims.md: what the project says in public, with where, when and on what it was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from teacache.errors import OptionError
from teacache.testing.claim_sources import of_cards, of_readme, of_reports, of_text
from teacache.testing.claims import PAGE, collect, main

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[4]
needs_repository = pytest.mark.skipif(not (ROOT / PAGE).exists(), reason="the documentation is not there")

README = """# x

## What was measured, and where

On two cores, 2026:

| what | on | figure |
|---|---|---|
| a step | a toy | 1 % |

Prose.
"""
CLAIM = {"what": "w", "figure": "2 ms", "on": "a toy", "measured": "here, 2026", "status": "met"}


@needs_repository
def test_the_page_is_current() -> None:
    """Red when a figure changed where it is kept, or a quoted text did, and the page was not written again."""
    assert main([str(ROOT), "--check"]) == 0, "Write it: python -m teacache.testing.claims"


@needs_repository
def test_every_claim_says_where_when_and_on_what() -> None:
    """Red when a figure is shown without its evidence, or a kind of figure is not read at all."""
    sections = dict(collect(ROOT))
    headings = {
        "The README's table",
        "Fewer model calls",
        "Thresholds and polynomials",
        "Tolerances",
        "Toys",
        "In the text",
    }
    assert set(sections) >= headings
    for claims in sections.values():
        for claim in claims:
            assert all([claim.what, claim.figure, claim.on, claim.measured, claim.source]), claim
            assert (ROOT / claim.source).is_file(), claim
    shipped = {claim.source for claim in sections["Thresholds and polynomials"]}
    with_numbers = [path for path in ROOT.glob("packages/*/src/*/calibrations/*.toml") if "[gate]" in path.read_text()]
    assert len(shipped) == len(with_numbers) > 10
    statuses = {claim.source: claim.status for claim in sections["Thresholds and polynomials"]}
    assert statuses["packages/teacache-flux1/src/teacache_flux1/calibrations/dev.toml"] == "published elsewhere"
    assert {claim.status for claim in sections["Tolerances"]} == {"provisional"}


def test_the_readme_is_read_row_by_row(tmp_path: Path) -> None:
    """Red when a row of the table is lost, or the sentence that dates it is."""
    (tmp_path / "README.md").write_text(README)
    (claim,) = of_readme(tmp_path)
    assert (claim.what, claim.on, claim.figure) == ("a step", "a toy", "1 %")
    assert claim.measured == "On two cores, 2026"
    (tmp_path / "README.md").write_text("# x\n")
    with pytest.raises(OptionError, match="has no table"):
        list(of_readme(tmp_path))


def report(tmp_path: Path, **changed: Any) -> None:
    (tmp_path / "docs").mkdir(exist_ok=True)
    (tmp_path / "docs/performance.json").write_text(json.dumps({"claims": [CLAIM | changed]}))


def test_a_benchmarks_verdict_stands_behind_its_figure(tmp_path: Path) -> None:
    """Red when a missed target is shown like one that was met, or a benchmark's JSON is not read."""
    report(tmp_path, status="missed")
    (claim,) = of_reports(tmp_path)
    assert (claim.figure, claim.status, claim.source) == ("2 ms (missed)", "measured", "docs/performance.json")
    report(tmp_path, status="provisional")
    assert [one.status for one in of_reports(tmp_path)] == ["provisional"]


def test_a_claim_without_evidence_is_refused(tmp_path: Path) -> None:
    """Red when a figure comes onto the page and nobody said where it was measured."""
    report(tmp_path, measured=" ")
    with pytest.raises(OptionError, match="the claim 'w' does not say measured"):
        list(of_reports(tmp_path))


def test_a_card_says_how_its_toy_was_made(tmp_path: Path) -> None:
    """Red when a toy was trained again and the page keeps the old figures, or a card says none."""
    card = tmp_path / "packages/p/src/m/toy_card.md"
    card.parent.mkdir(parents=True)
    card.write_text(
        "# The toy of X\n\nA small one, 2.1 million parameters.\n\n1,300 steps. Mean\nloss of all: 0.099.\n"
    )
    (claim,) = of_cards(tmp_path)
    assert (claim.what, claim.figure) == (
        "The toy of X: size and training", "2.1 million parameters, 1,300 steps, Mean loss of all: 0.099",
    )  # fmt: skip
    card.write_text("# The toy of X\n")
    with pytest.raises(OptionError, match="does not say parameters, steps, loss"):
        list(of_cards(tmp_path))


def test_a_quote_that_is_gone_is_named(tmp_path: Path) -> None:
    """Red when a text's figure changes and the page keeps the old one."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("It takes\n2 ms.\n")
    entry = {**CLAIM, "status": "measured", "source": "docs/a.md", "quote": "It takes 2 ms."}
    listed = "[[claims]]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in entry.items())
    (tmp_path / "docs/claims.toml").write_text(listed)
    assert [claim.figure for claim in of_text(tmp_path)] == ["2 ms"]
    (tmp_path / "docs/a.md").write_text("It takes 3 ms.\n")
    with pytest.raises(OptionError, match=r"docs/a.md: 'It takes 2 ms.', which does not stand there"):
        list(of_text(tmp_path))
