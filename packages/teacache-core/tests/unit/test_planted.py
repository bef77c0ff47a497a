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
from teacache.testing.hunting import Hunt, hunt, with_column
from teacache.testing.oracles import Subject
from teacache.testing.planted import BUGS, Bug, find_bug
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


def test_a_column_replaces_itself_and_no_other() -> None:
    """Red when writing one family's column loses another's, or doubles its own."""
    both = with_column(with_column("", "A", {"leaked class": "a"}), "B", {"leaked class": "b"})
    again = with_column(both, "A", {"leaked class": "c"})
    assert "| c | b |" in again and "| a | b |" in both and again.count("| A |") == 1


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
