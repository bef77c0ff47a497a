"""Every planted bug on FLUX.2 Klein, seen by the oracle that claims it."""

from __future__ import annotations

from pathlib import Path

import pytest

from teacache.testing.hunting import Hunt
from teacache.testing.materials import picture
from teacache.testing.models import toy_subject
from teacache.testing.oracles import Subject
from teacache.testing.planted import BUGS, Bug, Need
from teacache_flux2 import ADAPTER

from .pipelines import ARGUMENTS, klein, klein_edit

SMALL = {**ARGUMENTS, "height": 32, "width": 48}


@pytest.fixture(scope="module")
def hunt(tmp_path_factory: pytest.TempPathFactory) -> Hunt:
    references = {**SMALL, "image_paths": [picture(tmp_path_factory.mktemp("pictures"), side=32)]}
    return Hunt(
        family="FLUX.2",
        subject=Subject.of_mflux(ADAPTER, klein, SMALL),
        others={
            "other tokens": Subject.of_mflux(ADAPTER, klein_edit, references),
            # Compiled is held to the tolerance, which was measured on the toy.
            "compile": toy_subject("flux2", steps=6),
        },
        lacks={"controlnet"},
    )


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_claiming_oracle_sees_the_bug(hunt: Hunt, bug: Bug) -> None:
    """Red when an oracle has become blind to a bug that it claims, or finds one in clean code."""
    assert hunt.caught(bug), hunt.said[bug.name]


def test_the_table_in_the_documentation_is_current(hunt: Hunt) -> None:
    """Red when docs/planted-bugs.md says something else than these tests found; TEACACHE_WRITE_DOCS=1 writes it."""
    hunt.check_docs(Path(__file__))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Flux2Klein", "Flux2KleinEdit"])
def test_every_pipeline(name: str, tmp_path: Path) -> None:
    """Red when a bug slips through on a pipeline that is not in the table, or is wrongly called impossible."""
    lacks: set[Need] = {"controlnet"}
    if name == "Flux2Klein":
        subject = Subject.of_mflux(ADAPTER, klein, SMALL)
        lacks |= {"other tokens"}
    else:
        subject = Subject.of_mflux(ADAPTER, klein_edit, {**SMALL, "image_paths": [picture(tmp_path, side=32)]})
    Hunt(family=name, subject=subject, lacks=lacks).check_pipeline(Path(__file__), name)
