"""Makes the pictures of `teacache compare`. Imported when the command runs."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from teacache import wrap
from teacache.calibration.record import Case as Task
from teacache.cli.compare_origin import made_with
from teacache.cli.compare_settings import Setting
from teacache.cli.meter import Meter, Update
from teacache.cli.source import Source
from teacache.errors import NoCalibrationWarning, NothingReusedWarning, OptionError, RecordingWarning
from teacache.report.compare import Case, Comparison, Likeness, Picture, Trial, loop_seconds
from teacache.steering import steered
from teacache.velocity import VelocityRun

if TYPE_CHECKING:
    from PIL.Image import Image

    from teacache.stats import RunStats, StepRecord

WARM_UP = 2
"""Computed steps before the clock counts: MLX builds its kernels when they are first used."""


def compare(
    source: Source,
    tasks: Sequence[Task],
    spare: Task,
    settings: Sequence[Setting],
    *,
    name: str,
    command: str,
    update: Update,
) -> Comparison:
    """Makes all pictures and compares them.

    Args:
        source: the model.
        tasks: what is compared.
        spare: another prompt: a model without a recording is recorded on it, as `wrap` would on its first picture.
        settings: what is tried.
        name: of the model, for the page.
        command: what makes the same comparison again.
        update: see `teacache.cli.meter.Meter`.

    Raises:
        OptionError: a setting needs a polynomial and there is none.
    """
    expected = sum(source.steps + sum(2 * one.expected(source.steps) for one in settings) for _ in tasks)
    meter = Meter(update, expected)
    maker = _Maker(source, meter)
    _warm_up(source, spare, meter)
    for setting in settings:
        _prepare(source, spare, setting, meter)
    cases = tuple(maker.case(task, settings) for task in tasks)
    return Comparison(
        name=name, steps=source.steps, cases=cases, made_with=made_with(source, name, cases), command=command
    )


class _WarmError(Exception):
    """Ends a picture that was begun to warm up."""


def _warm_up(source: Source, spare: Task, meter: Meter) -> None:
    """Begins a plain picture."""
    meter.begin("plain: warming up")

    def look(record: StepRecord) -> None:
        if record.step >= WARM_UP:
            raise _WarmError

    with steered(source.model, lambda info: VelocityRun(info, reason="off", on_step=look)), suppress(_WarmError):
        source.make(spare, source.steps)


def _prepare(source: Source, spare: Task, setting: Setting, meter: Meter) -> None:
    """Begins a picture under a setting: finishes it where it is the recording, refuses where the setting cannot work.

    Otherwise it ends as soon as both kinds of step were made, or a few were computed.
    """
    meter.begin(f"{setting.label}: warming up")
    recording = False
    seen: list[str] = []

    def look(record: StepRecord) -> None:
        nonlocal recording
        if record.reason == "no calibration":
            raise OptionError(
                f"--setting {setting.label!r} was given, but there is no polynomial for {source.name} at "
                f"{source.steps} steps and guidance {source.guidance:g}. Try --setting speedup=2, or give "
                "coefficients= with it."
            )
        if record.reason == "recording":
            if not recording:
                recording = True
                meter.expect(source.steps)
                meter.begin(f"{setting.label}: recording the model first")
            meter.step(record)
            return
        seen.append(record.action)
        if ("reuse" in seen and record.action == "compute") or seen.count("compute") > WARM_UP + 1:
            raise _WarmError

    with _quietly(), wrap(source.model, on_step=look, **setting.options), suppress(_WarmError):
        source.make(spare, source.steps)


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes the pictures of one case after the other."""

    source: Source
    meter: Meter

    def case(self, task: Task, settings: Sequence[Setting]) -> Case:
        """Makes the plain picture, and for each setting its own and one of fewer steps."""
        plain = self._plainly(task, self.source.steps, "plain", None)
        known: dict[int, Picture] = {}
        trials = tuple(self._trial(task, setting, plain, known) for setting in settings)
        return Case(prompt=task.prompt, seed=task.seed, plain=plain, trials=trials)

    def _trial(self, task: Task, setting: Setting, plain: Picture, known: dict[int, Picture]) -> Trial:
        cached = self._cached(task, setting, plain)
        count, expected = cached.run.computed, setting.expected(self.source.steps)
        needed = cached.run.reused > 0 and count not in known
        self.meter.expect((1 + needed) * count - 2 * expected)
        if needed:
            known[count] = self._plainly(task, count, f"{count} steps instead", plain)
        return Trial(setting=setting.label, cached=cached, fewer=known[count] if cached.run.reused else None)

    def _cached(self, task: Task, setting: Setting, plain: Picture) -> Picture:
        self.meter.begin(f"{setting.label}: {task.prompt}")
        watch = _Watch(self.meter)
        with _quietly(), wrap(self.source.model, on_step=watch, **setting.options) as handle:
            image, seconds = self._timed(task, self.source.steps)
            return _picture(setting.label, image, handle.stats.runs[-1], seconds, watch, plain)

    def _plainly(self, task: Task, steps: int, label: str, plain: Picture | None) -> Picture:
        self.meter.begin(f"{label}: {task.prompt}")
        watch = _Watch(self.meter)
        with steered(self.source.model, lambda info: VelocityRun(info, reason="off", on_step=watch)) as session:
            image, seconds = self._timed(task, steps)
        return _picture(label, image, session.stats.runs[-1], seconds, watch, plain)

    def _timed(self, task: Task, steps: int) -> tuple[Image, float]:
        begun = time.perf_counter()
        image = self.source.make(task, steps)
        return image, time.perf_counter() - begun


class _Watch:
    """Notes when each step of a picture ends."""

    def __init__(self, meter: Meter) -> None:
        self.ended: list[float] = []
        self._meter = meter

    def __call__(self, record: StepRecord) -> None:
        self.ended.append(time.perf_counter())
        self._meter.step(record)


def _picture(label: str, image: Image, run: RunStats, seconds: float, watch: _Watch, plain: Picture | None) -> Picture:
    return Picture(
        label=label,
        image=image,
        run=run,
        seconds=seconds,
        loop_seconds=loop_seconds(run, watch.ended),
        likeness=None if plain is None else Likeness.of(plain.image, image),
    )


@contextmanager
def _quietly() -> Iterator[None]:
    """Leaves out the warnings that the page, an error or the progress says in its own way."""
    with warnings.catch_warnings():
        for category in (NoCalibrationWarning, NothingReusedWarning, RecordingWarning):
            warnings.simplefilter("ignore", category)
        yield
