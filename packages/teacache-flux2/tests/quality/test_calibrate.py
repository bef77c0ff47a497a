"""`teacache calibrate` on the trained toy: interrupted, resumed, and used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import teacache
from teacache.calibrating import Measured, fit
from teacache.calibration import load_calibration
from teacache.cli import calibrate_work, main
from teacache.testing import toy_pipeline

LINES = ("measured.jsonl", "measured-1.jsonl")
"""What has been recorded by each of two ranks."""


def test_an_interrupted_calibration_goes_on_and_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Red when Ctrl-C loses a recorded prompt or leaves half a file, when the second run records it anew, or when
    wrap() does not find the kernel that was kept."""
    monkeypatch.setenv("TEACACHE_DATA", str(tmp_path / "data"))
    out, measure = tmp_path / "numbers", calibrate_work.measure
    command = ["calibrate", "--toy", "flux2", "--prompts", "2", "--held-out", "1", "--steps", "12", "--out", str(out)]
    measured: list[str] = []

    def interrupted_at_the_second(*arguments: Any) -> Any:
        if len(measured) == 1:
            measured.append("interrupted")
            raise KeyboardInterrupt
        measured.append(arguments[2].prompt)
        return measure(*arguments)

    monkeypatch.setattr(calibrate_work, "measure", interrupted_at_the_second)
    assert main(command) == 130
    assert "1 result is kept" in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == ["measured.jsonl"]
    assert main(command) == 0
    assert len(measured) == 3 and measured[0] != measured[2]
    assert "plan" in capsys.readouterr().out
    assert sorted(path.name for path in out.iterdir()) == ["calibration.toml", "measured.jsonl", "recording.json"]
    calibration = load_calibration(out / "calibration.toml")
    assert calibration.curve is not None and len(calibration.curve.body_change) == 11
    assert json.loads((out / "recording.json").read_text(encoding="utf-8"))["prompts"] == 2
    model = toy_pipeline("flux2")
    with teacache.wrap(model, speedup=2.0) as handle:
        model.generate_image(
            seed=9, prompt="red circle left", num_inference_steps=12, width=128, height=128, guidance=2.0
        )
        assert handle.stats.last is not None and handle.stats.last.computed == 6
    assert main([*command, "--seed", "5"]) == 2
    assert "other settings" in capsys.readouterr().err


@pytest.mark.slow
def test_two_ranks_share_the_prompts(tmp_path: Path) -> None:
    """Red when a rank records what another has, the merged kernel misses a prompt, or both write the results."""
    out, here = tmp_path / "numbers", Path(sys.executable).parent
    command = ["calibrate", "--toy", "flux2", "--prompts", "2", "--held-out", "0", "--steps", "8", "--out", str(out)]
    done = subprocess.run(
        [here / "mlx.launch", "-n", "2", sys.executable, here / "teacache", *command],
        capture_output=True, text=True, check=False, timeout=300, env=dict(os.environ),
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.count("Written:") == 1, done.stderr
    rows = [json.loads((out / name).read_text().splitlines()[1])["measured"] for name in LINES]
    assert rows[0]["prompt"] != rows[1]["prompt"]
    kernel = json.loads((out / "recording.json").read_text(encoding="utf-8"))
    assert kernel["prompts"] == 2
    alone = fit([Measured(**row | {"sigmas": tuple(row["sigmas"])}) for row in rows]).kernel
    assert np.allclose(kernel["products"], alone.products, rtol=1e-7)
