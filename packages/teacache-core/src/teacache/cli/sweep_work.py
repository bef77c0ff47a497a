"""Makes the pictures of `teacache sweep`. Imported when the command runs."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from teacache import wrap
from teacache.calibrating import key_of, measure
from teacache.calibration import load_calibration
from teacache.calibration.record import Case, Wrapped
from teacache.calibration.record import sweep as compare_with_plain
from teacache.cli.console import progress
from teacache.cli.source import Source
from teacache.errors import KernelError, NoCalibrationWarning, OptionError
from teacache.held_out import planned
from teacache.policies.kernel import Kernel
from teacache.policies.plan import fewest_computed
from teacache.report.quality import psnr, ssim
from teacache.run import Run, RunInfo
from teacache.stats import StepRecord
from teacache.steering import steered
from teacache.store import Store
from teacache.velocity import VelocityRun

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_REUSE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What is tried: see `teacache.cli.sweep`."""

    thresholds: tuple[float, ...]
    speedups: tuple[float, ...]
    reconstruction: str
    calibration: Path | None
    control: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One setting over all prompts.

    Attributes:
        method: "gate", "plan" or "fewer steps".
        value: threshold, speedup, or number of steps.
        computed: steps on which the model ran, mean.
        ssim: structural similarity to the plain pictures, mean.
        worst_ssim: the lowest.
        psnr: in dB, of the mean squared error over all pictures.
    """

    method: str
    value: float
    computed: float
    ssim: float
    worst_ssim: float
    psnr: float


def sweep(source: Source, wishes: Wishes, prompts: Sequence[str], seed: int, points: list[Point]) -> None:
    """Makes all pictures; the last prompt is recorded where that is needed, and not compared.

    Args:
        source: what they are made with.
        wishes: what is tried.
        prompts: one more than are compared.
        seed: of the first picture.
        points: takes each setting's result as soon as it is there.

    Raises:
        OptionError: a threshold is to be tried and there is no polynomial for it.
    """
    cases = [Case(prompt, seed + number) for number, prompt in enumerate(prompts)]
    compared, spare = cases[:-1], cases[-1]
    counts = [max(math.floor(source.steps / x), fewest_computed(source.steps, MAX_REUSE)) for x in wishes.speedups]
    settings = len(wishes.thresholds) + len(counts) * (2 if wishes.control else 1)
    with progress() as bar:
        task = bar.add_task("plain pictures", total=len(compared) * (1 + settings))
        maker = _Maker(source, lambda: bar.advance(task))

        def tried(method: str, value: float, opened: AbstractContextManager[Wrapped], steps: int) -> None:
            bar.update(task, description=f"{method} {value:g}")
            (found,) = compare_with_plain(maker, compared, [value], lambda _: maker.trying(opened, steps), _compare)
            points.append(
                Point(
                    method=method,
                    value=value,
                    computed=steps - found.reused,
                    ssim=found.ssim,
                    worst_ssim=found.worst_ssim,
                    psnr=found.psnr,
                )
            )

        for case in compared:
            maker(case)
        for threshold in wishes.thresholds:
            tried("gate", threshold, _gate(source, wishes, threshold), source.steps)
        if counts:
            bar.update(task, description=f"recording: {spare.prompt}")
            kernel = _kernel(source, spare, maker.info)
        for speedup, count in zip(wishes.speedups, counts, strict=True):
            run = functools.partial(planned, kernel=kernel, computed_steps=count)
            tried("plan", speedup, steered(source.model, run), source.steps)
            if wishes.control:
                tried("fewer steps", count, steered(source.model, _plain), count)


class _Maker:
    """Makes the plain picture of a case once, and while something is tried a new one.

    Attributes:
        info: the plain pictures' run.
    """

    def __init__(self, source: Source, made: Callable[[], None]) -> None:
        self._source = source
        self._made = made
        self._plain: dict[Case, Image] = {}
        self._steps: int | None = None
        self.info = RunInfo(sigmas=())

    def __call__(self, case: Case) -> Image:
        if self._steps is not None:
            picture = self._source.make(case, self._steps)
        elif case in self._plain:
            return self._plain[case]
        else:
            with steered(self._source.model, self._noted):
                picture = self._plain[case] = self._source.make(case, self._source.steps)
        self._made()
        return picture

    def _noted(self, info: RunInfo) -> Run:
        self.info = info
        return _plain(info)

    @contextmanager
    def trying(self, opened: AbstractContextManager[Wrapped], steps: int) -> Iterator[Wrapped]:
        """Makes new pictures in so many steps, for as long as the context is open."""
        with opened as wrapped:
            self._steps = steps
            try:
                yield wrapped
            finally:
                self._steps = None


def drawing(points: Sequence[Point], source: Source) -> Image:
    """Draws PSNR against computed steps; points that are equal to the plain pictures have none."""
    from teacache.report.plot import Panel, plot

    curves: dict[str, list[tuple[float, float]]] = {}
    for method in ("plan", "gate", "fewer steps"):
        drawn = [(p.computed, p.psnr) for p in points if p.method == method and math.isfinite(p.psnr)]
        if drawn:
            curves[method] = drawn
    if not curves:
        raise OptionError("Every picture is equal to its plain one: there is nothing to draw. Reuse more.")
    return plot([Panel(source.name, curves)], x=f"steps computed of {source.steps}", y="PSNR, dB")


@contextmanager
def _gate(source: Source, wishes: Wishes, threshold: float) -> Iterator[Wrapped]:
    options: dict[str, Any] = {"threshold": threshold, "reconstruction": wishes.reconstruction}
    if wishes.calibration is not None:
        gate = load_calibration(wishes.calibration).gate
        if gate is None:
            raise OptionError(f"--calibration {wishes.calibration} holds no polynomial. Sweep --speedup instead.")
        options["coefficients"] = gate.coefficients

    def refuse(record: StepRecord) -> None:
        if record.reason == "no calibration":
            raise OptionError(
                f"There is no polynomial for {source.name} at {source.steps} steps and guidance {source.guidance:g}. "
                "Give --calibration FILE (`teacache calibrate` makes one), or sweep --speedup."
            )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoCalibrationWarning)  # said by the error
        with wrap(source.model, on_step=refuse, **options) as handle:
            yield handle


def _kernel(source: Source, spare: Case, info: RunInfo) -> Kernel:
    """The stored kernel of this very model where it covers the schedule, as `wrap` asks, or one recorded now."""
    try:
        recording = Store().load(key_of(source.model, info.guidance))
    except (KernelError, OSError):
        recording = None
    if recording is not None and recording.kernel.covers(info.active_sigmas[:-1]):
        return recording.kernel
    return measure(source.model, source.make, spare, source.steps).kernel


def _plain(info: RunInfo) -> Run:
    return VelocityRun(info, reason="off")


def _compare(one: Image, other: Image) -> tuple[float, float]:
    return ssim(one, other), psnr(one, other)
