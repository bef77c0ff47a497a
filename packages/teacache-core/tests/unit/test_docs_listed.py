"""What README and docs tell to run: all of it is on the list, and the command line, noxfile and clone have it."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import re
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import typer

ROOT = Path(__file__).parents[4]
if not (ROOT / ".ci/doc_commands.py").is_file():
    pytest.skip("the repository is not there", allow_module_level=True)

spec = importlib.util.spec_from_file_location("doc_commands", ROOT / ".ci/doc_commands.py")
assert spec is not None and spec.loader is not None
docs: Any = importlib.util.module_from_spec(spec)
sys.modules["doc_commands"] = docs
spec.loader.exec_module(docs)

SHELL, PYTHON = docs.entries("sh"), docs.entries("python")


def of_kind(check: str) -> list[Any]:
    found = [pytest.param(entry, id=entry.name) for entry in (*SHELL, *PYTHON) if entry.check == check]
    assert found, check
    return found


def test_every_command_is_on_the_list_once() -> None:
    """Red when a page tells to run something that nobody checks, or the list has what no page tells any more."""
    said, listed = docs.shell_commands(), [entry.says for entry in SHELL]
    assert {command: page for command, page in said.items() if command not in listed} == {}
    assert sorted(listed) == sorted(set(listed)) and set(listed) <= set(said)


def test_every_block_of_python_is_on_the_list_once() -> None:
    """Red when a page shows code that nobody runs, or an entry fits no block or several."""
    blocks = [block for block in docs.blocks() if block.language == "python"]
    fits = {
        entry.name: [block for block in blocks if block.page == entry.page and entry.says in block.text]
        for entry in PYTHON
    }
    assert {name: len(found) for name, found in fits.items() if len(found) != 1} == {}
    shown = [found[0] for found in fits.values()]
    assert [block for block in blocks if shown.count(block) != 1] == []


def test_fences_name_a_language_that_is_looked_at() -> None:
    """Red when commands stand in a `bash` or `console` fence, or without any, where no test finds them."""
    blocks = docs.blocks()
    assert {block.language for block in blocks} <= {"", *docs.SPOKEN}
    starts = re.compile(r"^\s*(\$ |teacache |nox |uv |pip |python)", re.MULTILINE)
    assert [block for block in blocks if block.language in ("", "text") and starts.search(block.text)] == []


def test_what_is_not_simply_run_has_a_reason() -> None:
    """Red when a command is taken out of the run, or made smaller, without a word why."""
    changed = [entry for entry in (*SHELL, *PYTHON) if entry.check != "run" or entry.slow or "run" in entry.more]
    assert [entry.name for entry in changed if not entry.why] == []
    assert {entry.check for entry in (*SHELL, *PYTHON)} == {"run", "parse", "nox", "install", "elsewhere"}


@pytest.mark.parametrize("entry", of_kind("parse"))
def test_the_command_line_takes_it(entry: Any) -> None:
    """Red when a documented option was renamed, takes another type, or a required one is missing."""
    command, words = leaf(entry.says)
    command.make_context("teacache", words)  # raises what the user would read


@pytest.mark.parametrize(
    "command", [*docs.spoken_commands(), *(entry.more["run"] for entry in SHELL if "run" in entry.more)]
)
def test_commands_in_sentences_exist(command: str) -> None:
    """Red when a sentence names a subcommand or an option that is not there."""
    found, words = leaf(command)
    known = {option for parameter in found.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= known | {"--help"}


@pytest.mark.parametrize("entry", of_kind("nox"))
def test_the_session_exists(entry: Any) -> None:
    """Red when a page names a session that was renamed, or one of a package that is no more."""
    words = shlex.split(entry.says)
    assert words[0] == ".venv/bin/nox"
    if len(words) > 1:
        assert words[1] == "-s" and words[2] in set(sessions())


@pytest.mark.parametrize("entry", of_kind("install"))
def test_what_is_installed_is_there(entry: Any) -> None:
    """Red when a page installs a folder or reads a file of the clone that was moved."""
    words = shlex.split(entry.says)
    named = [word for flag, word in itertools.pairwise(words) if flag in ("-e", "-r", "--override")]
    assert [word for word in named if not (ROOT / word.partition("[")[0]).exists()] == []


@pytest.mark.parametrize("entry", of_kind("elsewhere"))
def test_the_other_test_reads_the_page(entry: Any) -> None:
    """Red when the test that a block is left to is gone, or no longer reads the page."""
    assert entry.page in (ROOT / entry.more["where"]).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a && b  # why\n\n# only a comment\nc \\\n  --d 'e f'\n", ["a", "b", "c    --d 'e f'"]),
        ("a -k '#1'x\n", ["a -k '#1'x"]),
    ],
)
def test_blocks_are_taken_apart(text: str, found: list[str]) -> None:
    """Red when a command hides behind `&&`, a comment or a continued line."""
    assert docs.commands(text) == found


def leaf(line: str) -> tuple[Any, list[str]]:
    """The subcommand that a line names, and the words that follow it: its own, not those of a command behind `--`."""
    from teacache.cli.app import app

    words = shlex.split(line.partition(" -- ")[0].partition(" | ")[0])[1:]
    found: Any = typer.main.get_command(app)
    while words and not words[0].startswith("-") and hasattr(found, "commands"):
        assert words[0] in found.commands, line
        found = found.commands[words.pop(0)]
    return found, words


def sessions() -> Iterable[str]:
    """The names of noxfile.py's sessions, with those of the parametrised ones."""
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    adapters = [path.name.removeprefix("teacache-") for path in (ROOT / "packages").glob("teacache-*")]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any("session" in ast.unparse(one) for one in node.decorator_list):
            yield node.name
            if any("each_adapter" in ast.unparse(one) for one in node.decorator_list):
                yield from (f"{node.name}({adapter})" for adapter in adapters if adapter != "core")
