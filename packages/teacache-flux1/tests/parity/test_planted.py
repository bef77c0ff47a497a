"""Every planted bug on FLUX.1, seen by the oracle that claims it."""

from __future__ import annotations

from pathlib import Path

import pytest

from teacache.testing.hunting import Hunt
from teacache.testing.oracles import Subject
from teacache.testing.planted import BUGS, Bug, Need
from teacache_flux1 import ADAPTER

from .pipelines import MAKERS, arguments


@pytest.fixture(scope="module")
def hunt(tmp_path_factory: pytest.TempPathFactory) -> Hunt:
    pictures = tmp_path_factory.mktemp("pictures")

    def subject(name: str) -> Subject:
        return Subject.of_mflux(ADAPTER, MAKERS[name], arguments(name, pictures))

    return Hunt(
        family="FLUX.1",
        subject=subject("Flux1"),
        others={"other tokens": subject("Flux1Kontext"), "controlnet": subject("Flux1Controlnet")},
        lacks={"branches", "compile"},
    )


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_claiming_oracle_sees_the_bug(hunt: Hunt, bug: Bug) -> None:
    """Red when an oracle has become blind to a bug that it claims, or finds one in clean code."""
    assert hunt.caught(bug), hunt.said[bug.name]


def test_the_table_in_the_documentation_is_current(hunt: Hunt) -> None:
    """Red when docs/planted-bugs.md says something else than these tests found; TEACACHE_WRITE_DOCS=1 writes it."""
    hunt.check_docs(Path(__file__))


HAS: dict[str, set[Need]] = {"Flux1Kontext": {"other tokens"}, "Flux1Controlnet": {"controlnet"}}


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_every_pipeline(name: str, tmp_path: Path) -> None:
    """Red when a bug slips through on a pipeline that is not in the table, or is wrongly called impossible."""
    subject = Subject.of_mflux(ADAPTER, MAKERS[name], arguments(name, tmp_path))
    lacks = {"branches", "compile", "other tokens", "controlnet"} - HAS.get(name, set())
    Hunt(family=name, subject=subject, lacks=lacks).check_pipeline(Path(__file__), name)
