"""What teacache uses of mflux's Qwen-Image, against what it was when the adapter was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from teacache.testing.materials import picture
from teacache.testing.oracles import Subject, drift
from teacache.testing.oracles.surface import check_surface
from teacache_qwen import ADAPTER

from .pipelines import ARGUMENTS, NEEDS_2511, qwen_image, qwen_image_edit


def subject(name: str, folder: Path) -> Subject:
    if name == "QwenImage":
        return Subject.of_mflux(ADAPTER, qwen_image, ARGUMENTS, steps=2)
    return Subject.of_mflux(ADAPTER, qwen_image_edit, {**ARGUMENTS, "image_paths": [str(picture(folder))]}, steps=2)


@NEEDS_2511  # with it came two arguments of the blocks
@pytest.mark.parametrize("name", [pipeline.name for pipeline in ADAPTER.pipelines])
def test_mflux_is_what_the_adapter_describes(name: str, tmp_path: Path) -> None:
    """Red when mflux changed a block list, a block's arguments or returns, the tail or an entry: it says which."""
    check_surface(subject(name, tmp_path), "teacache_qwen")


def test_nothing_that_ships_has_moved() -> None:
    """Red when a data file of the package is not the pinned one: `teacache tolerance pin qwen` pins it again."""
    assert not drift(ADAPTER).failures, str(drift(ADAPTER))
