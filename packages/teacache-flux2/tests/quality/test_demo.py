"""`teacache demo` on the trained toy, as a user starts it: in a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from teacache.report import contact_sheet as sheets
from teacache.testing.toys.scenes import COLOURS, PLACES

RUN = "import sys; from teacache.cli import main; sys.exit(main(['demo', *sys.argv[1:]]))"
STEPS = 30
REUSED = range(12, 25)  # at the toy's own threshold; 0 would be a cache that does nothing
LEAST_SSIM = 0.98

SCENES = {
    "red circle left, blue square right, white background": {"left": "red", "right": "blue", "top": "white"},
    "green square top, black background": {"top": "green", "bottom": "black", "left": "black"},
}


def demo(folder: Path, *arguments: str, script: str = RUN) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "200", "XDG_DATA_HOME": str(folder / "data")},
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Image.Image]:
    """What the demo prints about two scenes, and its picture."""
    folder = tmp_path_factory.mktemp("demo")
    prompts = [word for prompt in SCENES for word in ("--prompt", prompt)]
    done = demo(folder, "--out", "demo.png", *prompts)
    assert (done.returncode, done.stderr) == (0, "")
    with Image.open(folder / "demo.png") as picture:
        return done.stdout, picture.convert("RGB")


def rows(printed: str) -> dict[str, list[str]]:
    """The table's numbers: steps, computed, reused, estimate, SSIM, PSNR."""
    lines = [line.rsplit(None, 6) for line in printed.splitlines()]
    return {line[0].strip(): line[1:] for line in lines if len(line) == 7 and line[1].isdigit()}


def tile(sheet: Image.Image, row: int, column: int) -> Image.Image:
    left = sheets.MARGIN + column * (sheets.TILE + sheets.GAP)
    top = sheets.HEADER + sheets.SECTION + sheets.COLUMNS + row * sheets.ROW + sheets.PROMPT
    return sheet.crop((left, top, left + sheets.TILE, top + sheets.TILE))


def nearest_colour(pixel: tuple[int, int, int]) -> str:
    return min(COLOURS, key=lambda name: sum((a - b) ** 2 for a, b in zip(COLOURS[name], pixel, strict=True)))


def test_the_cache_is_at_work_and_the_pictures_stay(made: tuple[str, Image.Image]) -> None:
    """Red when the demo's cache reuses nothing, reuses so much that the pictures change, or its table is cut."""
    table = rows(made[0])
    assert list(table) == [*SCENES, "all"]
    for prompt in SCENES:
        steps, computed, reused, estimate, ssim, psnr = table[prompt]
        assert int(steps) == STEPS
        assert int(reused) in REUSED
        assert int(computed) == STEPS - int(reused)
        assert float(estimate.rstrip("x")) == pytest.approx(STEPS / (STEPS - int(reused)), abs=0.01)
        assert LEAST_SSIM <= float(ssim) < 1
        assert 30 < float(psnr) < 80


def test_time_is_told_once(made: tuple[str, Image.Image]) -> None:
    """Red when the time of single pictures, which is noise, comes back, or the measured time is not told at all."""
    (line,) = [line for line in made[0].splitlines() if " s " in line]
    assert re.fullmatch(
        r"Time of all 2 pictures, after a warm-up: \d+\.\d s plain, \d+\.\d s with teacache\.", line.strip()
    )


def test_the_picture_shows_both_scenes(made: tuple[str, Image.Image]) -> None:
    """Red when the plain or the wrapped picture is not what its prompt says, or stands in another's place."""
    sheet = made[1]
    assert sheet.width == sheets.WIDTH
    assert sheet.height == sheets.HEADER + sheets.SECTION + sheets.COLUMNS + 2 * sheets.ROW + sheets.FOOTER
    for row, places in enumerate(SCENES.values()):
        for column in (0, 1):
            shown = {place: nearest_colour(tile(sheet, row, column).getpixel(PLACES[place])) for place in places}
            assert shown == places


def test_the_timeline_shows_the_steps_that_the_table_counts(made: tuple[str, Image.Image]) -> None:
    """Red when table and picture tell of different runs."""
    table = rows(made[0])
    for row, prompt in enumerate(SCENES):
        y = sheets.HEADER + sheets.SECTION + sheets.COLUMNS + row * sheets.ROW + sheets.PROMPT + sheets.TILE + 20
        width = (2 * sheets.TILE + sheets.GAP) / STEPS
        cells = [made[1].getpixel((round(sheets.MARGIN + (k + 0.4) * width), y)) for k in range(STEPS)]
        assert cells.count(sheets.REUSED) == int(table[prompt][2])
        assert cells.count(sheets.COMPUTED) == STEPS - int(table[prompt][2])


def test_too_few_steps_still_work_and_say_why_nothing_was_reused(tmp_path: Path) -> None:
    """Red when a run that cannot gain ends in an error, or in silence about it."""
    done = demo(tmp_path, "--steps", "3", "--prompt", "red circle left", "--out", "few.png")
    assert done.returncode == 0, done.stderr
    assert "No step was reused: " in done.stdout
    assert rows(done.stdout)["red circle left"][2] == "0"
    assert (tmp_path / "few.png").is_file()


def test_a_wrong_threshold_is_one_line(tmp_path: Path) -> None:
    """Red when the typed error of `wrap` reaches the user as a traceback, or after a picture was made."""
    done = demo(tmp_path, "--threshold", "-1")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "threshold=-1" in done.stderr
    assert list(tmp_path.glob("*.png")) == []


def test_interruption_leaves_no_picture(tmp_path: Path) -> None:
    """Red when Ctrl-C within a step, which mflux turns into its own exception, ends in a traceback or half a file."""
    script = (
        "import functools, os, signal, teacache; from teacache.wrapping import wrap; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); "  # a background job of a shell ignores it
        "stop = lambda record: os.kill(os.getpid(), signal.SIGINT); "
        "teacache.wrap = functools.partial(wrap, on_step=stop); "
    )
    done = demo(tmp_path, script=script + RUN)
    assert done.returncode == 130
    assert done.stderr.startswith("teacache: interrupted")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.glob("*.png*")) == []
