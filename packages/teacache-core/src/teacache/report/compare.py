"""The same pictures made plainly, under settings of the cache, and with fewer steps. Imports neither mlx nor mflux."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from teacache.report.quality import psnr, ssim

if TYPE_CHECKING:
    from PIL.Image import Image

    from teacache.stats import RunStats


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """How near a picture is to the plain one.

    Attributes:
        ssim: structural similarity, 1.0 for equal pictures.
        psnr: peak signal-to-noise ratio in dB, infinite for equal pictures.
    """

    ssim: float
    psnr: float

    @classmethod
    def of(cls, plain: Image, picture: Image) -> Likeness:
        """Compares two pictures.

        Raises:
            OptionError: they differ in size.
        """
        return cls(ssim=ssim(plain, picture), psnr=psnr(plain, picture))


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One picture and how it was made.

    Attributes:
        label: what it was made with, in a few words.
        image: the picture.
        run: its steps.
        seconds: wall time of all of `generate_image`; that of the denoising loop alone is `run.seconds`.
        likeness: to the plain picture; None of the plain picture itself.
    """

    label: str
    image: Image
    run: RunStats
    seconds: float
    likeness: Likeness | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One setting of the cache on one prompt and seed.

    Attributes:
        setting: as it was asked for.
        cached: the picture under the setting.
        fewer: the plain model in as many steps as the setting computed; None where the setting reused none.
    """

    setting: str
    cached: Picture
    fewer: Picture | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One prompt and seed: the plain picture and all trials."""

    prompt: str
    seed: int
    plain: Picture
    trials: tuple[Trial, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """Several pictures that were made alike.

    Attributes:
        pictures: how many.
        steps: their steps, mean.
        computed: steps on which the model ran, mean.
        speedup: steps of the plain pictures over computed steps.
        seconds: in the denoising loop, in all.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All that a page shows.

    Attributes:
        name: of the model, as it was asked for.
        steps: of the plain pictures.
        cases: one for each prompt and seed, with the same settings in the same order.
        made_with: label and value: model, settings, versions, machine.
        command: that makes it again.
    """

    name: str
    steps: int
    cases: tuple[Case, ...]
    made_with: tuple[tuple[str, str], ...]
    command: str

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings that were tried."""
        return tuple(trial.setting for trial in self.cases[0].trials)

    @property
    def plain(self) -> Total:
        """The plain pictures."""
        return _total([(case.plain, case.plain) for case in self.cases])

    def summaries(self) -> Iterator[Summary]:
        """Yields each setting over all cases."""
        for number, setting in enumerate(self.settings):
            trials = [(case.plain, case.trials[number]) for case in self.cases]
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
    seconds = sum(picture.run.seconds for picture in pictures)
    computed = _mean(pictures, lambda picture: picture.run.computed)
    return Total(
        pictures=len(pictures),
        steps=_mean(pictures, lambda picture: len(picture.run.records)),
        computed=computed,
        speedup=_mean(plain, lambda picture: len(picture.run.records)) / computed,
        seconds=seconds,
        time_ratio=sum(picture.run.seconds for picture in plain) / seconds,
        likeness=Likeness(ssim=sum(one.ssim for one in alike) / len(alike), psnr=mean_psnr([one.psnr for one in alike]))
        if alike
        else None,
        worst_ssim=min((one.ssim for one in alike), default=None),
    )


def _mean(pictures: Sequence[Picture], value: Callable[[Picture], float]) -> float:
    return sum(map(value, pictures)) / len(pictures)


def _psnr(picture: Picture) -> float:
    return math.nan if picture.likeness is None else picture.likeness.psnr
