"""What holds for every command: a help with an example, one line for a mistake, no heavy import, a log on demand."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import teacache.plugins
from teacache.cli import main
from teacache.cli.app import app
from teacache.cli.console import as_options, progress
from teacache.cli.lines import Lines

pytestmark = pytest.mark.unit

NUMBERS = ("N", "X", "T", "BITS", "PIXELS")
"""Placeholders of options that are numbers."""


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from walk(below, (*path, name))


EVERY = dict(walk(typer.main.get_command(app)))
LEAVES = {path: command for path, command in EVERY.items() if not hasattr(command, "commands")}
NUMBERED = [
    (*path, option.opts[0])
    for path, command in LEAVES.items()
    for option in command.params
    if option.metavar in NUMBERS and option.opts[0].startswith("--")
]


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """What is on stderr: one line of the program's."""
    text = capsys.readouterr().err
    assert text.startswith("teacache: ") and text.count("\n") == 1, text
    return text


def test_all_commands_are_walked() -> None:
    """Red when the walk finds nothing, so that the tests below hold for no command."""
    assert {("run",), ("calibrations", "show"), ("bench", "frontier"), ("toy",)} <= {*EVERY}
    assert len(LEAVES) >= 16 and len(NUMBERED) >= 30


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_every_help_has_an_example(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a command's help has no example that can be copied, or an option of it no explanation."""
    assert main([*path, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = [line.strip() for line in lines[lines.index(next(x for x in lines if "Example" in x)) + 1 :]]
    assert any(line.startswith(" ".join(("teacache", *path))) for line in shown)
    assert all(option.help for option in EVERY[path].params)


@pytest.mark.parametrize("path", [path for path in EVERY if path not in LEAVES], ids=" ".join)
def test_lists_of_commands_are_not_cut_off(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when what a command does does not fit on its line of the list in a terminal of usual width."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*path, "--help"]) == 0
    shown = capsys.readouterr().out
    assert [line for line in shown.partition("Commands:")[2].splitlines() if line.endswith("...")] == []


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
@pytest.mark.parametrize("mistake", ["--nosuch", "--jsn"])
def test_an_unknown_option_is_one_line(path: tuple[str, ...], mistake: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when an option that does not exist is passed over, or ends in a traceback or another exit code than 2."""
    assert main([*path, mistake]) == 2
    line = one_line(capsys)
    assert mistake in line and " ".join(("teacache", *path)) in line


@pytest.mark.parametrize("option", NUMBERED, ids=" ".join)
def test_a_word_for_a_number_is_one_line(option: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a word in a number's place is noticed after the work has begun, or ends in a traceback."""
    assert main([*option, "many"]) == 2
    line = one_line(capsys)
    assert option[-1] in line and "--help" in line


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("demo --family nosuch", "nosuch"),
        ("run nosuch", "mflux"),
        ("check nosuch", "nosuch"),
        ("scenario nosuch", "nosuch"),
        ("calibrate --toy nosuch --out {tmp}/d", "nosuch"),
        ("calibrate --out {tmp}/d", "--toy"),
        ("calibrate --toy flux2 --quantize 4 --out {tmp}/d", "--quantize"),
        ("sweep --toy nosuch --speedup 2", "nosuch"),
        ("sweep --toy flux2", "--threshold"),
        ("sweep --toy flux2 --speedup 0.5", "--speedup"),
        ("sweep --toy flux2 --threshold nan", "--threshold"),
        ("sweep --toy flux2 --threshold -0.1", "--threshold"),
        ("compare nosuch", "nosuch is none of the toys"),
        ("sweep --toy flux2 --speedup 2 --prompts-file {tmp}/binary", "as text"),
        ("sweep --toy flux2 --speedup 2 --plot {tmp}/plot.jpg", ".png"),
        ("calibrations show nosuch", "nosuch"),
        ("calibrations export nosuch --out {tmp}/no/such.json", "mkdir -p"),
        ("calibrations forget", "--all"),
        ("tolerance record nosuch --out {tmp}/x.toml", "nosuch"),
        ("tolerance pin nosuch", "nosuch"),
        ("toy train nosuch --out {tmp}/x.safetensors", "nosuch"),
        ("toy train flux2 --out {tmp}/no/x.safetensors", "no folder"),
        ("toy fit nosuch", "nosuch"),
        ("bench frontier --toys nosuch --out {tmp}/x.md", "adapter"),  # with and without one
        ("bench frontier --out {tmp}/x.html", ".md"),
    ],
)
def test_a_users_mistake_is_one_line_and_leaves_nothing(
    arguments: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a mistake ends in a traceback or in another exit code than 2, or leaves a file behind."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert main(arguments.format(tmp=tmp_path).split()) == 2
    assert says in one_line(capsys)
    assert {path.name for path in tmp_path.iterdir()} <= {"binary", "data"}


def test_help_loads_the_options_reader_and_nothing_else() -> None:
    """Red when a package that is not needed for a help text is imported for it: 0.3 s are the limit."""
    script = (
        "import sys; before = set(sys.modules); from teacache.cli import main; main(['--help']); "
        "print(*set(sys.modules) - before, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {*done.stderr.split()}
    packages = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names
    assert packages <= {"teacache", "typer", "click", "shellingham", "typing_extensions", "annotated_doc"}
    ours = {name for name in loaded if name.startswith("teacache")}
    assert ours == {"teacache", "teacache.cli", "teacache.cli.app", "teacache.cli.console", "teacache.errors"}


def test_debug_shows_the_log(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when TEACACHE_DEBUG=1 shows no log, another package's too, or leaves the log changed."""
    log, other = logging.getLogger("teacache"), logging.getLogger("another.package")
    before = [*log.handlers], log.level, log.propagate

    def speaking() -> tuple[()]:
        logging.getLogger("teacache.store").debug("seen")
        other.debug("not this")
        return ()

    monkeypatch.setattr(teacache.plugins, "adapters", speaking)
    assert main(["adapters"]) == 0
    assert "seen" not in capsys.readouterr().err
    monkeypatch.setenv("TEACACHE_DEBUG", "1")
    assert main(["adapters"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("ms teacache.store: seen")
    assert ([*log.handlers], log.level, log.propagate) == before


def test_long_work_shows_the_time_left(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when the bar of the long commands does not say how long it will take, or stays when the work is done."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    with progress() as bar:
        task = bar.add_task("recording", total=4)
        bar.tasks[0].start_time = bar.get_time() - 60
        bar.tasks[0]._progress.clear()
        bar.advance(task)
        bar.advance(task)
        bar.refresh()
    shown = capsys.readouterr().err
    assert "2/4" in shown and "0:0" in shown
    assert shown.rstrip().endswith(("\x1b[?25h", "\x1b[2K", "\x1b[1A\x1b[2K"))


def test_what_breaks_off_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when Ctrl-C in the long commands does not say that nothing is lost, or is swallowed."""
    lines = Lines(tmp_path / "lines.jsonl", {"steps": 8})
    lines.append({"row": 1})
    with pytest.raises(KeyboardInterrupt), lines.resumable():
        raise KeyboardInterrupt
    assert f"1 result is kept in {lines.path}. The same command goes on" in one_line(capsys)
    assert Lines(lines.path, {"steps": 8}).rows == [{"row": 1}]


@pytest.mark.parametrize(
    ("python", "options"),
    [
        ("speedup=0.5 was given", "--speedup 0.5 was given"),
        ("Say wrap(model, checkpoint='sea/fish') to", "Say --checkpoint sea/fish to"),
        ("a smaller computed_steps=, or a larger speedup=, helps", "a smaller --computed-steps, or a larger --speedup, helps"),  # noqa: E501
        ("threshold=0.2.", "--threshold 0.2."),
        ("the plan is made", "the plan is made"),
    ],
)  # fmt: skip
def test_messages_speak_of_options(python: str, options: str) -> None:
    """Red when a command tells its user to write Python."""
    assert as_options(python) == options
