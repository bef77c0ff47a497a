"""The page and the numbers of a comparison, from pictures made by hand."""

from __future__ import annotations

import base64
import io
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from PIL import Image

from teacache.report.compare import Likeness, loop_seconds
from teacache.report.compare_json import SCHEMA, to_json
from teacache.report.compare_page import page, verdict
from teacache.report.compare_totals import mean_psnr, summaries
from teacache.report.difference import difference

from .comparisons import EVIL, STEPS, case, comparison, drawn, run_of

pytestmark = pytest.mark.unit

VOID = {"meta", "link", "img", "input", "br"}


class Page(HTMLParser):
    """Reads a page strictly: every element closes in turn. Keeps elements, attributes and the text in each."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"<{tag}> has an attribute twice"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def all(self, tag: str, kind: str | None = None) -> list[dict[str, str | None]]:
        return [
            found for name, found in self.elements
            if name == tag and (kind is None or kind in str(found.get("class")).split())
        ]  # fmt: skip


@pytest.fixture(scope="module")
def text() -> str:
    return page(comparison())


@pytest.fixture(scope="module")
def read(text: str) -> Page:
    return Page(text)


def test_the_page_closes_what_it_opens_and_its_ids_are_its_own(read: Page) -> None:
    """Red when a template or a card is broken, or two prompts share an id, so that a label moves another slider."""
    ids = [found["id"] for _, found in read.elements if "id" in found]
    assert len(ids) == len(set(ids))
    assert {found["for"] for found in read.all("label") if "for" in found} <= set(ids)
    assert {found["aria-labelledby"] for _, found in read.elements if "aria-labelledby" in found} <= set(ids)


def test_the_page_names_no_address(text: str, read: Page) -> None:
    """Red when something of the page lies elsewhere: a font, a script, a style, a picture, a link."""
    assert "//" not in re.sub(r'base64,[^"]*"', '"', text)
    sources = [value for _, found in read.elements for name, value in found.items() if name in ("src", "href")]
    assert sources and all(str(value).startswith("data:") for value in sources)
    assert "url(" not in text and "@import" not in text
    policy = next(str(found["content"]) for found in read.all("meta") if "http-equiv" in found)
    assert policy.startswith("default-src 'none'; img-src data:;")


def test_what_the_user_wrote_is_text(text: str, read: Page) -> None:
    """Red when a prompt, a setting or a name of the user becomes a part of the page's code."""
    assert read.all("script") == [{}]
    assert EVIL in "".join(read.texts["h3"])
    assert any(str(found["alt"]).endswith(f"{EVIL}, seed 1") for found in read.all("img"))
    assert "threshold=<0.01" in read.texts["h4"]
    assert "the smallest change is 0.1 & more." in "".join(read.texts["p"])
    assert "plan & <carry>" in read.texts["dd"]
    assert read.texts["code"] == ["teacache compare --prompt 'a & <b>'"]
    assert text.count("$style") == 1 + 6  # the heading and six pictures


def test_every_picture_is_there_and_described(read: Page) -> None:
    """Red when a picture is shown under another's name, a difference is missing, or a reader who sees none is lost."""
    pictures, differences = read.all("img", "picture"), read.all("img", "difference")
    assert len(pictures) == 2 * (1 + 2 + 2 + 1) and len(differences) == 2 * 5
    assert all(found["alt"] and found["width"] == "96" for found in read.all("img"))
    shown = {str(found["alt"]): decoded(str(found["src"])) for found in pictures}
    assert shown["plain: red square, seed 0"] == drawn().tobytes()
    assert shown["threshold=0.2: red square, seed 0"] == drawn(3).tobytes()
    assert shown["18 steps instead: red square, seed 0"] == drawn(9).tobytes()
    labels = [str(found["aria-label"]) for found in read.all("div", "steps")]
    assert labels[0] == f"{STEPS} steps, all computed" and labels[1].startswith(f"{STEPS} steps, reused: 2, 4, 6, ")


def decoded(source: str, mode: str = "RGB") -> bytes:
    data = base64.b64decode(source.removeprefix("data:image/png;base64,"), validate=True)
    with Image.open(io.BytesIO(data)) as image:
        return image.convert(mode).tobytes()


def test_differences_are_amplified_as_the_page_says(text: str, read: Page) -> None:
    """Red when the factor in the words is not the one in the pictures."""
    found = re.search(r"difference from plain, &times;(\d+)", text)
    assert found is not None
    shown = read.all("img", "difference")[0]
    assert decoded(str(shown["src"]), "L") == difference(drawn(), drawn(1), int(found[1])).tobytes()
    assert f"{found[1]} times darkened" in str(shown["alt"])


def test_timelines_show_each_step(read: Page) -> None:
    """Red when a cell is lost or coloured by the wrong action."""
    cells = [str(found["class"]) for found in read.all("i", "cell")][2:]  # after the legend's two
    assert cells[STEPS : 2 * STEPS] == ["cell computed", "cell reused"] * (STEPS // 2)
    per_case = STEPS + 2 * STEPS + 15 + 18 + STEPS
    assert len(cells) == 2 * per_case


def test_a_setting_is_held_against_fewer_steps() -> None:
    """Red when the verdict takes the cache's side whatever the pictures say, or an idle setting counts as a win."""
    first, second, idle = summaries(comparison())
    assert (first.won, first.lost, first.cached.computed, first.cached.speedup) == (2, 0, 15, 2.0)
    assert "computed 15 of 30 steps: nearer to the plain picture than 15 steps in 2 of 2 pictures (+" in verdict(first)
    assert second.cached.likeness is not None and second.cached.likeness.ssim < 1
    assert idle.fewer is None and (idle.won, idle.lost) == (0, 0)
    assert "threshold=&lt;0.01" in verdict(idle) and "reused no step" in verdict(idle)


def test_a_setting_that_loses_is_said_to_lose() -> None:
    """Red when only wins are told."""
    made = comparison("red square")
    trial = made.cases[0].trials[0]
    assert trial.fewer is not None and trial.fewer.likeness is not None
    better = replace(trial.fewer, likeness=Likeness(ssim=1.0, psnr=math.inf))
    turned = replace(made, cases=(replace(made.cases[0], trials=(replace(trial, fewer=better),)),))
    (summary,) = summaries(turned)
    assert (summary.won, summary.lost) == (0, 1)
    assert "in 0 of 1 picture, further away in 1." in verdict(summary)


def test_totals_are_of_the_errors() -> None:
    """Red when decibels are averaged, or time is compared with other pictures' plain ones."""
    assert mean_psnr([50.0, 30.0]) == pytest.approx(-10 * math.log10((1e-5 + 1e-3) / 2))
    assert mean_psnr([math.inf, math.inf]) == math.inf
    total = next(summaries(comparison())).cached
    assert total.time_ratio == pytest.approx(2.0) and total.seconds == pytest.approx(3.0)


def test_a_hiccup_is_no_part_of_the_time() -> None:
    """Red when one slow step of a busy machine makes a setting look slow, or reused steps are timed as computed."""
    run = run_of("#.#..#")
    assert loop_seconds(run, [5.0, 5.1, 6.1, 6.2, 6.4, 7.4]) == pytest.approx(3 * 1.0 + 3 * 0.1)
    slow = [5.0, 5.1, 6.1, 6.2, 36.2, 37.2]
    assert loop_seconds(run, slow) == pytest.approx(3 * 1.0 + 3 * 0.1)
    assert loop_seconds(run_of("#"), [5.0]) == run_of("#").seconds


def test_numbers_survive_as_strict_json() -> None:
    """Red when equal pictures or a broken signal write Infinity or NaN, which few readers take, or a field goes."""
    made = comparison()
    broken = replace(run_of("#.").records[1], signal_change=math.nan)
    plain = replace(made.cases[0].plain, run=replace(made.cases[0].plain.run, records=(broken,)))
    made = replace(made, cases=(replace(made.cases[0], plain=plain), *made.cases[1:]))

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    data = json.loads(to_json(made), parse_constant=refuse)
    assert data["schema"] == SCHEMA == 1
    assert json.loads(json.dumps(data)) == data
    first, idle = data["cases"][1]["trials"][0], data["cases"][1]["trials"][2]
    assert data["cases"][1]["prompt"] == EVIL
    assert first["cached"]["timeline"] == "#." * 15 and len(first["cached"]["run"]["records"]) == STEPS
    assert first["cached"]["psnr"] < 60 and first["cached"]["equal"] is False and first["cached"]["seconds"] == 2.0
    assert first["fewer_steps"]["run"]["computed"] == 15
    assert (idle["cached"]["psnr"], idle["cached"]["equal"], idle["fewer_steps"]) == (None, True, None)
    assert data["cases"][0]["plain"]["run"]["records"][0]["signal_change"] is None
    assert [one["won"] for one in data["settings"]] == [2, 2, 0]


def test_long_runs_have_no_gaps() -> None:
    """Red when the timeline of a long run is wider than its card: 100 gaps of 2 pixels would be."""
    made = comparison("red square")
    plain = replace(made.cases[0].plain, run=run_of("#" * 100))
    text = page(replace(made, cases=(replace(case("red square", 0), plain=plain),)))
    assert text.count('class="steps many"') == 1
