"""What all tests share: no network, repeatable hypothesis runs, and the tier of each test.

Imports neither mflux nor MLX: the `unit` tier runs where mflux is not installed.
"""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Read by huggingface_hub and transformers when they are imported.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"

# Read by tqdm when it is imported, as `teacache` sets it for its commands: mflux's bar stays out of what tests compare.
os.environ["TQDM_DISABLE"] = "1"

PACKAGES = Path(__file__).parent
OFF_BY_DEFAULT = ("slow", "browser", "weights", "peers")
TIERS = ("unit", "parity", "quality", *OFF_BY_DEFAULT)

# No deadline: the first call of an MLX function builds its kernel.
settings.register_profile("teacache", deadline=None, derandomize=True)
settings.load_profile("teacache")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with the tier that its folder names; set aside what is off unless `-m` names it."""
    off = {tier for tier in OFF_BY_DEFAULT if tier not in config.getoption("markexpr")}
    kept, dropped = [], []
    for item in items:
        if item.path.is_relative_to(PACKAGES):
            for folder in set(item.path.relative_to(PACKAGES).parts) & set(TIERS):
                item.add_marker(folder)
        tiers = {mark.name for mark in item.iter_markers()} & set(TIERS)
        if not tiers:
            raise pytest.UsageError(
                f"{item.nodeid} has no tier: move its file to tests/unit, tests/parity or tests/quality, "
                "or write pytestmark = pytest.mark.unit (parity, quality) in it"
            )
        (dropped if tiers & off else kept).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


@pytest.fixture(autouse=True)
def data_folder_of_this_test_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps what a test records out of the user's data folder, and away from other tests."""
    monkeypatch.setenv("TEACACHE_DATA", str(tmp_path / "data"))
