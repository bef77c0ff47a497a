"""Sums a comparison of pictures up: each setting over all prompts, and its control. Imports neither mlx nor mflux."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from teacache.report.compare import Comparison, Likeness, Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """Several pictures that were made alike.

    Attributes:
        pictures: how many.
        steps: their steps, mean.
        computed: steps on which the model ran, mean.
        speedup: steps of the plain pictures over computed steps.
        seconds: `loop_seconds` of all pictures together.
        time_ratio: that of the same plain pictures over these seconds.
        likeness: to the plain pictures: mean SSIM, PSNR of the mean error; None of the plain pictures.
        worst_ssim: the lowest; None of the plain pictures.
    """

    pictures: int
    steps: float
    computed: float
    speedup: float
    seconds: float
    time_ratio: float
    likeness: Likeness | None
    worst_ssim: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One setting over all prompts and seeds.

    Attributes:
        setting: as it was asked for.
        cached: the pictures under the setting.
        fewer: those with fewer steps; None where no picture has one.
        won: pictures that are nearer to the plain one than the one with fewer steps, by PSNR.
        lost: pictures that are further away; what is in neither is equally near.
    """

    setting: str
    cached: Total
    fewer: Total | None
    won: int
    lost: int


def plain_total(comparison: Comparison) -> Total:
    """Returns the plain pictures of a comparison."""
    return _total([(case.plain, case.plain) for case in comparison.cases])


def summaries(comparison: Comparison) -> Iterator[Summary]:
    """Yields each setting over all cases."""
    for number, setting in enumerate(comparison.settings):
        trials = [(case.plain, case.trials[number]) for case in comparison.cases]
        fewer = [(plain, trial.fewer) for plain, trial in trials if trial.fewer is not None]
        rivals = [
            (_psnr(trial.cached), _psnr(trial.fewer)) for _, trial in trials if trial.fewer is not None
        ]  # fmt: skip
        yield Summary(
            setting=setting,
            cached=_total([(plain, trial.cached) for plain, trial in trials]),
            fewer=_total(fewer) if fewer else None,
            won=sum(own > other for own, other in rivals),
            lost=sum(own < other for own, other in rivals),
        )


def mean_psnr(values: Sequence[float]) -> float:
    """Returns the PSNR of the mean squared error behind several values in dB."""
    error = sum(10 ** (-value / 10) for value in values) / len(values)
    return -10 * math.log10(error) if error else math.inf


def _total(pairs: Sequence[tuple[Picture, Picture]]) -> Total:
    """Sums up pictures, each given after its plain one."""
    plain, pictures = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    alike = [picture.likeness for picture in pictures if picture.likeness is not None]
    seconds = sum(picture.loop_seconds for picture in pictures)
    computed = _mean(pictures, lambda picture: picture.run.computed)
    return Total(
        pictures=len(pictures),
        steps=_mean(pictures, lambda picture: len(picture.run.records)),
        computed=computed,
        speedup=_mean(plain, lambda picture: len(picture.run.records)) / computed,
        seconds=seconds,
        time_ratio=sum(picture.loop_seconds for picture in plain) / seconds,
        likeness=Likeness(ssim=sum(one.ssim for one in alike) / len(alike), psnr=mean_psnr([one.psnr for one in alike]))
        if alike
        else None,
        worst_ssim=min((one.ssim for one in alike), default=None),
    )


def _mean(pictures: Sequence[Picture], value: Callable[[Picture], float]) -> float:
    return sum(map(value, pictures)) / len(pictures)


def _psnr(picture: Picture) -> float:
    return math.nan if picture.likeness is None else picture.likeness.psnr
