"""Tolerances: a bound is worth its evidence. And `verify=True`, which holds a person's own machine to it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import teacache
from teacache.boundary import Boundary
from teacache.distance import Distance
from teacache.errors import ToleranceError, VerificationError
from teacache.testing.denoiser import ADAPTER, Denoiser, denoise
from teacache.testing.measure import lacking, measure_tolerance
from teacache.testing.oracles import Subject
from teacache.testing.spies import Latents, expected_warnings, same, snapshot
from teacache.tolerance import (
    Landing,
    Noise,
    Tolerance,
    bound_for,
    digest,
    dump_tolerance,
    load_tolerance,
    parse_tolerance,
    save_tolerance,
)

pytestmark = pytest.mark.unit


def apart(max_abs: float) -> Distance:
    return Distance(max_abs=max_abs, mean_abs=max_abs, max_rel=max_abs, cosine=1 - max_abs / 10)


NOISE = Noise(comparison="across compile", runs=4, steps=(apart(0.0), apart(0.1)), final=(apart(0.1),) * 4)
EXACT = Noise(comparison="same path", runs=4, steps=(apart(0.0),), final=(apart(0.0),) * 4)
BUGS = (Landing(bug="a block left out", distance=apart(3.0)), Landing(bug="branches swapped", distance=apart(0.5)))
TOLERANCE = Tolerance(
    adapter="denoiser",
    status="provisional",
    missing="Metal",
    evidence={"machine": "Linux", "date": "2026-01-01", "mlx": "0.32.2", "prompts": ("a", "b"), "seeds": (1, 2)},
    bounds=(bound_for(NOISE, BUGS), bound_for(EXACT, BUGS)),
    noise=(NOISE, EXACT),
    bugs=BUGS,
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Red when a number is lost on the way to the file and back."""
    save_tolerance(TOLERANCE, tmp_path / "tolerance.toml")
    assert parse_tolerance((tmp_path / "tolerance.toml").read_text(), name="t") == TOLERANCE
    bound = TOLERANCE.bound("across compile")
    assert bound is not None and bound.value == 0.2 and bound.allows(apart(0.2)) and not bound.allows(apart(0.21))
    exact = TOLERANCE.bound("same path")
    assert exact is not None and exact.exact and not exact.allows(apart(1e-30))


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (("value = 0.2", "value = 0.3"), "is not the noise 0.1 times its margin 2"),
        (("value = 0.2\nmargin = 2.0", "value = 0.49\nmargin = 4.9"), r"margin 4.9 \(1 to 4\)"),
        (("value = 0.2\nmargin = 2.0", "value = 0.3\nmargin = 3.0"), "edited by hand"),
        (("value = 0.2", "value = 5.8"), "does not lie between the noise"),
        (("value = 0.2", "value = 0.05"), "does not lie between the noise"),
        (("value = 0.0\nmargin", "value = 0.01\nmargin"), "is not the noise 0 times"),
        (('"2026-01-01"', '"2027-01-01"'), "edited by hand"),
        (("runs = 4", "runs = 3"), "4 of 3 runs"),
        (('date = "2026-01-01"\n', ""), "evidence.date is missing"),
        (('missing = "Metal"\n', ""), "does not say what is missing"),
        (("schema = 1", "schema = 2"), "reads up to 1"),
        (('comparison = "across compile"\nmetric', 'comparison = "by eye"\nmetric'), "same path, across compile"),
        (('metric = "mean_abs"', 'metric = "cosine"'), "expected 'mean_abs'"),
    ],
)
def test_an_edited_file_is_refused(edit: tuple[str, str], says: str) -> None:
    """Red when a bound that was loosened by hand, or that its evidence does not carry, is used."""
    text = dump_tolerance(TOLERANCE)
    assert edit[0] in text
    with pytest.raises(ToleranceError, match=says):
        parse_tolerance(text.replace(*edit), name="tolerance.toml")


@pytest.mark.parametrize("field", ["noise", "bugs", "bounds"])
def test_a_bound_without_evidence_is_refused(field: str) -> None:
    """Red when a number stands by itself, however well its digest fits."""
    with pytest.raises(ToleranceError, match="teacache tolerance record"):
        parse_tolerance(dump_tolerance(dataclasses.replace(TOLERANCE, **{field: ()})), name="t")


def test_noise_that_reaches_a_bug_gives_no_bound() -> None:
    """Red when a bound is set although nothing lies between noise and bug: the check must change."""
    with pytest.raises(ToleranceError, match="Change the check, not the constant"):
        bound_for(NOISE, (Landing(bug="too small to see", distance=apart(0.15)),))


def test_a_missing_file_is_named() -> None:
    """Red when a wrong reference is an error of the import system."""
    with pytest.raises(ToleranceError, match="nowhere:tolerance"):
        load_tolerance("nowhere:tolerance.toml")


def test_the_digest_leaves_itself_out() -> None:
    """Red when the digest depends on itself, so that no file could ever fit."""
    text = dump_tolerance(TOLERANCE)
    assert digest(text) in text.splitlines()[0] and digest(text) == digest(text.partition("\n")[2])


def generate(model: Any, handle: teacache.Handle | None = None, **given: Any) -> Latents:
    return denoise(model, handle, seed=given.get("seed", 3), steps=7, guidance=3.0)


SUBJECT = Subject(adapter=ADAPTER, make_model=Denoiser, generate=generate, steps=7, installed=False)


def test_measuring_sets_a_bound_that_the_loader_takes() -> None:
    """Red when what is measured cannot be written, or a correct eager path is not found to be bit-exact."""
    cases = [{"prompt": "none", "seed": seed} for seed in range(4)]
    assert lacking(SUBJECT, Denoiser()) == {"controlnet", "compile", "tail conditioning"}
    measured = measure_tolerance(SUBJECT, cases, status="provisional", missing="Metal", evidence={})
    assert parse_tolerance(dump_tolerance(measured), name="t") == measured
    assert [bound.exact for bound in measured.bounds] == [True] and measured.noise[0].runs == 8
    assert {landing.bug for landing in measured.bugs} >= {"residual added twice", "a block left out"}


def test_verification_is_reported_and_changes_nothing() -> None:
    """Red when verify=True is not done, is done again, or moves the picture."""
    model = Denoiser()
    with expected_warnings(), teacache.wrap(model, adapter=ADAPTER, threshold=0.0, verify=True) as handle:
        assert handle.verification is None
        latents = generate(model, handle)
        found = handle.verification
        assert found is not None and found.passed and "bit for bit" in str(found)
        generate(model, handle)
        assert handle.verification is found
    assert same(latents, generate(model))


def test_a_traced_path_beyond_the_tolerance_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a path that rounds differently on this machine is used all the same, or the model stays changed."""
    model, compute = Denoiser(), Boundary.compute
    before = snapshot(model, ADAPTER, ADAPTER.pipelines[0])

    def rounded(*args: Any) -> Any:
        output, *rest = compute(*args)
        return output + 1e-3, *rest

    monkeypatch.setattr(Boundary, "compute", rounded)
    with expected_warnings(), teacache.wrap(model, adapter=ADAPTER, threshold=0.0, verify=True) as handle:
        with pytest.raises(VerificationError, match=r"0\.001 apart on average(?s:.*)teacache doctor"):
            generate(model, handle)
        assert handle.stats.runs == [] and handle.verification is not None and not handle.verification.passed
    assert snapshot(model, ADAPTER, ADAPTER.pipelines[0]) == before
