"""How times become verdicts, and how pictures are drawn in lockstep. Nothing here looks at a real time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from teacache.bench.blocks import with_block
from teacache.bench.lockstep import Drawn, Way, in_lockstep
from teacache.bench.memory import Peak
from teacache.bench.paired import Estimate, decide, ratio, share
from teacache.bench.peers import Comparison, Exactness, applied
from teacache.bench.peers_page import PeersReport, peers_numbers, peers_tables
from teacache.bench.speed import rounds
from teacache.bench.speed_page import tables
from teacache.bench.speed_report import Report, claims, numbers
from teacache.bench.speed_rows import Row, figures
from teacache.errors import MissingDependencyError, OptionError

pytestmark = pytest.mark.unit


def estimate(low: float, value: float, high: float) -> Estimate:
    return Estimate(value=value, low=low, high=high, pairs=9)


def test_a_common_drift_falls_out_of_paired_ratios() -> None:
    """Red when the ratio is taken of two medians, or the pairs are mixed: the machine's drift would be the result."""
    drift = np.geomspace(1, 30, 40)
    found = ratio(0.5 * drift, drift)
    assert (found.value, found.low, found.high, found.pairs) == pytest.approx((0.5, 0.5, 0.5, 40))
    above = share(drift + 0.02, drift, np.full(12, 2.0))
    assert (above.value, above.low, above.high) == pytest.approx((0.01, 0.01, 0.01))


def test_the_interval_holds_the_median_most_of_the_time() -> None:
    """Red when the interval is that of a mean of few, or far too narrow: noise would be called a result."""
    rng = np.random.default_rng(3)
    found = [ratio(np.exp(rng.normal(0, 0.2, 30)), np.ones(30)) for _ in range(60)]
    assert sum(one.low <= 1 <= one.high for one in found) >= 50
    assert all(one.low < one.value < one.high for one in found)


@pytest.mark.parametrize(
    ("ends", "at_most", "verdict"),
    [
        ((0.001, 0.005), True, "met"),
        ((0.001, 0.03), True, "undecided"),
        ((0.021, 0.03), True, "missed"),
        ((0.03, 0.04), False, "met"),
        ((0.001, 0.03), False, "undecided"),
        ((0.001, 0.01), False, "missed"),
    ],
)
def test_a_target_is_met_by_the_whole_interval(ends: tuple[float, float], at_most: bool, verdict: str) -> None:
    """Red when a median alone decides, or the two directions are mixed up."""
    assert decide(estimate(ends[0], sum(ends) / 2, ends[1]), 0.02, at_most=at_most) == verdict


def test_a_contradicted_measurement_is_undecided() -> None:
    """Red when the quieter way to measure is believed against pairs that say the opposite."""
    quiet = estimate(0.001, 0.002, 0.003)
    assert decide(quiet, 0.02, at_most=True, direct=estimate(0.0, 0.05, 0.1)) == "met"
    assert decide(quiet, 0.02, at_most=True, direct=estimate(0.03, 0.05, 0.1)) == "undecided"


class Pipeline:
    """A pipeline of mflux's shape, whose steps note who took them."""

    def __init__(self, log: list[Any]) -> None:
        self.callbacks = Registry()
        self.transformer = SimpleNamespace()
        self.log = log

    def generate_image(self, steps: int, fail_at: int | None = None) -> int:
        clock = self.callbacks.registered[0]
        clock.call_before_loop()
        for step in range(steps):
            if step == fail_at:
                raise ValueError("planted")
            self.log.append(threading.get_ident())
            clock.call_in_loop(step, mx.array([float(step)]))
        return steps


class Registry:
    def __init__(self) -> None:
        self.registered: list[Any] = []

    def register(self, callback: Any) -> None:
        self.registered.append(callback)


def test_each_takes_one_step_in_a_round() -> None:
    """Red when a picture runs ahead of another, or the order is always the same: drift would favour one of them."""
    log: list[int] = []
    ways = [Way(name=name) for name in ("a", "b", "c")]
    drawn = in_lockstep(ways, Pipeline(log), lambda model: model.generate_image(12), steps=12)
    in_rounds = [tuple(log[start : start + 3]) for start in range(0, 36, 3)]
    assert all(len(set(taken)) == 3 for taken in in_rounds) and len(set(in_rounds)) > 2
    assert all(len(one.wall) == len(one.cpu) == 12 and one.picture == 12 for one in drawn.values())
    assert drawn["a"].latents.tolist() == [11.0]


def test_one_that_fails_ends_all_and_its_error_comes_out() -> None:
    """Red when the others wait for a turn that never comes, or the reason is lost."""
    before = threading.active_count()

    @contextmanager
    def wrapped(model: Any) -> Iterator[None]:
        model.fails = True
        yield

    def draw(model: Any) -> int:
        return model.generate_image(6, fail_at=3 if hasattr(model, "fails") else None)

    with pytest.raises(ValueError, match="planted"):
        in_lockstep([Way(name="plain"), Way(name="bad", wrap=wrapped)], Pipeline([]), draw, steps=6)
    assert threading.active_count() == before


def drawn(times: float, actions: str, cheap: float = 0.0) -> Drawn:
    wall = np.array([cheap if action == "r" else times for action in actions])
    named = tuple("reuse" if action == "r" else "compute" for action in actions)
    return Drawn(wall=wall, cpu=wall.copy(), actions=named)


def measured(floor: float | None = None) -> list[Row]:
    """A plain step of 1, on the short model of 0.2; the gate adds 0.01; a reused step costs 0.02, a carried 0.001."""
    steps = "cccc" + "cr" * 8
    plain = {"plain": drawn(1, "c" * 20)}
    deep = plain | {"gate": drawn(1.01, steps, 0.02), "linear": drawn(1.01, steps, 0.02)}
    deep |= {"plan": drawn(1, steps, 0.001)}
    computing = plain | {"plan of all": drawn(1, "c" * 20), "gate, never": drawn(1.01, "c" * 20)}
    short = {name: drawn(0.2, "c" * 20) for name in ("plain", "off", "plan of all")}
    return figures("fish", deep, computing, short | {"gate, never": drawn(0.21, "c" * 20)}, floor=floor)


def test_figures_are_those_of_the_parts() -> None:
    """Red when a share is taken of the short model, warm-up is counted, or the ideal leaves out what reuse costs."""
    found = {(row.unit, row.figure): row for row in measured()}
    never = found["overhead", "gate, never"]
    assert (never.wall.value, never.direct and never.direct.value) == (pytest.approx(0.01), pytest.approx(0.01))
    assert found["cost", "gate"].wall.value == pytest.approx(0.02) and found["cost", "gate"].verdict == "met"
    speedup = found["speedup", "gate"]
    assert (speedup.reused, speedup.steps, speedup.ideal) == (8, 16, 2.0)
    assert speedup.wall.value == pytest.approx(2 / 1.03) and speedup.bound == pytest.approx(2 / 1.02)
    assert speedup.kept is not None and speedup.kept.value == pytest.approx(1.02 / 1.03)
    assert {row.verdict for row in found.values()} == {"met"}
    assert replace(speedup, kept=estimate(0.9, 0.93, 0.96)).verdict == "missed"


def test_what_a_reused_step_must_run_anyway_stands_in_its_target() -> None:
    """Red when a family whose signal is read behind a block is held to 2 %, or its plan is let off with more."""
    found = {row.figure: row for row in measured(floor=0.2) if row.unit == "cost"}
    assert (found["gate"].floor, found["gate"].target) == (pytest.approx(0.2), pytest.approx(0.22))
    assert (found["plan"].floor, found["plan"].target) == (None, 0.005)


def test_rounds_fit_the_time_and_are_even() -> None:
    """Red when a benchmark runs for hours on a slow machine, or a stretch is cut in two."""
    assert (rounds(10, 0.1, 4), rounds(1, 5, 4), rounds(1e9, 1e-3, 1)) == (24, 12, 400)


def report() -> Report:
    second = estimate(0.001, 0.002, 0.003)
    peak = Peak(model="fish", way="gate, reuse", extra=2**21, stated=2**20, why="one of each")
    return Report(
        made_with="nothing", date="2026-01-01", settings={"runs": 9}, rows=measured(), scaling=[], compiled=[],
        compiled_off={}, peaks=[peak], growth={"fish": 0}, wrapping={"fish": second}, importing=second,
        import_is_light=True,
    )  # fmt: skip


def test_every_target_is_a_claim_with_its_status() -> None:
    """Red when a figure that misses its target is left out of the page, of the JSON or of the claims."""
    found = list(claims(report()))
    assert len(found) == 9 + 1 + 2
    assert [claim["status"] for claim in found if "peak memory" in claim["what"]] == ["missed"]
    assert numbers(report())["claims"] == found and set(found[0]) == {"what", "figure", "on", "measured", "status"}
    text = tables(report())
    assert "| fish | gate, reuse | 2.00 MiB | 1.00 MiB | one of each | missed |" in text
    assert "| fish | gate, residual reused | 8 of 16 |" in text


def test_only_the_place_between_the_marks_changes() -> None:
    """Red when hand-written text is lost, or figures of one device stand in the place of another's."""
    page = "a\n<!-- begin cpu -->\nold\n<!-- end cpu -->\nb\n<!-- begin metal -->\nkept\n<!-- end metal -->\nc\n"
    filled = with_block(page, "cpu", r"new \1")
    assert filled == page.replace("old", r"new \1")
    assert with_block(filled, "cpu", "old") == page
    with pytest.raises(OptionError, match="begin rocm"):
        with_block(page, "rocm", "x")


def test_the_peers_page_says_who_was_slower() -> None:
    """Red when a comparison that is lost does not show, or a picture that differs counts as equal."""
    one = estimate(0.9, 1.1, 1.2)
    row = Comparison(model="fish", figure="speedup", ours=one, theirs=one, between=one, verdict="undecided")
    text = PeersReport(
        made_with="x", date="2026-01-01", settings={}, comparisons=[row],
        exactness=[Exactness(model="fish", ours=0.0, theirs=1e-3)], memory=[("fish", 0, 1024)],
        wrapping=[("fish", 1.0, 2.0)], pictures=[],
    )  # fmt: skip
    assert "| fish | equal | 1.0e-03 |" in peers_tables(text) and "undecided |" in peers_tables(text)
    assert [claim["status"] for claim in peers_numbers(text)["claims"]] == ["undecided", "met"]


def test_a_missing_peer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when the command ends in an ImportError where nobody installed what it compares with."""
    monkeypatch.setitem(__import__("sys").modules, "mlx_teacache", None)
    with pytest.raises(MissingDependencyError, match="nox -s peers"):
        applied()
