"""`teacache compare` without a model: settings, prompts and seeds, the command that it tells, mistakes."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from teacache.cli import main
from teacache.cli.compare_settings import parse_setting, parse_settings
from teacache.cli.compare_tasks import command_of, source_named, tasks_for
from teacache.cli.meter import Meter
from teacache.cli.source import PROMPTS
from teacache.errors import OptionError, TeaCacheError
from teacache.stats import StepRecord

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("speedup=2", {"speedup": 2.0}, 15),
        ("computed_steps=12", {"computed_steps": 12}, 12),
        ("plan=3,8-9", {"plan": [3, 8, 9]}, 5),
        (" threshold=0.2   reconstruction=linear ", {"threshold": 0.2, "reconstruction": "linear"}, 15),
        ("coefficients=1,2,3,4,5 threshold=.1", {"coefficients": [1.0, 2.0, 3.0, 4.0, 5.0], "threshold": 0.1}, 15),
        ("default", {}, 15),
    ],
)
def test_settings_become_options_of_wrap(text: str, options: dict[str, object], expected: int) -> None:
    """Red when an option is read as another type, dropped, or its label is not what the user wrote."""
    setting = parse_setting(text)
    assert setting.options == options
    assert setting.label == " ".join(text.split())
    assert setting.expected(30) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2", "'2' in it is not one of threshold, speedup"),
        ("speedup=fast", "'fast' is no value of speedup"),
        ("mode=shadow", "mode=shadow"),
        ("plan=a-b", "'a-b' is no value of plan"),
        ("speedup=2 speedup=3", "each once"),
        ("", "it is empty"),
        ("speedup=0.5", "speedup=0.5"),
        ("speedup=2 threshold=0.1", "given together"),
        ("threshold=nan", "threshold=nan"),
    ],
)
def test_wrong_settings_are_refused(text: str, says: str) -> None:
    """Red when a setting that `wrap` refuses, or does not know, is noticed after the plain pictures are made."""
    with pytest.raises(TeaCacheError, match=says.replace("(", r"\(")):
        parse_setting(text)


def test_a_setting_given_twice_is_tried_once() -> None:
    """Red when the same pictures are made twice, or the order is not the user's."""
    assert [one.label for one in parse_settings(["speedup=3", "speedup=2", "speedup=3"])] == ["speedup=3", "speedup=2"]


def test_every_prompt_is_drawn_with_every_seed(tmp_path: Path) -> None:
    """Red when seeds count up with the prompts, or a model is recorded on a picture that is compared."""
    tasks, spare = tasks_for(None, ["a fox", "a bee", "a fox"], None, [3, 5])
    assert [(task.prompt, task.seed) for task in tasks] == [("a fox", 3), ("a fox", 5), ("a bee", 3), ("a bee", 5)]
    assert spare.prompt == PROMPTS[0] and spare.seed not in (3, 5)
    tasks, spare = tasks_for(None, None, None, [1])
    assert [task.prompt for task in tasks] == list(PROMPTS[:2]) and spare.prompt == PROMPTS[2]
    file = tmp_path / "prompts.txt"
    file.write_text("red circle left\n\nblue ring right\n", encoding="utf-8")
    tasks, spare = tasks_for("flux2", None, file, [1])
    assert [task.prompt for task in tasks] == ["red circle left", "blue ring right"]
    assert spare.prompt not in ("red circle left", "blue ring right")


def test_the_command_makes_the_same_again() -> None:
    """Red when a word of a prompt becomes an option of the shell, or a value is lost."""
    command = command_of(
        toy=None, model="dev", prompt=["it's \"red\" $HOME"], seed=[1, 2], steps=25, guidance=3.5, size=512,
        setting=["threshold=0.2 reconstruction=linear"],
    )  # fmt: skip
    assert shlex.split(command) == [
        "teacache", "compare", "--model", "dev", "--prompt", "it's \"red\" $HOME", "--seed", "1", "--seed", "2",
        "--steps", "25", "--guidance", "3.5", "--size", "512", "--setting", "threshold=0.2 reconstruction=linear",
    ]  # fmt: skip


def test_a_name_is_real_weights_where_no_toy_has_it() -> None:
    """Red when a model's name is looked for among the toys only, or two models are asked for at once."""
    assert source_named("no-such-toy", None, None) == (None, "no-such-toy")
    assert source_named(None, "flux2", None) == ("flux2", None)
    with pytest.raises(OptionError, match="--toy or --model too"):
        source_named("dev", None, "schnell")


def test_the_meter_counts_what_is_computed() -> None:
    """Red when reused steps, which take no time, are counted as work, so that the time left jumps."""
    seen: list[tuple[str, int, int]] = []
    meter = Meter(lambda *now: seen.append(now), 10)
    meter.begin("plain")
    for action in ("compute", "reuse", "compute"):
        meter.step(StepRecord(step=0, sigma=1.0, action=action, planned=action, reason="plan"))
    meter.expect(-4)
    meter.begin("next")
    assert seen == [("plain", 0, 10), ("plain", 1, 10), ("plain", 2, 10), ("next", 2, 6)]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--toy NAME"),
        (["dev", "--toy", "flux2"], "--toy or --model too"),
        (["--toy", "flux2", "--quantize", "4"], "--model NAME"),
        (["--toy", "flux2", "--setting", "fast"], "--setting"),
        (["--toy", "flux2", "--setting", "speedup=0"], "speedup=0"),
        (["--toy", "flux2", "--out", "page.pdf"], ".html"),
        (["--toy", "flux2", "--out", "no/such/page.html"], "no folder"),
        (["--toy", "flux2", "--json", "no/such/page.json"], "no folder"),
        (["--toy", "flux2", "--out", "page.html", "--json", "page.html"], "two names"),
        (["--toy", "flux2", "--prompt", "a purple elephant"], "'elephant' is unknown"),
        (["--toy", "nosuch"], "nosuch"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Red when a wrong call is noticed after the model is loaded, ends in a traceback, or leaves a file behind."""
    monkeypatch.chdir(tmp_path)
    assert main(["compare", *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """Red when the help text is empty, or its example is not on a line that can be copied."""
    assert main(["compare", "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Usage: teacache compare ") and lines[2].strip()
    assert any(line.strip().startswith("teacache compare flux2") for line in lines)
