"""Does what `teacache calibrate` says. Imported when the command runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from teacache.calibrating import Fits, Measured, fit, identity_of, key_of, made_on, measure, thresholds
from teacache.calibration import BODY_OUTPUT_CHANGE, Calibration, ChangeCurve, GateNumbers, Recipe, SignalSource
from teacache.calibration.record import Case
from teacache.cli.console import progress
from teacache.cli.lines import Lines
from teacache.cli.source import Source
from teacache.held_out import HeldOut, Quality, choose_threshold, hold_out, summed_up
from teacache.plugins import find_adapter
from teacache.ranks import Ranks
from teacache.report.quality import psnr, ssim
from teacache.store import Recording

if TYPE_CHECKING:
    from PIL.Image import Image

SPEEDUPS = (1.5, 2.0, 3.0)
ALONE = Ranks()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a calibration comes to.

    Attributes:
        fits: the numbers.
        quality: what they are worth on the held-out prompts.
        chosen: the gate whose threshold is written; None where none is good enough.
        calibration: the calibration file.
        recording: the kernel, as `wrap` finds it.
    """

    fits: Fits
    quality: tuple[Quality, ...]
    chosen: Quality | None
    calibration: Calibration
    recording: Recording


def calibrate(
    source: Source,
    recorded: Sequence[Case],
    held_out: Sequence[Case],
    lines: Lines,
    floor: float,
    ranks: Ranks = ALONE,
) -> Result:
    """Records, fits and tries; each picture's numbers are in `lines` before the next is begun.

    Args:
        source: the model.
        recorded: the cases that are recorded.
        held_out: the cases that the numbers are tried on.
        lines: what this process has done.
        floor: lowest mean SSIM of a threshold that is written.
        ranks: the processes among which the cases are spread.
    """
    measured = _record(source, recorded, lines, ranks)
    fits = fit(measured)
    quality = _try(source, measured, fits, held_out, lines, ranks)
    chosen = choose_threshold(quality, floor=floor)
    first = measured[0]
    evidence = {"steps": source.steps, "guidance": first.guidance, "image_tokens": first.image_tokens, **made_on()}
    return Result(
        fits=fits,
        quality=tuple(quality),
        chosen=chosen,
        calibration=_calibration(source, measured, fits, chosen, _evidence(measured, held_out, fits, quality)),
        recording=Recording(key=key_of(source.model, first.guidance), kernel=fits.kernel, evidence=evidence),
    )


def _record(source: Source, cases: Sequence[Case], lines: Lines, ranks: Ranks) -> list[Measured]:
    done = [row["measured"]["seed"] for row in lines.rows if "measured" in row]
    own = ranks.share(cases)
    with progress() as bar:
        task = bar.add_task("recording", total=len(own))
        for case in own:
            bar.update(task, description=f"recording: {case.prompt}")
            if case.seed not in done:
                lines.append({"measured": asdict(measure(source.model, source.make, case, source.steps))})
            bar.advance(task)
    rows = ranks.gather([row["measured"] for row in lines.rows if "measured" in row])
    by_seed = {row["seed"]: Measured(**{name: _tuples(value) for name, value in row.items()}) for row in rows}
    return [by_seed[case.seed] for case in cases]


def _try(
    source: Source, measured: Sequence[Measured], fits: Fits, cases: Sequence[Case], lines: Lines, ranks: Ranks
) -> list[Quality]:
    def compare(one: Image, other: Image) -> tuple[float, float]:
        return ssim(one, other), psnr(one, other)

    done = [row["held_out"] for row in lines.rows if "held_out" in row]
    gates = [] if fits.polynomial is None else thresholds(measured, fits.polynomial, SPEEDUPS)
    own = ranks.share(cases)
    with progress() as bar:
        task = bar.add_task("trying", total=len(own))
        for case in own:
            bar.update(task, description=f"trying: {case.prompt}")
            if case.seed not in done:
                rows = hold_out(
                    source.model,
                    source.make,
                    case,
                    source.steps,
                    fits=fits,
                    speedups=SPEEDUPS,
                    gate_thresholds=gates,
                    compare=compare,
                )
                lines.append({"held_out": case.seed, "rows": [asdict(row) for row in rows]})
            bar.advance(task)
    tried = ranks.gather([line for line in lines.rows if "held_out" in line])
    by_seed = {line["held_out"]: line["rows"] for line in tried}
    return summed_up([HeldOut(**row) for case in cases for row in by_seed[case.seed]])


def _calibration(
    source: Source, measured: Sequence[Measured], fits: Fits, chosen: Quality | None, evidence: dict[str, Any]
) -> Calibration:
    adapter, pipeline = find_adapter(source.model)
    numbers: dict[str, Any] = {}
    if fits.polynomial is not None:
        numbers["gate"] = GateNumbers(
            coefficients=fits.polynomial.coefficients,
            range=fits.polynomial.range,
            threshold=None if chosen is None else chosen.threshold,
        )
        numbers["signal"] = SignalSource(tensor=adapter.signal.tensor, tokens=adapter.signal.tokens)
        numbers["recipe"] = Recipe(
            steps=source.steps,
            guidance=source.guidance,
            height=source.size,
            width=source.size,
            quantize=source.quantize,
        )
    return Calibration(
        checkpoint=identity_of(source.model).checkpoint or source.name,
        pipelines=(pipeline.name,),
        status="calibrated",
        change=BODY_OUTPUT_CHANGE,
        curve=ChangeCurve(
            body_change=fits.curve, steps=source.steps, guidance=source.guidance, sigmas=measured[0].sigmas[:-1]
        ),
        evidence=evidence,
        **numbers,
    )


def _evidence(
    measured: Sequence[Measured], held_out: Sequence[Case], fits: Fits, quality: Sequence[Quality]
) -> dict[str, Any]:
    """Where the numbers come from; per method and speed: computed steps, mean and worst SSIM, PSNR."""
    evidence: dict[str, Any] = {
        "source": "measured: teacache calibrate",
        **made_on(),
        "recorded_prompts": tuple(run.prompt for run in measured),
        "recorded_seeds": tuple(run.seed for run in measured),
        "held_out_prompts": tuple(case.prompt for case in held_out),
        "held_out_seeds": tuple(case.seed for case in held_out),
    }
    for name, value in (("polynomial", fits.polynomial_r2), ("curve", fits.curve_r2)):
        if value is not None:
            evidence[f"{name}_r2_left_out"] = round(value, 4)
    for row in quality:
        figures = (row.computed, row.ssim, row.worst_ssim, min(row.psnr, 999.0))
        evidence[f"{row.method.replace(' ', '_')}_{row.speedup:g}x"] = tuple(float(f"{x:.5g}") for x in figures)
    return evidence


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
