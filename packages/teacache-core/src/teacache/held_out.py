"""What a model's numbers are worth on prompts that were not recorded. Must not import mflux.

The caller brings the model and makes its pictures.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from teacache.calibrating import Fits, Make
from teacache.calibration.record import Case
from teacache.gated import GatedRun
from teacache.plugins import find_adapter
from teacache.policies import Gate
from teacache.policies.kernel import Kernel
from teacache.policies.plan import plan_from_kernel
from teacache.run import Run, RunInfo
from teacache.steering import MakeRun, steered, target_tokens
from teacache.velocity import VelocityRun

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """One picture of a prompt that was not recorded, compared with its plain one.

    Attributes:
        method: "plan", "gate" or "fewer steps".
        speedup: steps over computed steps, as asked for.
        threshold: of the gate.
        computed: steps on which the model ran.
        ssim: structural similarity.
        error: mean squared error, of values from 0 to 1.
    """

    method: str
    speedup: float
    threshold: float | None
    computed: int
    ssim: float
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """One method at one speed, over all held-out prompts."""

    method: str
    speedup: float
    threshold: float | None
    computed: float
    ssim: float
    worst_ssim: float
    psnr: float


def hold_out(
    model: Any,
    make: Make,
    case: Case,
    steps: int,
    *,
    fits: Fits,
    speedups: Sequence[float],
    gate_thresholds: Sequence[float],
    compare: Callable[[Image, Image], tuple[float, float]],
) -> list[HeldOut]:
    """Makes one prompt's pictures plain, planned, gated and with fewer steps, and compares them with the plain one.

    Args:
        model: the pipeline that `make` uses, not wrapped.
        make: makes a picture.
        case: a prompt that was not recorded.
        steps: of the plain picture.
        fits: what is tried.
        speedups: steps over computed steps.
        gate_thresholds: one for each speed; none where there is no polynomial.
        compare: returns the SSIM and the PSNR in dB of two pictures.
    """
    adapter, _ = find_adapter(model)
    plain = make(case, steps)
    rows: list[HeldOut] = []

    def compared(method: str, speedup: float, count: int, run: MakeRun, threshold: float | None = None) -> None:
        with steered(model, run) as session:
            picture = make(case, count)
        ssim, psnr = compare(plain, picture)
        rows.append(
            HeldOut(
                method=method,
                speedup=speedup,
                threshold=threshold,
                computed=session.stats.runs[-1].computed,
                ssim=ssim,
                error=10 ** (-psnr / 10),
            )
        )

    def gated(info: RunInfo, threshold: float) -> Run:
        assert fits.polynomial is not None  # noqa: S101 - there are no thresholds without
        numbers: dict[str, Any] = {
            "coefficients": fits.polynomial.coefficients,
            "calibrated_range": fits.polynomial.range,
        }
        return GatedRun(
            info, target=target_tokens(adapter, info), policy=Gate(info.steps, threshold=threshold, **numbers)
        )

    for number, speedup in enumerate(speedups):
        count = math.floor(steps / speedup)
        compared("plan", speedup, steps, functools.partial(planned, kernel=fits.kernel, computed_steps=count))
        if gate_thresholds:
            threshold = gate_thresholds[number]
            compared("gate", speedup, steps, functools.partial(gated, threshold=threshold), threshold)
        compared("fewer steps", speedup, count, lambda info: VelocityRun(info, reason="off"))
    return rows


def planned(info: RunInfo, *, kernel: Kernel, computed_steps: int) -> Run:
    """Returns a run that is planned from a kernel."""
    sigmas = info.active_sigmas
    return VelocityRun(info, plan=plan_from_kernel(kernel.at(sigmas[:-1]), sigmas, computed_steps=computed_steps))


def summed_up(rows: Sequence[HeldOut]) -> list[Quality]:
    """Returns each method at each speed over all prompts; the PSNR is of the mean error."""
    keys = dict.fromkeys((row.speedup, row.method) for row in rows)
    found = []
    for speedup, method in sorted(keys, key=lambda key: key[0]):
        chosen = [row for row in rows if (row.speedup, row.method) == (speedup, method)]
        error = float(np.mean([row.error for row in chosen]))
        found.append(
            Quality(
                method=method,
                speedup=speedup,
                threshold=chosen[0].threshold,
                computed=float(np.mean([row.computed for row in chosen])),
                ssim=float(np.mean([row.ssim for row in chosen])),
                worst_ssim=min(row.ssim for row in chosen),
                psnr=-10 * math.log10(error) if error else math.inf,
            )
        )
    return found


def not_worth(quality: Sequence[Quality]) -> list[Quality]:
    """Returns what is no better than taking fewer steps at the same speed."""
    fewer = {row.speedup: row for row in quality if row.method == "fewer steps"}
    return [row for row in quality if row.method != "fewer steps" and row.psnr <= fewer[row.speedup].psnr]


def choose_threshold(quality: Sequence[Quality], *, floor: float) -> Quality | None:
    """Returns the gate that computes least, of those that keep the floor and are better than fewer steps."""
    poor = not_worth(quality)
    fitting = [row for row in quality if row.method == "gate" and row.ssim >= floor and row not in poor]
    return min(fitting, key=lambda row: row.computed, default=None)
