"""A picture made twice from one seed, plain and wrapped, and how the two compare. Imports neither mlx nor mflux."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from teacache.report.quality import psnr, ssim

if TYPE_CHECKING:
    from PIL.Image import Image

    from teacache.stats import RunStats


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The plain and the wrapped picture of one prompt and seed.

    Attributes:
        prompt: what was asked for.
        plain: the picture that the untouched pipeline made.
        wrapped: the picture that the wrapped pipeline made.
        run: the steps of the wrapped run.
        plain_seconds: wall time of the plain picture, all of `generate_image`.
        wrapped_seconds: wall time of the wrapped picture.
        ssim: structural similarity of the two.
        psnr: peak signal-to-noise ratio in dB, infinite for equal pictures.
    """

    prompt: str
    plain: Image
    wrapped: Image
    run: RunStats
    plain_seconds: float
    wrapped_seconds: float
    ssim: float
    psnr: float

    @classmethod
    def of(
        cls, *, prompt: str, plain: Image, wrapped: Image, run: RunStats, plain_seconds: float, wrapped_seconds: float
    ) -> Pair:
        """Compares the two pictures.

        Raises:
            OptionError: they differ in size.
        """
        return cls(
            prompt=prompt,
            plain=plain,
            wrapped=wrapped,
            run=run,
            plain_seconds=plain_seconds,
            wrapped_seconds=wrapped_seconds,
            ssim=ssim(plain, wrapped),
            psnr=psnr(plain, wrapped),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The pairs of one model.

    Attributes:
        title: names the model.
        details: two lines of small print: the policies, then settings and versions.
        pairs: one per prompt.
    """

    title: str
    details: tuple[str, str]
    pairs: tuple[Pair, ...]
