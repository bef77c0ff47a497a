"""`teacache run` with real weights, where they lie in Hugging Face's cache: off by default, `nox -s weights`."""

from __future__ import annotations

from pathlib import Path

import pytest

from teacache.cli import main
from teacache.report.metadata import read_metadata
from teacache.testing.oracles.drift import present_revisions

CHECKPOINT = "black-forest-labs/FLUX.2-klein-base-4B"


def test_the_real_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when mflux's own construction of a model is not the one that the toys stand in for."""
    if not present_revisions(CHECKPOINT):
        pytest.skip(f"not in the cache. Fetch it: hf download {CHECKPOINT}")
    arguments = ["--model", "flux2-klein-base-4b", "-q", "4", "--prompt", "a red apple", "--steps", "12"]
    size = ["--width", "256", "--height", "256", "--seed", "1", "2", "--output", str(tmp_path / "apple.png")]
    assert main(["run", "--speedup", "2", "--", "mflux-generate-flux2", *arguments, *size]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("teacache: ")]
    assert "0 of 12 steps reused: the model was recorded" in lines[-2] and "6 of 12 steps reused" in lines[-1]
    made = read_metadata(tmp_path / "apple_seed_2.png")
    assert made is not None and len(made["computed_steps"]) == 6
    assert read_metadata(tmp_path / "apple_seed_1.png") is None
