"""The page of a comparison in a real browser: Chromium without a window, and without a network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from teacache.report.compare_page import page

from .chromium import Tab, browser, find_browser
from .comparisons import EVIL, comparison

pytestmark = pytest.mark.browser

CHROMIUM = find_browser()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("browser")
    (found / "page.html").write_text(page(comparison()), encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def open_tab(folder: Path) -> Iterator[Tab]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here: apt install chromium, or set CHROMIUM to its program")
    with browser(CHROMIUM, folder / "profile") as found:
        yield found


@pytest.fixture
def tab(open_tab: Tab, folder: Path) -> Tab:
    """The page, freshly opened at the width of a desktop."""
    open_tab.go(folder / "page.html")
    return open_tab


def shown(tab: Tab, selector: str) -> list[bool]:
    """Which of some elements take room on the page."""
    script = f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.getClientRects().length > 0)"
    found: list[bool] = tab.value(script)
    assert found, selector
    return found


def methods(tab: Tab, *names: str) -> list[dict[str, object]]:
    return [event["params"] for event in tab.events if event.get("method") in names]


def test_nothing_is_asked_of_a_network_and_nothing_goes_wrong(tab: Tab, folder: Path) -> None:
    """Red when the page fetches anything but itself, its own policy forbids a part of it, or its script fails."""
    tab.click("#show-differences")
    asked = [str(event["request"]["url"]) for event in methods(tab, "Network.requestWillBeSent")]  # type: ignore[index]
    assert (folder / "page.html").as_uri() in asked
    assert [url for url in asked if not url.startswith(("data:", (folder / "page.html").as_uri()))] == []
    assert methods(tab, "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded") == []
    assert tab.value("document.title") == "a <toy>: plain, with teacache, and with fewer steps"
    assert EVIL in tab.value("document.querySelectorAll('h3')[1].textContent")


def test_a_fetch_would_be_seen(tab: Tab, folder: Path) -> None:
    """Red when the test above cannot see a request or an error: this page makes both."""
    bad = folder / "bad.html"
    bad.write_text("<img src='http://elsewhere.invalid/a.png'><script>nosuch()</script>", encoding="utf-8")
    tab.go(bad)
    asked = [str(event["request"]["url"]) for event in methods(tab, "Network.requestWillBeSent")]  # type: ignore[index]
    assert "http://elsewhere.invalid/a.png" in asked
    assert methods(tab, "Runtime.exceptionThrown") != []


def test_every_picture_is_drawn(tab: Tab) -> None:
    """Red when a picture's data is broken, so that the browser shows its alternative text instead."""
    assert tab.value("[...document.images].every(image => image.complete && image.naturalWidth === 96)")
    assert all(shown(tab, "img.picture")) and not any(shown(tab, "img.difference"))


def test_differences_are_shown_in_the_place_of_pictures(tab: Tab) -> None:
    """Red when the choice between pictures and differences does nothing."""
    tab.click("#show-differences")
    assert all(shown(tab, ".trials img.difference")) and not any(shown(tab, ".trials img.picture"))
    assert all(shown(tab, ".plain img.picture"))
    tab.click("#show-pictures")
    assert all(shown(tab, "img.picture")) and not any(shown(tab, "img.difference"))


def test_a_picture_slides_over_the_plain_one(tab: Tab) -> None:
    """Red when the slider does not move the line, from the mouse and from the keyboard, or another row's moves."""
    cut = "getComputedStyle(document.querySelectorAll('.over')[{}]).clipPath"
    assert all(shown(tab, ".slider"))
    assert tab.value(cut.format(0)) == "inset(0px 0px 0px 50%)"
    x, y, width = tab.value(
        "(() => { const f = document.querySelector('.plain .frame'); f.scrollIntoView({block: 'center'}); "
        "const b = f.getBoundingClientRect(); return [b.x, b.y + b.height / 2, b.width]; })()"
    )
    tab.press(x + 0.25 * width, y)
    assert tab.value(cut.format(0)) == "inset(0px 0px 0px 25%)"
    assert tab.value("document.querySelector('.slider input').value") == "25"
    tab.value("document.querySelector('.slider input').focus()")
    tab.key("ArrowRight")
    assert tab.value(cut.format(0)) == "inset(0px 0px 0px 26%)"
    assert tab.value(cut.format(1)) == "inset(0px 0px 0px 50%)"


def test_another_picture_is_laid_over_when_its_button_is_pressed(tab: Tab) -> None:
    """Red when the button lays the wrong picture over the plain one, or the words name another than is shown."""
    over = "document.querySelector('.over').src === document.querySelectorAll('.trials img.picture')[{}].src"
    assert tab.value(over.format(0))
    tab.click(".trials figure:nth-of-type(3) button")
    assert tab.value(over.format(2))
    assert tab.value("document.querySelector('.slider .against').textContent") == "threshold=0.2"
    assert tab.value("document.querySelector('.tag.against').textContent") == "threshold=0.2"
    pressed = "[...document.querySelectorAll('.case:first-of-type button')].map(b => b.ariaPressed)"
    assert tab.value(pressed) == ["false", "false", "true", "false", "false"]


@pytest.mark.parametrize("width", [360, 800, 1400])
def test_nothing_is_wider_than_the_window(tab: Tab, folder: Path, width: int) -> None:
    """Red when the page has to be moved sideways, on a phone or elsewhere."""
    tab.go(folder / "page.html", width=width)
    assert tab.value("document.documentElement.scrollWidth") <= width


def test_phones_see_every_number(tab: Tab, folder: Path) -> None:
    """Red when a column of the result lies outside of a phone's window."""
    tab.go(folder / "page.html", width=360)
    right = (
        "Math.max(...[...document.querySelectorAll('tbody td, tbody th')].map(e => e.getBoundingClientRect().right))"
    )
    assert tab.value(right) <= 360


def test_the_dark_scheme_is_dark(tab: Tab, folder: Path) -> None:
    """Red when the page ignores the wish for a dark scheme, or its text does not follow."""
    colours = "(s => [s.backgroundColor, s.color])(getComputedStyle(document.body))"
    assert tab.value(colours) == ["rgb(255, 255, 255)", "rgb(32, 36, 44)"]
    tab.go(folder / "page.html", dark=True)
    assert tab.value(colours) == ["rgb(20, 23, 28)", "rgb(231, 234, 238)"]


def test_the_essentials_need_no_script(tab: Tab, folder: Path) -> None:
    """Red when pictures, numbers or the choice between pictures and differences need the page's script."""
    tab.go(folder / "page.html", script=False)
    tab.ask("DOM.enable")
    root = tab.ask("DOM.getDocument")["root"]["nodeId"]

    def boxes(selector: str) -> int:
        nodes = tab.ask("DOM.querySelectorAll", nodeId=root, selector=selector)["nodeIds"]
        found = [tab.ask("DOM.resolveNode", nodeId=node)["object"]["objectId"] for node in nodes]
        script = "function() { return this.getClientRects().length > 0 }"
        answers = [tab.ask("Runtime.callFunctionOn", objectId=one, functionDeclaration=script) for one in found]
        return sum(answer["result"]["value"] for answer in answers)

    assert boxes("img.picture") == 12 and boxes("img.difference") == 0
    assert boxes(".slider") == boxes("button") == boxes(".tag") == 0
    tab.press(*centre(tab, root, "#show-differences"))
    assert boxes("img.difference") == 10


def centre(tab: Tab, root: int, selector: str) -> tuple[float, float]:
    node = tab.ask("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
    tab.ask("DOM.scrollIntoViewIfNeeded", nodeId=node)
    corners = tab.ask("DOM.getBoxModel", nodeId=node)["model"]["content"]
    return (corners[0] + corners[4]) / 2, (corners[1] + corners[5]) / 2
