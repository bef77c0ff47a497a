"""Measures a toy and turns what was measured into its calibration. Imported by `teacache toy fit` when it runs."""

from __future__ import annotations

import datetime
import os
import platform
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

from teacache import Handle, wrap
from teacache.adapter import Adapter
from teacache.calibration import (
    BODY_OUTPUT_CHANGE,
    Calibration,
    ChangeCurve,
    GateNumbers,
    Recipe,
    SignalSource,
)
from teacache.calibration.record import Case, candidate_thresholds, choose, record, sweep, sweep_evidence
from teacache.cli.toys import load_toy
from teacache.errors import NoCalibrationWarning, OptionError
from teacache.plugins import adapters, get_adapter
from teacache.report.quality import psnr, ssim
from teacache.testing.toys import scenes

if TYPE_CHECKING:
    from PIL.Image import Image

    from teacache.calibration.record import SweepPoint

SIZE = 128
HELD_OUT_SEED = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is measured, and what is asked of the threshold.

    Attributes:
        prompts: scenes to record.
        held_out: other scenes, to choose the threshold on.
        steps: of each picture.
        guidance: strength of guidance.
        floor: lowest mean SSIM over the held-out scenes.
    """

    prompts: int
    held_out: int
    steps: int
    guidance: float
    floor: float

    def cases(self) -> tuple[list[Case], list[Case]]:
        """Returns the cases to record and the held-out ones: random scenes, the same at every call, none twice."""
        rng = np.random.default_rng(0)
        texts: dict[str, None] = {}
        while len(texts) < self.prompts + self.held_out:
            texts[scenes.random_scene(rng).prompt] = None
        drawn = list(texts)
        recorded = [Case(text, seed) for seed, text in enumerate(drawn[: self.prompts])]
        return recorded, [Case(text, HELD_OUT_SEED + seed) for seed, text in enumerate(drawn[self.prompts :])]


def calibration_file(family: str) -> Path:
    """Returns where the family's adapter keeps the calibration of its toy.

    Raises:
        OptionError: the adapter has no calibrations, or they are not plain files.
    """
    package, _, folder = (get_adapter(family).calibrations or "").partition(":")
    place = files(package) / folder if folder else None
    if not isinstance(place, Path) or not place.is_dir():
        raise OptionError(f"The adapter {family!r} keeps no calibration files that can be written. Give --out FILE.")
    return place / f"toy-{family}.toml"


def measure(
    family: str, settings: Settings, *, advance: Callable[[str], None], say: Callable[[str], None]
) -> Calibration:
    """Records a toy, fits its numbers, sweeps thresholds and returns the calibration with all of it as evidence.

    Args:
        family: whose toy.
        settings: what is measured.
        advance: told after each picture what the next is for.
        say: takes a line for each threshold.

    Raises:
        FitError: the recordings give no polynomial, or no threshold keeps the floor.
    """
    model = load_toy(family)
    doing = "recording"

    def make(case: Case) -> Image:
        made = model.generate_image(
            seed=case.seed, prompt=case.prompt, num_inference_steps=settings.steps, width=SIZE, height=SIZE,
            guidance=settings.guidance,
        )  # fmt: skip
        advance(doing)
        return made.image

    recorded, held_out = settings.cases()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoCalibrationWarning)  # there are none yet: that is what this is for
        shadow = wrap(model, mode="shadow")
    with shadow as handle:
        recording = record(make, recorded, handle)
        adapter, checkpoint = handle.adapter, str(handle.identity.checkpoint)
    polynomial = recording.polynomial()
    doing = "trying thresholds"

    def wrap_at(threshold: float) -> AbstractContextManager[Handle]:
        return wrap(model, threshold=threshold, coefficients=polynomial.coefficients)

    def tell(point: SweepPoint) -> None:
        say(
            f"threshold {point.threshold:<6g} {point.reused:4.1f} of {settings.steps} reused, "
            f"SSIM {point.ssim:.4f} (worst {point.worst_ssim:.4f}), {point.psnr:.1f} dB"
        )

    def compare(plain: Image, wrapped: Image) -> tuple[float, float]:
        return ssim(plain, wrapped), psnr(plain, wrapped)

    points = sweep(make, held_out, candidate_thresholds(recording, polynomial), wrap_at, compare, said=tell)
    chosen = choose(points, floor=settings.floor)
    return Calibration(
        checkpoint=checkpoint,
        pipelines=(type(model).__name__,),
        status="calibrated",
        signal=SignalSource(tensor=adapter.signal.tensor, tokens=adapter.signal.tokens),
        change=BODY_OUTPUT_CHANGE,
        gate=GateNumbers(
            coefficients=polynomial.coefficients, range=polynomial.range, threshold=chosen.threshold
        ),
        recipe=Recipe(steps=settings.steps, guidance=settings.guidance, height=SIZE, width=SIZE),
        curve=ChangeCurve(
            body_change=recording.curve(), steps=recording.steps, guidance=settings.guidance, sigmas=recording.sigmas
        ),
        evidence={
            "source": f"measured: teacache toy fit {family}",
            "date": datetime.date.today().isoformat(),
            "machine": _machine(),
            "versions": _versions(adapter),
            "weights": _weights(model),
            **_cases("recorded", recorded),
            "r2": round(polynomial.r2, 4),
            "samples": polynomial.samples,
            **_cases("held_out", held_out),
            "floor": settings.floor,
            "rule": "most reused steps among the thresholds whose mean SSIM on the held-out cases is not below floor",
            **sweep_evidence(points),
        },
    )  # fmt: skip


def _cases(name: str, cases: list[Case]) -> dict[str, tuple[str | int, ...]]:
    return {
        f"{name}_prompts": tuple(case.prompt for case in cases),
        f"{name}_seeds": tuple(case.seed for case in cases),
    }


def _machine() -> str:
    device = "GPU" if mx.default_device() == mx.gpu else "CPU"
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, MLX on the {device}"


def _versions(adapter: Adapter) -> tuple[str, ...]:
    brought = [row.package for row in adapters() if row.name == adapter.name]
    return tuple(f"{package} {version(package)}" for package in ("teacache-core", *brought, adapter.host, "mlx"))


def _weights(model: Any) -> str:
    """Tells one set of weights from another: the sum of their magnitudes."""
    values: dict[str, mx.array] = dict(tree_flatten(model.transformer.parameters()))
    return f"sum of magnitudes {sum(mx.abs(value).sum().item() for value in values.values()):.2f}"
