"""What prompts and notebooks show of stats, handles and adapters."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

import teacache
from teacache.adapter import Adapter, Body, Pipeline, Signal
from teacache.discovery import InstalledAdapter, InstalledAdapters
from teacache.stats import RunStats, Stats, StepRecord
from teacache.testing.denoiser import ADAPTER, Denoiser

pytestmark = pytest.mark.unit

FISH = Adapter(
    name="fish",
    contract=1,
    transformer="fish:Fish",
    pipelines=(Pipeline(cls="fish:FishPipeline"), Pipeline(cls="fish:FishEdit")),
    body=Body(blocks=("blocks",)),
    signal=Signal(read=lambda call: call["x"], tensor="x"),
)
INSTALLED = InstalledAdapters(
    (
        InstalledAdapter("fish", "teacache-fish", "2.1", "working", adapter=FISH),
        InstalledAdapter("bird", "teacache-bird", "0.3", "broken", error=ImportError("no <b>wings</b>")),
    )
)


class Reader(HTMLParser):
    """Counts tags, keeps texts and titles, and refuses what does not close."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.counts: dict[str, int] = {}
        self.texts: list[str] = []
        self.titles: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.titles += [value or "" for name, value in attrs if name == "title"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def run_of(timeline: str, policy: str = "given plan") -> RunStats:
    records = tuple(
        StepRecord(
            step=k,
            sigma=1.0,
            action="reuse" if one == "." else "compute",
            planned="compute",
            reason='<"plan">',
        )
        for k, one in enumerate(timeline)
    )
    return RunStats(records=records, seconds=1.0, policy=policy, why_nothing=None if "." in timeline else "a <reason>")


def test_a_run_has_one_cell_for_each_step() -> None:
    """Red when steps are left out, the actions are swapped, or a reason is read as HTML."""
    shown = Reader(run_of("#..#")._repr_html_())
    assert shown.counts["span"] == 4
    assert [title.split(":")[1].split()[0] for title in shown.titles] == ["compute", "reuse", "reuse", "compute"]
    assert all('<"plan">' in title for title in shown.titles)
    assert "2 of 4 steps reused, 2.0x estimated" in "".join(shown.texts)
    assert "a <reason>" in "".join(Reader(run_of("##")._repr_html_()).texts)


def test_the_last_run_comes_first() -> None:
    """Red when a notebook shows another run than `print(handle)`, or an empty one breaks it."""
    stats = Stats(runs=[run_of("##", "one"), run_of("#.", "two")])
    shown = "".join(Reader(stats._repr_html_()).texts)
    assert shown.index("two") < shown.index("a <reason>")
    assert "no run" in Stats()._repr_html_()


@pytest.mark.parametrize("thing", [run_of("#.#"), Stats(runs=[run_of("#.#")] * 3), Stats()])
def test_prompts_show_one_short_line(thing: object) -> None:
    """Red when a prompt prints every step of every run."""
    assert "\n" not in repr(thing) and len(repr(thing)) < 120


def test_a_handle_shows_its_model_and_its_runs() -> None:
    """Red when a notebook shows the handle's address only, or its checkpoint's name is read as HTML."""
    with teacache.wrap(Denoiser(), adapter=ADAPTER, threshold=0.0) as handle:
        handle.stats.runs.append(run_of("#.#"))
        texts = "".join(Reader(handle._repr_html_()).texts)
    assert "<teacache.Handle" in texts and "1 of 3 steps reused" in texts


def test_adapters_print_as_a_table() -> None:
    """Red when `print(teacache.adapters())` is a wall of descriptions, or a broken one's reason is lost."""
    assert str(INSTALLED).splitlines() == [
        "adapter  package            status                                pipelines",
        "fish     teacache-fish 2.1  working                               FishPipeline, FishEdit",
        "bird     teacache-bird 0.3  broken: ImportError: no <b>wings</b>",
    ]
    assert repr(INSTALLED[0]) == "<InstalledAdapter fish of teacache-fish 2.1: working>"
    assert isinstance(INSTALLED, tuple) and INSTALLED[0].adapter is FISH
    shown = Reader(INSTALLED._repr_html_())
    assert shown.counts["tr"] == 3 and "broken: ImportError: no <b>wings</b>" in shown.texts
    assert str(InstalledAdapters()) == "no adapter is installed"
