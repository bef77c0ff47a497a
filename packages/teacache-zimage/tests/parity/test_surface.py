"""What teacache uses of mflux's Z-Image, against what it was when the adapter was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from teacache.testing.oracles import Subject, drift
from teacache.testing.oracles.surface import check_surface
from teacache_zimage import ADAPTER

from .pipelines import ARGUMENTS, PROMPT, controls, z_image, z_image_turbo_controlnet


def subject(name: str, folder: Path) -> Subject:
    if name == "ZImage":
        return Subject.of_mflux(ADAPTER, z_image, ARGUMENTS, steps=2)
    arguments = {"prompt": PROMPT, "height": 64, "width": 64, "controls": controls(folder)}
    return Subject.of_mflux(ADAPTER, z_image_turbo_controlnet, arguments, steps=2)


@pytest.mark.parametrize("name", [pipeline.name for pipeline in ADAPTER.pipelines])
def test_mflux_is_what_the_adapter_describes(name: str, tmp_path: Path) -> None:
    """Red when mflux changed a block list, a block's arguments or returns, the tail or an entry: it says which."""
    check_surface(subject(name, tmp_path), "teacache_zimage")


def test_nothing_that_ships_has_moved() -> None:
    """Red when a data file of the package is not the pinned one: `teacache tolerance pin zimage` pins it again."""
    assert not drift(ADAPTER).failures, str(drift(ADAPTER))
