"""`teacache calibrations`: the user's own recordings, seen and managed from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from teacache.cli import main
from teacache.cli.calibrations_tables import _beginnings
from teacache.policies.kernel import Kernel
from teacache.store import Key, Recording, Store

pytestmark = pytest.mark.unit

SIGMAS = tuple(np.linspace(1, 0.1, 10))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder for this test alone."""
    monkeypatch.setenv("TEACACHE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "data" / "recordings"


def keep(checkpoint: str, *, guidance: bool = True) -> Path:
    """Stores a recording whose velocities turn slowly."""
    key = Key(checkpoint=checkpoint, level="exact", fingerprint=checkpoint, pipeline="FishPipeline", guidance=guidance)
    angle = np.linspace(0, 1, 10)
    kernel = Kernel.of(SIGMAS, np.cos(angle[:, None] - angle[None, :]))
    evidence = {"steps": 10, "guidance": 2.5, "date": "2025-01-31"}
    return Store().save(Recording(key=key, kernel=kernel, evidence=evidence))


def run(*arguments: str) -> int:
    return main(["calibrations", *arguments])


def test_list_shows_each_recording_and_why_one_is_damaged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a damaged file hides the others or its reason, a field is missing, or text is read as markup."""
    path = keep("sea/fish[red]")
    (folder / "0bad.json").write_text("{", encoding="utf-8")
    assert run("list") == 0
    shown = capsys.readouterr().out
    for word in (
        "sea/fish[red]",
        "exact",
        "FishPipeline",
        "2.5",
        "10",
        "2025-01-31",
        path.name,
        "0bad.json",
        "damaged:",
    ):
        assert word in shown
    assert run("list", "--json") == 0
    damaged, sound = json.loads(capsys.readouterr().out)
    assert damaged["file"] == str(folder / "0bad.json") and "no recording" in damaged["damaged"]
    assert sound["damaged"] is None and sound["key"]["checkpoint"] == "sea/fish[red]" and sound["noise_levels"] == 10


@pytest.mark.parametrize("width", [80, 60])
def test_a_narrow_terminal_breaks_no_word(
    width: int, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the columns of the list are squeezed until names and dates are cut into pieces."""
    monkeypatch.setenv("COLUMNS", str(width))
    long = "black-forest-labs/FLUX.2-klein-base-4B"
    path = keep(long), keep("sea/fish")
    (folder / "0bad.json").write_text("{", encoding="utf-8")
    assert run("list") == 0
    shown = capsys.readouterr().out.partition("\nIn ")[0]
    assert max(map(len, shown.splitlines())) <= width
    words = shown.replace(",", " ").split()
    for word in (long, "sea/fish", "(exact)", "FishPipeline", "2025-01-31", "damaged:", path[0].name[:8]):
        assert word in words
    assert run("show", path[0].name[:8]) == 0


def test_file_names_are_shown_as_far_as_they_differ() -> None:
    """Red when the list shows a beginning that `show` and `forget` take for two recordings."""
    assert _beginnings(["0123456789a.json", "0123456789b.json"]) == ["0123456789a", "0123456789b"]
    assert _beginnings(["0123456789a.json"]) == ["01234567"]


def test_an_empty_folder_says_how_to_fill_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a new user sees an empty table, or the missing folder is an error."""
    assert run("list") == 0
    assert "speedup=2.0" in capsys.readouterr().out
    assert run("list", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []


def test_show_tells_what_is_planned(capsys: pytest.CaptureFixture[str]) -> None:
    """Red when the plans of a recording are made for other counts, or leave out the first or the last step."""
    path = keep("sea/fish")
    assert run("show", path.name[:6], "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert [plan["computed"] for plan in shown["plans"]] == [6, 5, 3, 2]
    assert all((plan["computed_steps"][0], plan["computed_steps"][-1]) == (0, 9) for plan in shown["plans"])
    errors = [plan["expected_error"] for plan in shown["plans"]]
    assert errors == sorted(errors) and errors[0] >= 0
    assert run("show", "SEA/FISH") == 0
    assert "expected error" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["show", "nothing"], "'nothing'"),
        (["show", ""], "''"),
        (["show", "sea/fish"], "2 recordings"),
        (["show", "0bad"], "forget 0bad"),
        (["export", "sea/bird", "--out", "no/such/folder.json"], "mkdir -p"),
        (["forget"], "--all"),
        (["forget", "sea/bird", "--all"], "not both"),
    ],
)
def test_mistakes_are_one_line_and_change_nothing(
    arguments: list[str], says: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Red when an ambiguous or unknown name is guessed at, or a wrong call removes a recording."""
    keep("sea/fish"), keep("sea/fish", guidance=False), keep("sea/bird")
    (folder / "0bad.json").write_text("{", encoding="utf-8")
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1
    assert len(list(folder.iterdir())) == 4


def test_forget_takes_what_is_named_and_nothing_else(folder: Path) -> None:
    """Red when forgetting one checkpoint takes another's recording, or a damaged file cannot be got rid of."""
    fish, bird = keep("sea/fish"), keep("sea/bird")
    (folder / "0bad.json").write_text("{", encoding="utf-8")
    assert run("forget", "sea/fish") == 0
    assert not fish.exists() and bird.exists()
    assert run("forget", "0bad") == 0
    assert list(folder.iterdir()) == [bird]
    keep("sea/fish")
    assert run("forget", "--all") == 0 and list(folder.iterdir()) == []
    assert run("forget", "--all") == 0


def test_an_exported_recording_is_one(folder: Path, tmp_path: Path) -> None:
    """Red when what is exported cannot be read back, or the original goes."""
    path, out = keep("sea/fish"), tmp_path / "out.json"
    assert run("export", "sea/fish", "--out", str(out)) == 0
    read = Recording.from_json(out.read_text(encoding="utf-8"))
    assert read.key.checkpoint == "sea/fish" and np.allclose(read.kernel.sigmas, SIGMAS)
    assert path.exists() and list(tmp_path.glob(".out*")) == []
