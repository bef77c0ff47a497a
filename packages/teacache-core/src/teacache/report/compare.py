"""The same pictures made plainly, under settings of the cache, and with fewer steps. Imports neither mlx nor mflux."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Sequence
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
        loop_seconds: of the denoising loop without the hiccups of a busy machine, see `loop_seconds`.
        likeness: to the plain picture; None of the plain picture itself.
    """

    label: str
    image: Image
    run: RunStats
    seconds: float
    loop_seconds: float
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


def loop_seconds(run: RunStats, ended: Sequence[float]) -> float:
    """Returns the time of a run's steps: the median of each kind of step times their number.

    Args:
        run: the run.
        ended: when each of its steps ended, in seconds of any clock.
    """
    took: dict[str, list[float]] = {}
    for (before, now), record in zip(itertools.pairwise(ended), run.records[1:], strict=True):
        took.setdefault(record.action, []).append(now - before)
    counts = Counter(record.action for record in run.records)
    if not counts.keys() <= took.keys():  # one step alone has no other to be measured from
        return run.seconds
    return sum(count * statistics.median(took[action]) for action, count in counts.items())
