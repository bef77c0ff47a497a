"""`wrap(verify=True)` on every family's toy, as a person runs it on their own machine."""

from __future__ import annotations

import pytest

import teacache
from teacache.cli.tolerance import toy_evidence
from teacache.plugins import get_adapter
from teacache.testing.models import toy_subject
from teacache.testing.spies import expected_warnings, same
from teacache.tolerance import load_tolerance

pytest.importorskip("mflux")


@pytest.mark.parametrize("family", ["flux1", "flux2", "qwen", "zimage"])
def test_a_family_is_verified_and_its_picture_stays(family: str) -> None:
    """Red when a family's traced path is not compared, is beyond its tolerance, or verifying moves the picture."""
    pytest.importorskip(f"teacache_{family}")
    subject = toy_subject(family, steps=6)
    model = subject.make_model()
    plain = subject.generate(model)
    with expected_warnings(), teacache.wrap(model, threshold=0.0, verify=True) as handle:
        wrapped = subject.generate(model)
    assert handle.verification is not None and handle.verification.passed, handle.verification
    assert same(plain, wrapped)


@pytest.mark.parametrize("family", ["flux1", "flux2", "qwen", "zimage"])
def test_a_tolerance_belongs_to_the_weights_that_ship(family: str) -> None:
    """Red when a toy was trained again and its tolerance was not measured again: `teacache tolerance record`."""
    pytest.importorskip(f"teacache_{family}")
    reference = get_adapter(family).tolerance
    assert reference is not None
    measured = load_tolerance(reference).evidence.get("weights")
    if measured is None:
        pytest.skip("its file was written before tolerances named their weights")
    assert measured == toy_evidence(family)["weights"]
