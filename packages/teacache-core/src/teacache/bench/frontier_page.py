"""From the rows of the frontier benchmark to its page, its numbers and its plot. Imports neither mlx nor mflux."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from teacache.bench.rows import (
    EVEN_AB2,
    FEWER,
    FINE,
    GATE,
    GATE_LINEAR,
    MEANCACHE,
    METHODS,
    OWN_PLAN,
    PLAIN,
    PLAN,
    PLAN_AB2,
    PUBLISHED_STEPS,
    STEP_CACHE,
    UNIFORM,
    Row,
    Settings,
)

if TYPE_CHECKING:
    from PIL.Image import Image

WANTED = ((2.0, 6.0), (3.0, 4.0))
"""(speed, gain over fewer steps in dB) that the plan has to reach, with `SHARE` of the pairs better."""

SHARE = 0.9

MEANING = {
    PLAN: "steps and coefficients planned from the kernel of one other prompt; velocity carried over the rest",
    GATE: "TeaCache's gate; on reused steps the residual of the last computed one. Its threshold is chosen per picture "
    "so that its count matches, its polynomial fitted on {polynomial_prompts} other prompts",
    GATE_LINEAR: "the same gate; residuals on the line in sigma through the last two computed ones",
    STEP_CACHE: "mflux's StepCache: the steps whose sigma lies nearest to the one before are left out, plain reuse of "
    "the velocity",
    UNIFORM: "evenly spaced steps with MeanCache's correction, window 2",
    FEWER: "the pipeline at fewer steps, with its own schedule",
    EVEN_AB2: "a second-order multistep solver (Adams-Bashforth 2) on an even subset of the steps",
    PLAN_AB2: "that solver on the plan's computed steps",
    MEANCACHE: "MeanCache's published list for 50 steps, with its correction",
}


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
            pairs = _paired(rows, settings.steps, asked, None if toy == "all" else toy)
            found.append(
                Verdict(
                    toy=toy,
                    asked=asked,
                    pairs=len(pairs),
                    wins=sum(_better(pair) for pair in pairs),
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
        pairs = _paired(rows, steps, asked, toy)
        wins = sum(map(_better, pairs))
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


def page(rows: Sequence[Row], settings: Settings, *, made_with: str, picture: str | None) -> str:
    """Returns the page of the documentation.

    Args:
        rows: all rows.
        settings: they were made under.
        made_with: machine and versions.
        picture: file name of the plot beside the page.
    """
    toys = list(dict.fromkeys(row.toy for row in rows))
    main = [summary for summary in summaries(rows) if summary.steps == settings.steps]
    lines = _head(rows, settings, made_with, picture) + _asked(rows, settings)
    for toy in toys:
        lines += ["", f"## {toy}", "", *_table([summary for summary in main if summary.toy == toy])]
    lines += _losses(rows, settings) + _other_steps(rows, settings) + _expectation(rows, settings)
    return "\n".join(lines) + "\n"


def numbers(rows: Sequence[Row], settings: Settings, *, made_with: str) -> dict[str, Any]:
    """Returns everything as plain types, for JSON."""
    return {
        "made_with": made_with,
        "settings": asdict(settings),
        "verdicts": [asdict(verdict) | {"holds": verdict.holds} for verdict in verdicts(rows, settings)],
        "transferred": transferred(rows, settings),
        "summaries": [asdict(summary) for summary in summaries(rows)],
        "rows": [asdict(row) for row in rows],
    }


def picture(rows: Sequence[Row], settings: Settings) -> Image:
    """Draws PSNR against computed steps, one panel for each toy."""
    from teacache.report.plot import Panel, plot

    panels = []
    for toy in dict.fromkeys(row.toy for row in rows):
        chosen = [s for s in summaries(rows) if (s.toy, s.steps) == (toy, settings.steps)]
        curves = {name: [(s.computed, s.psnr) for s in chosen if s.method == name] for name in METHODS}
        panels.append(Panel(toy, curves))
    return plot(panels, x=f"steps computed of {settings.steps}", y="PSNR, dB")


def _head(rows: Sequence[Row], settings: Settings, made_with: str, picture: str | None) -> list[str]:
    toys = ", ".join(dict.fromkeys(row.toy for row in rows))
    pairs = len({(row.toy, *_pair(row)) for row in rows})
    used = {row.method for row in rows}
    return [
        "# What fewer model calls cost",
        "",
        "Generated by `teacache bench frontier`; do not edit by hand.",
        "",
        f"Toys ({toys}), {pairs} pairs of prompt and seed in all, {settings.steps} steps, guidance "
        f"{settings.guidance:g}, 128 x 128. Every picture is made by the pipeline's own `generate_image`. Two "
        f"references: the plain picture of {settings.steps} steps (what the cache stands for), and a fine one of "
        f"{FINE * settings.steps} (what both try to reach). PSNR in dB is taken before the pictures are rounded to 8 "
        "bits (hardly a trace of what lies above 58 dB is left in a PNG), SSIM after it; both are means over the "
        "pairs, the worst pair behind the slash. *Wins* counts pairs closer than fewer steps, against the plain and "
        "against the fine reference. The kernel comes from one prompt, which is not among the pairs. Times are of the "
        "denoising loop, taken in one process: compare them within a table only, a toy's step is too short to say "
        "more.",
        "",
        f"Made with {made_with}.",
        "",
        *([f"![PSNR against computed steps]({picture})", ""] if picture else []),
        *(
            f"- **{name}**: {text.format(polynomial_prompts=settings.polynomial_prompts)}."
            for name, text in MEANING.items()
            if name in used
        ),
    ]


def _asked(rows: Sequence[Row], settings: Settings) -> list[str]:
    return [
        "",
        "## What is asked of the plan",
        "",
        f"At least {SHARE:.0%} of the pairs better than fewer steps against both references, a mean gain, and better "
        "than the gate at equal calls, as `wrap` has it (reuse). Beside it the gate with linear residuals.",
        "",
        "| toy | computed | pairs won | gain over fewer, dB | asked | over the gate, dB | holds | over linear, dB |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {v.toy} | {v.asked} | {v.wins} of {v.pairs} | {v.gain:+.1f} | {v.wanted:+.1f} | {v.over_gate:+.1f} | "
            f"{'yes' if v.holds else 'no'} | {v.over_linear:+.1f} |"
            for v in verdicts(rows, settings)
        ),
    ]


def _table(found: Iterable[Summary]) -> list[str]:
    lines = [
        "| asked | method | computed | PSNR | SSIM | PSNR, fine | SSIM, fine | wins | wins, fine | seconds |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for s in found:
        name = f"**{s.method}**" if s.method == PLAN else s.method
        equal = s.method == PLAIN
        wins = ("", "") if s.method in (PLAIN, FEWER) else (f"{s.wins} of {s.pairs}", f"{s.fine_wins} of {s.pairs}")
        lines.append(
            f"| {s.asked} | {name} | {s.computed:.1f} | {'equal' if equal else f'{s.psnr:.1f} / {s.worst_psnr:.1f}'} | "
            f"{s.ssim:.4f} | {s.fine_psnr:.1f} / {s.worst_fine_psnr:.1f} | {s.fine_ssim:.4f} | {wins[0]} | {wins[1]} | "
            f"{s.seconds:.2f} |"
        )
    return lines


def _losses(rows: Sequence[Row], settings: Settings) -> list[str]:
    lines = ["", "## Pairs that the plan lost", ""]
    lost: list[str] = []
    for asked in settings.counts():
        for toy in dict.fromkeys(row.toy for row in rows):
            pairs = _paired(rows, settings.steps, asked, toy)
            usual = float(np.median([pair[PLAN].grown or 0.0 for pair in pairs]))
            lost += [_loss(pair, (pair[PLAN].grown or 0.0) / usual) for pair in pairs if not _better(pair)]
    if not lost:
        return [*lines, "None: against both references every pair was better than fewer steps."]
    return [
        *lines,
        "*Own* is planned from the pair's own recording. *Grown* is how much of what the gaps leave in the latents",
        "reaches the picture, over the median of the toy's pairs at this count.",
        "",
        "| toy | prompt | seed | steps | plan | fewer | plan, fine | fewer, fine | plain, fine | own | grown | why |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
        *lost,
    ]


def _loss(pair: dict[str, Row], grown: float) -> str:
    plan, fewer, plain, own = pair[PLAN], pair[FEWER], pair[PLAIN], pair[OWN_PLAN]
    if plan.psnr > fewer.psnr and fewer.fine_psnr > plain.fine_psnr:
        why = "against the fine reference alone: fewer steps came closer to it than the plain picture itself"
    elif plan.psnr > fewer.psnr:
        why = "against the fine reference alone"
    elif grown > 2:
        why = "this picture magnifies what goes wrong under way: a small error, made where a shape is decided, grows"
    elif own.psnr > fewer.psnr:
        why = "this prompt's velocities turn elsewhere than the recorded one's: planned from its own recording it wins"
    else:
        why = "planned from its own recording it does not win either"
    figures = (plan.psnr, fewer.psnr, plan.fine_psnr, fewer.fine_psnr, plain.fine_psnr, own.psnr)
    return (
        f"| {plan.toy} | {plan.prompt} | {plan.seed} | {plan.asked} | "
        f"{' | '.join(f'{figure:.1f}' for figure in figures)} | {grown:.1f} | {why} |"
    )


def _other_steps(rows: Sequence[Row], settings: Settings) -> list[str]:
    found = [summary for summary in summaries(rows) if summary.steps != settings.steps]
    if not found:
        return []
    lines = [
        "",
        "## Other step counts",
        "",
        f"The kernel recorded at {settings.steps} steps, interpolated in sigma, plans other step counts; the plain "
        f"picture is that of as many steps. MeanCache's lists are for {PUBLISHED_STEPS} steps of Qwen-Image and "
        "Z-Image; here they run on toys, whose schedules are not theirs.",
        "",
        "| toy | steps | computed | pairs won | gain over fewer, dB | holds |",
        "|---|---|---|---|---|---|",
        *(
            f"| {t['toy']} | {t['steps']} | {t['asked']} | {t['wins']} of {t['pairs']} | {t['gain']:+.1f} | "
            f"{'yes' if t['holds'] else 'no'} |"
            for t in transferred(rows, settings)
        ),
    ]
    for toy in dict.fromkeys(summary.toy for summary in found):
        for steps in dict.fromkeys(summary.steps for summary in found):
            lines += ["", f"### {toy}, {steps} steps", ""]
            lines += _table([s for s in found if (s.toy, s.steps) == (toy, steps)])
    return lines


def _expectation(rows: Sequence[Row], settings: Settings) -> list[str]:
    planned = [
        row
        for row in rows
        if row.method == PLAN and row.steps == settings.steps and row.expected_error and row.psnr < 99
    ]
    if len(planned) < 3:
        return []
    expected = -20 * np.log10([row.expected_error for row in planned if row.expected_error])
    measured = np.array([row.psnr for row in planned])
    between = float(np.corrcoef(expected, measured)[0, 1])
    left = measured - np.polyval(np.polyfit(expected, measured, 1), expected)
    return [
        "",
        "## Does the expected error tell the picture's?",
        "",
        f"Over {len(planned)} planned pictures the expected error, in dB, correlates with the measured PSNR at "
        f"{between:.2f}; around a straight line the PSNR still spreads by {float(np.std(left)):.1f} dB (one standard "
        "deviation), most of it from prompt to prompt, which a recording of another prompt cannot know.",
    ]


def _paired(rows: Sequence[Row], steps: int, asked: int, toy: str | None) -> list[dict[str, Row]]:
    """The rows of each pair at one count by method, its plain picture too."""
    found: dict[tuple[str, str, int], dict[str, Row]] = {}
    for row in rows:
        if row.steps == steps and (row.asked == asked or row.method == PLAIN) and toy in (None, row.toy):
            found.setdefault((row.toy, *_pair(row)), {})[row.method] = row
    return list(found.values())


def _better(pair: dict[str, Row]) -> bool:
    plan, fewer = pair[PLAN], pair[FEWER]
    return plan.psnr > fewer.psnr and plan.fine_psnr > fewer.fine_psnr


def _of(rows: Sequence[Row], toy: str, steps: int, asked: int, method: str) -> list[Row]:
    return [row for row in rows if (row.toy, row.steps, row.asked, row.method) == (toy, steps, asked, method)]


def _pair(row: Row) -> tuple[str, int]:
    return row.prompt, row.seed


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
