"""The frontier benchmark: what each way to spend fewer model calls costs in picture. Must not import mflux.

Every picture is made by the pipeline's own `generate_image`, in its own loop.
"""

from __future__ import annotations

import functools
import hashlib
import math
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from teacache.bench.controls import (
    MeanCacheRun,
    MultistepRun,
    left_in_latents,
    published_plans,
    step_cache_plan,
    uniform_plan,
)
from teacache.bench.rows import (
    EQUAL,
    EVEN_AB2,
    FEWER,
    FINE,
    GATE,
    GATE_LINEAR,
    LISTS,
    MEANCACHE,
    OWN_PLAN,
    PLAIN,
    PLAN,
    PLAN_AB2,
    PLAN_BARE,
    PUBLISHED_STEPS,
    STEP_CACHE,
    TRANSFER,
    UNIFORM,
    Case,
    Row,
    Settings,
    cases,
    lost,
)
from teacache.calibration.fit import fit_polynomial
from teacache.gated import GatedRun
from teacache.plugins import adapters, find_adapter
from teacache.policies import Gate, replay_gate
from teacache.policies.kernel import Kernel
from teacache.policies.plan import Plan, plan_from_kernel
from teacache.report.quality import ssim
from teacache.run import Run, RunInfo
from teacache.steering import MakeRun, MeasuringRun, steered, target_tokens
from teacache.testing.toys.toy import WEIGHTS, find_toy
from teacache.velocity import VelocityRun

if TYPE_CHECKING:
    from PIL.Image import Image

    from teacache.stats import RunStats

SIZE = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What was recorded of a toy before anything is compared: the plan's kernel, the gate's polynomial."""

    kernel: Kernel
    coefficients: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as the pipeline gives it out, and its values from 0 to 1 before they were rounded to 8 bits."""

    image: Image
    values: NDArray[np.float32]

    def psnr(self, other: Picture) -> float:
        """Returns the peak signal-to-noise ratio in dB, at most `EQUAL`."""
        error = float(np.mean(np.square(self.values - other.values, dtype=np.float64)))
        return min(-10 * math.log10(error), EQUAL) if error else EQUAL


class Toy:
    """A toy's pipeline under the benchmark's settings."""

    def __init__(self, family: str, model: Any, settings: Settings) -> None:
        self.family = family
        self.settings = settings
        self._model = model
        self.adapter, _ = find_adapter(model)

    def record(self, said: Callable[[str], None] = lambda doing: None) -> Numbers:
        """Records the kernel from the first case alone, and fits the gate's polynomial on all of them."""
        measured = []
        for case in cases(self.settings)[0]:
            said(f"{self.family}: recording {case.prompt}")
            measured.append(self._measured(case)[1:])
        signal, body = [run[1] for run in measured], [run[2] for run in measured]
        return Numbers(kernel=measured[0][0], coefficients=fit_polynomial(signal, body).coefficients)

    def changes(self, case: Case) -> list[float]:
        """Measures the changes of the signal in a case's plain picture."""
        return self._measured(case)[2]

    def compare(self, case: Case, numbers: Numbers, said: Callable[[str], None] = lambda doing: None) -> list[Row]:
        """Makes every picture of one case, and compares it with the plain one and the fine one."""
        steps = self.settings.steps
        said(f"{self.family}: {case.prompt}, references")
        reference, own, changes, _ = self._measured(case)
        fine, _ = self.picture(case, FINE * steps, plain_run)
        compare = functools.partial(self._row, case, reference, fine, steps)
        rows = [compare(steps, PLAIN, *self.made(case, steps, plain_run))]
        for count in self.settings.counts():
            said(f"{self.family}: {case.prompt}, {count} of {steps} steps")
            rows += [compare(count, *made) for made in self._spend(case, steps, count, numbers, own, changes)]
            if lost(rows, steps, count):
                rows.append(compare(count, OWN_PLAN, *self.planned(case, steps, count, own, own)))
        return rows + (self._transferred(case, fine, numbers, said) if self.settings.transfer else [])

    def picture(self, case: Case, steps: int, make: MakeRun) -> tuple[Picture, RunStats]:
        """Makes one picture with a run of one's own."""
        with steered(self._model, make) as session, _decoded(self._model.vae) as decoded:
            made = self._model.generate_image(
                seed=case.seed,
                prompt=case.prompt,
                num_inference_steps=steps,
                width=SIZE,
                height=SIZE,
                guidance=self.settings.guidance,
            )
        return Picture(made.image, decoded[-1]), session.stats.runs[-1]

    def _measured(self, case: Case) -> tuple[Picture, Kernel, list[float], list[float]]:
        """The plain picture, which measuring does not change, its kernel, and the changes of signal and body."""
        runs: list[MeasuringRun] = []

        def make(info: RunInfo) -> Run:
            runs.append(MeasuringRun(info, target=target_tokens(self.adapter, info)))
            return runs[-1]

        picture, stats = self.picture(case, self.settings.steps, make)
        records = stats.records[1:]
        signal = [math.nan if r.signal_change is None else r.signal_change for r in records]
        body = [math.nan if r.body_change is None else r.body_change for r in records]
        return picture, runs[-1].kernel(), signal, body

    def _spend(
        self, case: Case, steps: int, count: int, numbers: Numbers, own: Kernel, changes: list[float]
    ) -> Iterator[tuple[Any, ...]]:
        """Spends `count` computed steps in every way: the method, and what `made` or `planned` returns."""
        yield PLAN, *self.planned(case, steps, count, numbers.kernel, own)
        yield PLAN_BARE, *self.made(case, steps, lambda info: _follow(info, _bare(_plan(numbers.kernel, info, count))))
        for method, linear in ((GATE, False), (GATE_LINEAR, True)):
            yield method, *self._gated(case, steps, count, numbers, changes, linear=linear)
        yield (
            STEP_CACHE,
            *self.made(case, steps, lambda info: _follow(info, step_cache_plan(info.active_sigmas, count))),
        )
        yield UNIFORM, *self.made(case, steps, lambda info: _follow(info, uniform_plan(steps, count)))
        yield FEWER, *self.made(case, count, plain_run)
        yield EVEN_AB2, *self.made(case, steps, lambda info: MultistepRun(info, plan=uniform_plan(steps, count)))
        yield (
            PLAN_AB2,
            *self.made(case, steps, lambda info: MultistepRun(info, plan=_plan(numbers.kernel, info, count))),
        )

    def made(self, case: Case, steps: int, make: MakeRun) -> tuple[Picture, int, float]:
        """Returns a picture, on how many steps the model ran, and the seconds of its loop."""
        picture, stats = self.picture(case, steps, make)
        return picture, stats.computed, stats.seconds

    def planned(
        self, case: Case, steps: int, count: int, kernel: Kernel, own: Kernel | None = None
    ) -> tuple[Picture, int, float, float | None, float | None]:
        """Returns the same for a plan from a kernel, what it expects to leave, and what it leaves by the own kernel."""
        runs: list[tuple[Plan, RunInfo]] = []

        def make(info: RunInfo) -> Run:
            runs.append((_plan(kernel, info, count), info))
            return _follow(info, runs[-1][0])

        made = self.made(case, steps, make)
        plan, sigmas = runs[-1][0], runs[-1][1].active_sigmas
        left = None if own is None else left_in_latents(plan, own.at(sigmas[:-1]), sigmas)
        return *made, plan.expected_error, left

    def _gated(
        self, case: Case, steps: int, count: int, numbers: Numbers, changes: list[float], *, linear: bool
    ) -> tuple[Picture, int, float]:
        threshold = matching_threshold(changes, numbers.coefficients, count)

        def make(info: RunInfo) -> Run:
            gate = Gate(info.steps, coefficients=numbers.coefficients, calibrated_range=None, threshold=threshold)
            return GatedRun(info, target=target_tokens(self.adapter, info), policy=gate, linear=linear)

        return self.made(case, steps, make)

    def _transferred(self, case: Case, fine: Picture, numbers: Numbers, said: Callable[[str], None]) -> list[Row]:
        rows = []
        lists = published_plans(LISTS.get(self.family, "qwen-image"))
        for steps, counts in TRANSFER.items():
            said(f"{self.family}: {case.prompt}, {steps} steps")
            plain, computed, seconds = self.made(case, steps, plain_run)
            compare = functools.partial(self._row, case, plain, fine, steps)
            rows.append(compare(steps, PLAIN, plain, computed, seconds))
            for count in counts:
                rows.append(compare(count, PLAN, *self.planned(case, steps, count, numbers.kernel)))
                rows.append(compare(count, FEWER, *self.made(case, count, plain_run)))
                if steps == PUBLISHED_STEPS and count in lists:
                    make = functools.partial(MeanCacheRun, published=lists[count])
                    rows.append(compare(count, MEANCACHE, *self.made(case, steps, make)))
        return rows

    def _row(
        self,
        case: Case,
        plain: Picture,
        fine: Picture,
        steps: int,
        asked: int,
        method: str,
        picture: Picture,
        computed: int,
        seconds: float,
        expected_error: float | None = None,
        left: float | None = None,
    ) -> Row:
        return Row(
            toy=self.family,
            prompt=case.prompt,
            seed=case.seed,
            steps=steps,
            asked=asked,
            method=method,
            computed=computed,
            seconds=round(seconds, 4),
            psnr=round(plain.psnr(picture), 3),
            ssim=round(ssim(plain.image, picture.image), 5),
            fine_psnr=round(fine.psnr(picture), 3),
            fine_ssim=round(ssim(fine.image, picture.image), 5),
            expected_error=expected_error,
            grown=10 ** (-plain.psnr(picture) / 20) / left if left else None,
        )


def matching_threshold(changes: Sequence[float], coefficients: Sequence[float], computed_steps: int) -> float:
    """Returns the threshold at which the gate, replayed on a run's own changes, computes most nearly so many steps.

    Of several it is the lowest, and where none matches the one that computes more. In a real run the signal follows
    the reused steps, so the count may still differ.
    """
    predicted = np.maximum(np.polyval(coefficients, np.asarray(changes)), 0.0)
    thresholds = np.geomspace(max(float(predicted.min()), 1e-4), float(predicted.sum()) + 1e-3, 150)

    def missed(threshold: float) -> tuple[int, bool]:
        reused = replay_gate(changes, coefficients=coefficients, calibrated_range=None, threshold=threshold)
        more = len(reused) - sum(reused) - computed_steps
        return abs(more), more < 0

    return min(map(float, thresholds), key=missed)


def made_with(families: Sequence[str], *, weights: bool = True) -> str:
    """Names the machine, the versions and the toys' weights, where they are used, in one line."""
    device = "GPU" if mx.default_device() == mx.gpu else "CPU"
    packages = ["teacache-core", *sorted({row.package for row in adapters() if row.name in families}), "mflux", "mlx"]
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    made = f"{versions}; {platform.system()} {platform.machine()}, MLX on the {device}"
    return f"{made}; toy weights {', '.join(f'{one} {_weights(one)}' for one in families)}" if weights else made


@contextmanager
def _decoded(codec: Any) -> Iterator[list[NDArray[np.float32]]]:
    """Keeps what a toy's picture codec decodes, for as long as the context is open."""
    found: list[NDArray[np.float32]] = []
    original = codec.decode

    def decode(latents: mx.array) -> mx.array:
        values = original(latents)
        found.append(np.clip((np.array(values.astype(mx.float32)) + 1) / 2, 0, 1))
        return values

    codec.decode = decode
    try:
        yield found
    finally:
        del codec.decode


def _weights(family: str) -> str:
    file = files(find_toy(family).package) / WEIGHTS
    return hashlib.sha256(file.read_bytes()).hexdigest()[:8] if file.is_file() else "missing"


def plain_run(info: RunInfo) -> Run:
    """Returns the run of a plain picture."""
    return VelocityRun(info, reason="off")


def _plan(kernel: Kernel, info: RunInfo, count: int) -> Plan:
    sigmas = info.active_sigmas
    return plan_from_kernel(kernel.at(sigmas[:-1]), sigmas, computed_steps=count)


def _bare(plan: Plan) -> Plan:
    return replace(plan, corrections=())


def _follow(info: RunInfo, plan: Plan) -> Run:
    return VelocityRun(info, plan=plan)
