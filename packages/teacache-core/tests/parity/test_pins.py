"""Every checkpoint that an adapter describes is pinned to a revision, and to the one that mflux loads."""

from __future__ import annotations

import pytest

import teacache
from teacache.calibration import load_calibrations
from teacache.testing.oracles.drift import load_pins, package_of

revisions = pytest.importorskip("mflux.models.common.resolution.model_revisions", reason="mflux before 0.24 pins none")

OURS = [row.adapter for row in teacache.adapters() if row.package.startswith("teacache-") and row.adapter is not None]


def test_there_are_adapters() -> None:
    """Red when none is installed, so that the tests below look at nothing."""
    assert {adapter.name for adapter in OURS} & {"flux1", "flux2", "qwen", "zimage"}


@pytest.mark.parametrize("adapter", OURS, ids=lambda adapter: adapter.name)
def test_every_described_checkpoint_is_pinned(adapter: teacache.Adapter) -> None:
    """Red when a calibration comes without a revision of its weights, or with another than mflux loads."""
    if adapter.calibrations is None:
        pytest.skip("it ships no calibrations")
    described = {one.checkpoint for one in load_calibrations(adapter.calibrations)}
    pinned = load_pins(package_of(adapter)).revisions
    assert {name for name in described if not name.startswith("teacache/")} == set(pinned)
    assert all(len(revision) == 40 for revision in pinned.values())
    loaded = {name: revisions.ModelRevisions.PINNED.get(name) for name in pinned}
    assert {name: revision for name, revision in loaded.items() if revision not in (None, pinned[name])} == {}
