"""From the rows of the frontier benchmark to means and verdicts. Imports numpy only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from teacache.bench.rows import FEWER, GATE, GATE_LINEAR, OWN_PLAN, PLAIN, PLAN, Row, Settings

WANTED = ((2.0, 6.0), (3.0, 4.0))
"""(speed, gain over fewer steps in dB) that the plan has to reach, with `SHARE` of the pairs better."""

SHARE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One method at one count on one toy: means over the pairs, and the worst of them."""

    toy: str
    steps: int
    asked: int
    method: str
    pairs: int
    computed: float
    seconds: float
    psnr: float
    worst_psnr: float
    ssim: float
    fine_psnr: float
    worst_fine_psnr: float
    fine_ssim: float
    wins: int
    fine_wins: int
    expected_error: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether the plan reaches what is asked of it at one speed.

    Attributes:
        toy: the toy, or "all".
        asked: computed steps.
        pairs: of prompt and seed.
        wins: pairs better than fewer steps against both references.
        gain: dB over fewer steps against the plain picture, mean.
        wanted: the gain that is asked for.
        over_gate: dB over the gate as `wrap` has it (reuse) against the plain picture, mean.
        over_linear: dB over the gate with linear residuals.
    """

    toy: str
    asked: int
    pairs: int
    wins: int
    gain: float
    wanted: float
    over_gate: float
    over_linear: float

    @property
    def holds(self) -> bool:
        """Share, gain, and better than the gate as `wrap` has it."""
        return self.wins >= SHARE * self.pairs and self.gain >= self.wanted and self.over_gate > 0


def summaries(rows: Sequence[Row]) -> list[Summary]:
    """Sums up every toy, step count, number of computed steps and method, in the order of the rows."""
    keys = dict.fromkeys((row.toy, row.steps, row.asked, row.method) for row in rows if row.method != OWN_PLAN)
    found = []
    for toy, steps, asked, method in keys:
        chosen = _of(rows, toy, steps, asked, method)
        fewer = {_pair(row): row for row in _of(rows, toy, steps, asked, FEWER)}
        against = [(row, fewer[_pair(row)]) for row in chosen if _pair(row) in fewer]
        errors = [row.expected_error for row in chosen if row.expected_error is not None]
        found.append(
            Summary(
                toy=toy,
                steps=steps,
                asked=asked,
                method=method,
                pairs=len(chosen),
                computed=_mean(row.computed for row in chosen),
                seconds=_mean(row.seconds for row in chosen),
                psnr=_mean(row.psnr for row in chosen),
                worst_psnr=min(row.psnr for row in chosen),
                ssim=_mean(row.ssim for row in chosen),
                fine_psnr=_mean(row.fine_psnr for row in chosen),
                worst_fine_psnr=min(row.fine_psnr for row in chosen),
                fine_ssim=_mean(row.fine_ssim for row in chosen),
                wins=sum(row.psnr > other.psnr for row, other in against),
                fine_wins=sum(row.fine_psnr > other.fine_psnr for row, other in against),
                expected_error=_mean(errors) if errors else None,
            )
        )
    return found


def verdicts(rows: Sequence[Row], settings: Settings) -> list[Verdict]:
    """Holds the plan to what is asked of it, on each toy and on all together."""
    found = []
    toys = list(dict.fromkeys(row.toy for row in rows))
    for speed, wanted in WANTED:
        if speed not in settings.speeds:
            continue
        asked = settings.counts()[settings.speeds.index(speed)]
        for toy in [*toys, *(["all"] if len(toys) > 1 else [])]:
            pairs = paired(rows, settings.steps, asked, None if toy == "all" else toy)
            found.append(
                Verdict(
                    toy=toy,
                    asked=asked,
                    pairs=len(pairs),
                    wins=sum(better(pair) for pair in pairs),
                    gain=_mean(pair[PLAN].psnr - pair[FEWER].psnr for pair in pairs),
                    wanted=wanted,
                    over_gate=_mean(pair[PLAN].psnr - pair[GATE].psnr for pair in pairs),
                    over_linear=_mean(pair[PLAN].psnr - pair[GATE_LINEAR].psnr for pair in pairs),
                )
            )
    return found


def transferred(rows: Sequence[Row], settings: Settings) -> list[dict[str, Any]]:
    """Returns, for each other step count that the kernel planned, how many pairs were won against both references."""
    keys = dict.fromkeys((r.toy, r.steps, r.asked) for r in rows if r.steps != settings.steps and r.method == PLAN)
    found = []
    for toy, steps, asked in keys:
        pairs = paired(rows, steps, asked, toy)
        wins = sum(map(better, pairs))
        gain = _mean(pair[PLAN].psnr - pair[FEWER].psnr for pair in pairs)
        holds = wins >= SHARE * len(pairs)
        found.append(
            {
                "toy": toy,
                "steps": steps,
                "asked": asked,
                "pairs": len(pairs),
                "wins": wins,
                "gain": gain,
                "holds": holds,
            }
        )
    return found


def paired(rows: Sequence[Row], steps: int, asked: int, toy: str | None) -> list[dict[str, Row]]:
    """Returns the rows of each pair at one count by method, its plain picture too; `toy` None: of all toys."""
    found: dict[tuple[str, str, int], dict[str, Row]] = {}
    for row in rows:
        if row.steps == steps and (row.asked == asked or row.method == PLAIN) and toy in (None, row.toy):
            found.setdefault((row.toy, *_pair(row)), {})[row.method] = row
    return list(found.values())


def better(pair: dict[str, Row]) -> bool:
    """Tells whether the plan is nearer than fewer steps to both references."""
    plan, fewer = pair[PLAN], pair[FEWER]
    return plan.psnr > fewer.psnr and plan.fine_psnr > fewer.fine_psnr


def _of(rows: Sequence[Row], toy: str, steps: int, asked: int, method: str) -> list[Row]:
    return [row for row in rows if (row.toy, row.steps, row.asked, row.method) == (toy, steps, asked, method)]


def _pair(row: Row) -> tuple[str, int]:
    return row.prompt, row.seed


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
