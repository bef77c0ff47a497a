"""`teacache calibrate` on the trained toy: interrupted, resumed, and used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import teacache
from teacache.calibration import load_calibration
from teacache.cli import calibrate_work, main
from teacache.testing import toy_pipeline


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
    assert "1 results are kept" in capsys.readouterr().err
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
