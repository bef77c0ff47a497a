"""Every planted bug that a model without mflux can have is seen by the oracle that claims it, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

import teacache
from teacache.errors import OptionError
from teacache.testing.denoiser import ADAPTER, Denoiser
from teacache.testing.hunting import LACKS, Catch, Hunt, hunt
from teacache.testing.oracles import Check, Result, Subject
from teacache.testing.planted import BUGS, Bug, find_bug
from teacache.testing.planted_page import PAGE, Page
from teacache.testing.spies import Latents

pytestmark = pytest.mark.unit

STEPS = 7


def generate(model: Any, handle: teacache.Handle | None = None, **overrides: Any) -> Latents:
    """Two branches, and three tokens beside the picture's six: all that this model can have."""
    x = mx.random.normal((1, 9, 4), key=mx.random.key(overrides.get("seed", 3)))
    sigmas = np.linspace(1, 0, STEPS + 1).tolist()
    latents: Latents = []

    def step(x: mx.array, k: int, carry: Any) -> mx.array:
        negative = model(x, sigmas[k], shift=0.5)
        velocity = negative + 3 * (model(x, sigmas[k]) - negative)
        x = x + (sigmas[k + 1] - sigmas[k]) * carry(velocity)
        mx.eval(x)
        latents.append(np.array(x))
        return x

    if handle is None:
        for k in range(STEPS):
            x = step(x, k, lambda velocity: velocity)
        return latents
    with handle.run(sigmas, image_tokens=6, guidance=3.0) as run:
        for k in run:
            x = step(x, k, run.velocity)
    return latents


SUBJECT = Subject(adapter=ADAPTER, make_model=Denoiser, generate=generate, steps=STEPS, installed=False)


@pytest.fixture(scope="module")
def the_hunt() -> Hunt:
    lacks = {"controlnet", "compile", "tail conditioning", "callbacks"}
    return Hunt(family="a model without mflux", subject=SUBJECT, lacks=lacks)  # type: ignore[arg-type]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_claiming_oracle_sees_the_bug(the_hunt: Hunt, bug: Bug) -> None:
    """Red when an oracle has become blind to a bug that it claims, or finds one in clean code."""
    assert the_hunt.caught(bug), the_hunt.said[bug.name]


def test_the_table_in_the_documentation_is_current(the_hunt: Hunt) -> None:
    """Red when docs/planted-bugs.md says something else than these tests found; TEACACHE_WRITE_DOCS=1 writes it."""
    the_hunt.check_docs(Path(__file__))


ROOT = Path(__file__).parents[4]


@pytest.mark.skipif(not (ROOT / PAGE).exists(), reason="the documentation is not there")
def test_the_table_is_complete() -> None:
    """Red when a bug has no row, a family no column, a cell is empty, or the page shows a bug that nobody caught."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    page = Page.read(text)
    assert text == str(page)
    assert set(page.columns) >= {"a model without mflux", "FLUX.1", "FLUX.2", "Qwen-Image", "Z-Image"}
    for family, cells in page.columns.items():
        assert list(cells) == [bug.name for bug in BUGS], family
        for bug in BUGS:
            told = cells[bug.name]
            assert told.startswith((f"{bug.oracle}: {bug.seen_by} (", f"- ({LACKS.get(bug.needs, '!')})")), (
                family,
                told,
            )
    for pipeline, (caught, _) in page.pipelines.items():
        found, _, possible = caught.partition(" of ")
        assert found == possible and int(found) >= 9, pipeline


def test_a_column_replaces_itself_and_no_other() -> None:
    """Red when writing one family's column or one pipeline's row loses another's, or doubles its own."""
    both = Page().with_column("A", {"leaked class": "a"}).with_column("B", {"leaked class": "b"})
    both = both.with_pipeline("P", {"leaked class": "neutrality: x (P)", "branches swapped": "- (one branch)"})
    again = str(Page.read(str(both)).with_column("A", {"leaked class": "c"}).with_pipeline("Q", {"x": "MISSED (Q)"}))
    assert "| c | b |" in again and "| a | b |" in str(both) and again.count(" A |") == 1
    assert "| P | 1 of 1 | one branch |" in again and "| Q | 0 of 1 |  |" in again
    assert str(Page.read(again)) == again


@pytest.mark.parametrize("says", ["nan", "another check", "clean"])
def test_a_crash_in_disguise_is_no_catch(says: str) -> None:
    """Red when NaN latents, a check that was not meant, or an oracle that fails anyway counts as a catch."""
    bug = find_bug("residual added twice")

    def result(name: str, passed: bool, max_abs: float) -> Result:
        checks = (Check.of("ok", True), Check.of(name, passed, max_abs=max_abs))
        return Result(oracle="equivalence", question="?", subject="s", checks=checks, evidence={})

    good, bad = result(bug.seen_by, True, 0.0), result(bug.seen_by, False, 0.5)
    assert Catch(bug=bug, subject=SUBJECT, clean=good, planted=bad).caught
    clean = bad if says == "clean" else good
    planted = {"nan": result(bug.seen_by, False, float("inf")), "another check": result("other", False, 0.5)}
    assert not Catch(bug=bug, subject=SUBJECT, clean=clean, planted=planted.get(says, bad)).caught


def test_what_is_planted_is_taken_out() -> None:
    """Red when a planted bug stays in the code behind the test that planted it."""
    before = generate(Denoiser())
    for bug in BUGS:
        with bug.plant():
            pass
    latents, _ = SUBJECT.run(Denoiser(), threshold=0.0)
    assert all(np.array_equal(a, b) for a, b in zip(before, latents, strict=True))
    assert hunt(find_bug("residual added twice"), SUBJECT).clean.passed


def test_a_bug_that_is_not_there_is_named() -> None:
    """Red when a misspelt bug is silently no bug."""
    with pytest.raises(OptionError, match="residual added twice"):
        find_bug("residual added thrice")
