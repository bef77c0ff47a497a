"""`teacache doctor --model` with mflux: what would serve a checkpoint, told without its weights."""

from __future__ import annotations

import json

import pytest

from teacache.cli import main


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
