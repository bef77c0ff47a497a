"""`teacache compare` on the trained toy: what is made, what is refused before it is, what an interruption leaves."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from teacache.cli import main
from teacache.cli.meter import Meter
from teacache.store import Store

PROMPT = "red circle left, blue square right, white background"
ARGUMENTS = ["compare", "flux2", "--steps", "10", "--prompt", PROMPT, "--seed", "7"]


def test_pictures_are_made_plain_cached_and_with_fewer_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the control is made under the cache, in other steps or from another seed, or the plan is made from the
    very picture that it is tried on."""
    monkeypatch.chdir(tmp_path)
    settings = ["--setting", "speedup=2", "--setting", "threshold=0"]
    assert main([*ARGUMENTS, *settings, "--out", "page.html", "--json", "page.json"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["page.html", "page.json"]
    data = json.loads((tmp_path / "page.json").read_text("utf-8"))
    (case,) = data["cases"]
    plan, off = case["trials"]
    assert (case["prompt"], case["seed"], case["plain"]["timeline"]) == (PROMPT, 7, "#" * 10)
    assert plan["cached"]["run"]["policy"].startswith("plan from the recording of this model")
    assert (plan["cached"]["run"]["computed"], plan["cached"]["run"]["reused"]) == (5, 5)
    assert plan["fewer_steps"]["timeline"] == "#####"
    # Made from the prompt's own noise: another seed's picture has about 15 dB.
    assert plan["cached"]["psnr"] > plan["fewer_steps"]["psnr"] > 20
    assert data["settings"][0]["won"] == 1 and data["settings"][0]["cached"]["speedup"] == 2.0
    assert off["cached"]["equal"] is True and off["fewer_steps"] is None
    assert [case["plain"]["width"], case["plain"]["height"]] == [128, 128]
    assert len(list(Store().all())) == 1  # as `wrap` keeps it: the next comparison needs no recording
    said = capsys.readouterr()
    assert "speedup=2" in said.out and "5 steps" in said.out and said.err == ""
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count('<img class="picture"') == 4
    made = re.search(r"<code>(.*?)</code>", page)
    assert made is not None and shlex.split(made[1].replace("&#x27;", "'"))[2:] == [
        "--toy", "flux2", "--prompt", PROMPT, "--seed", "7", "--steps", "10",
        "--setting", "speedup=2", "--setting", "threshold=0",
    ]  # fmt: skip


def test_a_setting_that_cannot_work_is_refused_before_pictures_are_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a gate without a polynomial for the recipe (10 steps) costs all the pictures to find out."""
    made: list[object] = []
    monkeypatch.setattr(Meter, "step", lambda self, record: made.append(record))
    assert main([*ARGUMENTS, "--setting", "threshold=0.2", "--out", str(tmp_path / "page.html")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "no polynomial for flux2 at 10 steps" in error and "speedup=2" in error
    assert made == [] and not (tmp_path / "page.html").exists()


def test_interruption_leaves_no_file_and_keeps_the_older_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when Ctrl-C within a picture, which mflux turns into its own exception, leaves half a page or a traceback."""
    (tmp_path / "page.html").write_text("older", encoding="utf-8")
    step, seen = Meter.step, []

    def interrupted(self: Meter, record: object) -> None:
        seen.append(record)
        if len(seen) == 13:  # after the recording, within the plain picture
            raise KeyboardInterrupt
        step(self, record)  # type: ignore[arg-type]

    monkeypatch.setattr(Meter, "step", interrupted)
    files = ["--out", str(tmp_path / "page.html"), "--json", str(tmp_path / "page.json")]
    assert main([*ARGUMENTS, "--setting", "speedup=2", *files]) == 130
    assert capsys.readouterr().err.startswith("teacache: interrupted")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["page.html"]
    assert (tmp_path / "page.html").read_text("utf-8") == "older"
