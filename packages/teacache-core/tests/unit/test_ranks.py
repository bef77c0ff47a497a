"""Work spread over processes: alone, and in two local ones under mlx.launch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from teacache.ranks import LAUNCHED, Ranks, launched

pytestmark = pytest.mark.unit

SCRIPT = """
import sys
from teacache.ranks import launched
ranks = launched()
mine = ranks.share(range(5))
rows = ranks.gather([{"row": row, "text": "é" * row} for row in mine])
with open(f"{sys.argv[1]}/{ranks.rank}", "w") as file:
    print(ranks.size, mine, [row["row"] for row in rows], sum(len(row["text"]) for row in rows), file=file)
"""


def test_alone_all_of_the_work_is_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when the one-machine path loads mlx's distributed part, drops an item or changes their order."""
    for name in LAUNCHED:
        monkeypatch.delenv(name, raising=False)
    assert launched() == Ranks() and launched().first
    assert Ranks().share([1, 2, 3]) == [1, 2, 3]
    assert Ranks().gather([{"a": 1.5}]) == [{"a": 1.5}]


def test_every_item_is_one_ranks() -> None:
    """Red when a prompt is recorded twice or by nobody."""
    shares = [Ranks(rank, 3).share(range(8)) for rank in range(3)]
    assert sorted(item for share in shares for item in share) == list(range(8))


def test_two_local_ranks_gather_the_same_rows(tmp_path: Path) -> None:
    """Red when rows of another rank are lost, cut where lengths differ, or come in another order to each."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    launch = Path(sys.executable).with_name("mlx.launch")
    done = subprocess.run(
        [launch, "-n", "2", sys.executable, script, tmp_path],
        capture_output=True, text=True, check=False, timeout=120, env=dict(os.environ),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [(tmp_path / name).read_text().strip() for name in "01"]
    assert found == ["2 [0, 2, 4] [0, 2, 4, 1, 3] 10", "2 [1, 3] [0, 2, 4, 1, 3] 10"]
