"""`teacache doctor --model` with mflux: what would serve a checkpoint, told without its weights."""

from __future__ import annotations

import json

import pytest

from teacache import plugins
from teacache.calibration import load_calibrations
from teacache.cli import main
from teacache.discovery import discover
from teacache.testing import models


def asked(model: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, str]]:
    """The exit code, and what doctor says of the model."""
    code = main(["doctor", "--json", "--model", model])
    return code, json.loads(capsys.readouterr().out)[-1]


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("dev", ("FLUX.1-dev", "flux1", "threshold 0.2", "20 to 30 steps", "guidance on")),
        ("schnell", ("distilled",)),
        ("dev-kontext", ("Flux1Kontext", "first picture is recorded")),
        ("somebody/dev-with-cats", ("derives from black-forest-labs/FLUX.1-dev", "not used", "recorded")),
    ],
)
def test_doctor_says_what_would_serve(model: str, says: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Red when doctor promises a polynomial that `wrap` would not use, or leaves out where it would."""
    code, row = asked(model, capsys)
    assert code == 0 and row["status"] == "ok"
    assert [words for words in says if words not in row["says"]] == []


@pytest.mark.parametrize(("model", "says"), [("nosuch", "mflux does not know it"), ("fibo", "dev, ")])
def test_doctor_says_what_nobody_knows(model: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when an unknown model is a traceback, or the known ones are not named."""
    code, row = asked(model, capsys)
    assert code == 1 and row["status"] == "fault" and says in row["says"]


def test_doctor_names_the_package_that_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a model whose adapter was not installed is called unknown, without the line that helps."""
    monkeypatch.setattr(models, "adapters", lambda: ())
    rows = [row for row in discover() if row.name != "zimage"]
    monkeypatch.setattr(plugins, "discover", lambda: tuple(rows))
    assert "pip install teacache-zimage" in asked("z-image", capsys)[1]["says"]
    assert "pip install" not in asked("qwen-image", capsys)[1]["says"]


def test_each_family_is_found_by_the_names_of_its_checkpoints() -> None:
    """Red when a family gets a checkpoint that the list of packages does not know as its."""
    for row in plugins.adapters():
        assert row.adapter is not None and row.adapter.calibrations is not None
        own = next(known for known in plugins._known_adapters() if known.family == row.name)
        names = [one.checkpoint for one in load_calibrations(row.adapter.calibrations)]
        assert [name for name in names if not own.has(name) and not name.startswith("teacache/")] == []
    assert not any(known.has("Qwen/Qwen-Image-2.1") for known in plugins._known_adapters())
