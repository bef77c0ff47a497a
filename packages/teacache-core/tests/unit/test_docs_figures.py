"""The figures that docs/choosing.md takes from the benchmark, held to the benchmark's file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[4] / "docs"
if not (DOCS / "choosing.md").is_file():
    pytest.skip("the documentation is not there", allow_module_level=True)

PAGE = " ".join((DOCS / "choosing.md").read_text(encoding="utf-8").split())
FIGURES = {
    (row["toy"], row["asked"]): row
    for row in json.loads((DOCS / "frontier.json").read_text(encoding="utf-8"))["verdicts"]
}


def test_the_plan_against_the_gate() -> None:
    """Red when the benchmark was run again and the guide still has the figures of the run before."""
    half, third = FIGURES["all", 15]["over_gate"], FIGURES["all", 10]["over_gate"]
    assert f"{half:.1f} dB at half of the steps, {third:.1f} dB at a third" in PAGE


def test_the_plan_against_fewer_steps() -> None:
    """Red when the guide promises more pictures won than the benchmark counted."""
    half, third = FIGURES["all", 15], FIGURES["all", 10]
    assert (
        f"{half['wins']} of {half['pairs']} pictures are closer to the plain one than those of half the steps" in PAGE
    )
    assert third["wins"] == third["pairs"] and f"all {third['pairs']} are closer than a third of the steps" in PAGE


def test_linear_residuals() -> None:
    """Red when what the guide says of linear residuals is no longer so."""
    over = [FIGURES["all", asked]["over_linear"] for asked in (15, 10)]
    assert f"{over[0]:.1f} dB ahead of it at half of the steps and {over[1]:.1f} dB at a third" in PAGE
    assert f"it is {-FIGURES['flux1', 10]['over_linear']:.1f} dB behind at a third" in PAGE
    gained = [FIGURES["all", asked]["over_gate"] - FIGURES["all", asked]["over_linear"] for asked in (15, 10)]
    assert f"it is {min(gained):.0f} to {max(gained):.0f} dB better than plain reuse" in PAGE
    others = [row["over_linear"] for key, row in FIGURES.items() if key != ("flux1", 10)]
    assert min(others) > 0, "the guide names FLUX.1's toy alone"


def test_the_expected_error() -> None:
    """Red when the reason why there is no `quality=` rests on figures that the benchmark no longer has."""
    text = " ".join((DOCS / "frontier.md").read_text(encoding="utf-8").split())
    found = re.search(r"correlates with the measured PSNR at ([\d.]+); .* spreads by ([\d.]+) dB", text)
    assert found is not None
    assert f"correlates with the measured PSNR at {found[1]}." in PAGE and f"spreads by {found[2]} dB" in PAGE
