"""Keeps what a test records out of the user's data folder."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def recordings_of_this_test_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEACACHE_DATA", str(tmp_path / "data"))
