"""Every planted bug on Z-Image, seen by the oracle that claims it."""

from __future__ import annotations

from pathlib import Path

import pytest

from teacache.testing.hunting import Hunt
from teacache.testing.models import toy_subject
from teacache.testing.oracles import Subject
from teacache.testing.planted import BUGS, Bug, Need
from teacache_zimage import ADAPTER

from .pipelines import ARGUMENTS, PROMPT, controls, z_image, z_image_turbo_controlnet


@pytest.fixture(scope="module")
def hunt(tmp_path_factory: pytest.TempPathFactory) -> Hunt:
    controlled = {
        "prompt": PROMPT,
        "height": 64,
        "width": 64,
        "controls": controls(tmp_path_factory.mktemp("pictures")),
    }
    return Hunt(
        family="Z-Image",
        subject=Subject.of_mflux(ADAPTER, z_image, ARGUMENTS),
        others={
            "controlnet": Subject.of_mflux(ADAPTER, z_image_turbo_controlnet, controlled),
            # Compiled is held to the tolerance, which was measured on the toy.
            "compile": toy_subject("zimage", steps=6),
        },
    )


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_claiming_oracle_sees_the_bug(hunt: Hunt, bug: Bug) -> None:
    """Red when an oracle has become blind to a bug that it claims, or finds one in clean code."""
    assert hunt.caught(bug), hunt.said[bug.name]


def test_the_table_in_the_documentation_is_current(hunt: Hunt) -> None:
    """Red when docs/planted-bugs.md says something else than these tests found; TEACACHE_WRITE_DOCS=1 writes it."""
    hunt.check_docs(Path(__file__))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ZImage", "ZImageTurboControlnet"])
def test_every_pipeline(name: str, tmp_path: Path) -> None:
    """Red when a bug slips through on a pipeline that is not in the table, or is wrongly called impossible."""
    if name == "ZImage":
        subject = Subject.of_mflux(ADAPTER, z_image, ARGUMENTS)
        lacks: set[Need] = {"controlnet"}
    else:
        controlled = {"prompt": PROMPT, "height": 64, "width": 64, "controls": controls(tmp_path)}
        subject = Subject.of_mflux(ADAPTER, z_image_turbo_controlnet, controlled)
        lacks = {"branches", "compile"}
    # Compiled is held to the tolerance, which was measured on the toy.
    hunt = Hunt(family=name, subject=subject, others={"compile": toy_subject("zimage", steps=6)}, lacks=lacks)
    hunt.check_pipeline(Path(__file__), name)
