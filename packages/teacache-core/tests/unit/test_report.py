"""Comparison of pictures and the contact sheet, from runs and pictures made by hand."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image, ImageChops

from teacache.errors import OptionError
from teacache.report import contact_sheet as sheets
from teacache.report.difference import amplification, difference
from teacache.report.files import save_png
from teacache.report.pair import Pair, Section
from teacache.report.quality import psnr, ssim
from teacache.stats import RunStats, StepRecord

RED, NEARLY_RED, BLUE = (200, 10, 10), (203, 10, 10), (10, 10, 200)


def run_of(timeline: str) -> RunStats:
    actions = ["reuse" if step == "." else "compute" for step in timeline]
    records = tuple(
        StepRecord(step=k, sigma=1 - k / len(actions), action=action, planned=action, reason="gate")
        for k, action in enumerate(actions)
    )
    return RunStats(records=records, seconds=1.0, policy="gate at threshold 0.2")


def pair_of(
    plain: tuple[int, int, int] = RED,
    wrapped: tuple[int, int, int] = NEARLY_RED,
    timeline: str = "#..#..#",
    **texts: str,
) -> Pair:
    return Pair.of(
        prompt=texts.get("prompt", "red"),
        plain=Image.new("RGB", (32, 32), plain),
        wrapped=Image.new("RGB", (32, 32), wrapped),
        run=run_of(timeline),
        plain_seconds=3.0,
        wrapped_seconds=2.0,
    )


def sheet_of(*pairs: Pair) -> Image.Image:
    return sheets.contact_sheet([Section(title="toy", details=("a gate", "small print"), pairs=pairs)])


def colours(image: Image.Image) -> set[object]:
    return {colour for _, colour in image.getcolors(image.width * image.height) or []}


def test_equal_pictures_are_equal() -> None:
    """Red when equal pictures divide by their error of zero, or are not called equal."""
    picture = Image.effect_noise((32, 32), 50).convert("RGB")
    assert ssim(picture, picture.copy()) == 1.0
    assert psnr(picture, picture.copy()) == math.inf


def test_psnr_is_taken_over_the_range_of_bytes() -> None:
    """Red when the data range is guessed from the picture: a flat error of 5 is 10 log10(255² / 5²) dB."""
    one, other = Image.new("RGB", (16, 16), (100, 100, 100)), Image.new("RGB", (16, 16), (105, 105, 105))
    assert psnr(one, other) == pytest.approx(10 * math.log10(255**2 / 25))


def test_ssim_falls_with_the_error() -> None:
    """Red when the similarity ignores colour, or the axis of the channels is taken for a side of the picture."""
    noise = Image.effect_noise((32, 32), 60)
    picture = Image.merge("RGB", (noise, noise, noise))
    tinted = Image.merge("RGB", (noise, noise, noise.rotate(90)))
    other = picture.rotate(180)
    assert 1 > ssim(picture, tinted) > ssim(picture, other)


@pytest.mark.parametrize("size", [(32, 31), (6, 6)])
def test_pictures_that_cannot_be_compared_are_refused(size: tuple[int, int]) -> None:
    """Red when two sizes are compared by broadcasting or end in scikit-image's own error."""
    with pytest.raises(OptionError, match="one size"):
        ssim(Image.new("RGB", (32, 32) if size[0] > 6 else size), Image.new("RGB", size))


def test_sheet_has_a_row_for_each_pair_and_a_head_for_each_section() -> None:
    """Red when a second pair or a second model is drawn over the first."""
    one, two = sheet_of(pair_of()), sheet_of(pair_of(), pair_of())
    section = Section(title="toy", details=("a gate", "small print"), pairs=(pair_of(),))
    both = sheets.contact_sheet([section, section])
    assert (two.width, two.height - one.height) == (one.width, sheets.ROW)
    assert both.height == two.height + sheets.SECTION + sheets.COLUMNS


def test_sheet_shows_plain_left_and_wrapped_right() -> None:
    """Red when the two pictures are swapped, or the wrapped one is shown twice."""
    sheet = sheet_of(pair_of(RED, BLUE))
    y = sheets.HEADER + sheets.SECTION + sheets.COLUMNS + sheets.PROMPT + sheets.TILE // 2
    shown = [sheet.getpixel((sheets.MARGIN + k * (sheets.TILE + sheets.GAP) + sheets.TILE // 2, y)) for k in (0, 1)]
    assert shown == [RED, BLUE]


@pytest.mark.parametrize("timeline", ["#..#..#", "#" * 200, "#."])
def test_timeline_has_one_cell_per_step(timeline: str) -> None:
    """Red when cells are left out, merged or coloured by the wrong action; 200 steps still fit."""
    sheet = sheet_of(pair_of(timeline=timeline))
    top = sheets.HEADER + sheets.SECTION + sheets.COLUMNS + sheets.PROMPT + sheets.TILE + 12
    left, right = sheets.MARGIN, sheets.MARGIN + 2 * sheets.TILE + sheets.GAP
    width = (right - left) / len(timeline)
    for k, step in enumerate(timeline):
        colour = sheet.getpixel((round(left + (k + 0.4) * width), top + 8))
        assert colour == (sheets.REUSED if step == "." else sheets.COMPUTED), f"step {k}"


def pictures(colour: tuple[int, int, int]) -> tuple[Image.Image, Image.Image]:
    return Image.new("RGB", (32, 32), RED), Image.new("RGB", (32, 32), colour)


def test_difference_is_amplified_as_its_caption_says() -> None:
    """Red when the picture and the caption use different factors, or an equal pair is not white."""
    assert amplification([pictures(NEARLY_RED)]) == 32
    assert colours(difference(*pictures(NEARLY_RED), 32)) == {255 - 3 * 32}
    assert colours(difference(*pictures(RED), 32)) == {255}
    shown = tile_of(sheet_of(pair_of(RED, NEARLY_RED)), 2)
    assert colours(shown) == {(255 - 3 * 32,) * 3}


def tile_of(sheet: Image.Image, column: int) -> Image.Image:
    left, top = sheets._left(column), sheets.HEADER + sheets.SECTION + sheets.COLUMNS + sheets.PROMPT
    return sheet.crop((left, top, left + sheets.TILE, top + sheets.TILE))


def test_amplification_cuts_nothing_off() -> None:
    """Red when a large difference is amplified until it looks like every other one."""
    assert amplification([pictures(NEARLY_RED), pictures(BLUE)]) == 1
    assert amplification([pictures(RED)]) == 1


def test_legend_says_what_a_reused_step_is() -> None:
    """Red when a plan is said to skip blocks only, or a gate, which runs the model's beginning, not to call it."""
    planned = run_of("#..#..#")
    gated = replace(planned, records=tuple(replace(record, branches=2) for record in planned.records))
    assert sheets.reusing([planned]) == "the model was not called"
    assert sheets.reusing([gated]) == sheets.reusing([planned, gated]) == "the model's blocks did not run"


def test_both_lines_of_small_print_are_drawn() -> None:
    """Red when the policy of a plan, a long text, pushes settings and versions off the sheet."""
    policy = "plan from the recording of this model (30 steps, guidance 2, 2026-12-01), expected error 1.22%"
    versions = "30 steps · guidance 2 · seed 1 · teacache-core 0.1.0 · teacache-flux2 0.1.0 · mflux 0.24.0 · MLX 0.32.2"
    room = sheets.WIDTH - 2 * sheets.MARGIN
    assert all(sheets._fitted(text, 13, room) == text for text in (policy, versions))
    one, two = (
        sheets.contact_sheet([Section(title="toy", details=(policy, line), pairs=(pair_of(),))])
        for line in ("", versions)
    )
    changed = ImageChops.difference(one, two).getbbox()
    assert changed is not None
    assert changed[1] > sheets.HEADER + 50 and changed[3] <= sheets.HEADER + sheets.SECTION


def test_pictures_that_are_not_square_keep_their_ratio() -> None:
    """Red when a landscape picture is stretched into the square tile."""
    tile = sheets._tile(Image.new("RGB", (64, 32), RED))
    assert tile.size == (sheets.TILE, sheets.TILE)
    assert [tile.getpixel((128, y)) for y in (40, 128, 215)] == [(255, 255, 255), RED, (255, 255, 255)]


def test_long_prompts_stay_on_the_sheet() -> None:
    """Red when a prompt of many words, or of several lines, runs over the right edge or the picture."""
    text = sheets._fitted("red circle\n" * 50, 17, 300)
    assert text.endswith("...")
    assert "\n" not in text
    assert sheets._font(17).getlength(text) <= 300


def test_picture_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when an interruption while writing leaves half a file, or destroys the older one."""
    path = tmp_path / "sheet.png"
    path.write_bytes(b"older")

    def interrupted(self: Image.Image, file: Path, **_: object) -> None:
        Path(file).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(Image.Image, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_png(Image.new("RGB", (8, 8)), path)
    assert path.read_bytes() == b"older"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "says"), [("no/such.png", "no folder"), ("picture.jpg", r"\.png"), ("folder.png", "is a folder")]
)
def test_places_that_cannot_be_written_are_refused(tmp_path: Path, name: str, says: str) -> None:
    """Red when a wrong place is noticed after the pictures are made, or with Python's own error."""
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(OptionError, match=says):
        save_png(Image.new("RGB", (8, 8)), tmp_path / name)
