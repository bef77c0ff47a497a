"""Is the intended approximation good, and is there one at all? Same process, plain against wrapped.

Imports mlx; never mflux. SSIM and PSNR need the `quality` extra; LPIPS is measured where it is installed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from teacache.testing.oracles.result import Check, Figure, Result, environment
from teacache.testing.oracles.subject import Subject
from teacache.testing.spies import Latents

if TYPE_CHECKING:
    from PIL.Image import Image

QUESTION = "is the approximation good, and did it take place?"


def quality(
    subject: Subject,
    *,
    band: tuple[int, int],
    options: Mapping[str, Any] | None = None,
    least_ssim: float | None = None,
    least_psnr: float | None = None,
    source: str = "",
) -> Result:
    """Asks whether the reused steps lie inside a band, and whether the picture is still the same one.

    Args:
        subject: the model. Without `draw` the last latents are compared in the picture's place, by PSNR alone.
        band: fewest and most steps that are expected to be reused: a cache that does nothing cannot pass.
        options: of `wrap`; None: the defaults, as a user has them.
        least_ssim: SSIM that the picture must reach; None: it is measured and not judged.
        least_psnr: the same in dB.
        source: whose figures band and bounds are; see `teacache.testing.oracles.expected.expected_of`.
    """
    model = subject.make_model()
    plain, _ = _drawn(subject, model, None)
    wrapped, reused = _drawn(subject, model, dict(options or {}))
    likeness = _likeness(wrapped, plain)
    low, high = band
    checks = [
        Check.of(
            "reused steps in the band",
            reused is not None and low <= reused <= high,
            reused=-1 if reused is None else reused,
            fewest=low,
            most=high,
            says="The cache does less than it should, or more: the numbers do not fit this model, or the gate is "
            "broken. The records of the run give each step's reason.",
        )
    ]
    for name, least in (("SSIM", least_ssim), ("PSNR", least_psnr), ("LPIPS", None)):
        if name not in likeness:
            continue
        figures: dict[str, Figure] = {"measured": likeness[name]}
        if least is None:
            checks.append(Check(name=name, verdict="not judged", figures=figures))
        else:
            says = "The picture is too far from the plain one: lower the threshold, or calibrate again."
            checks.append(Check.of(name, likeness[name] >= least, says=says, **figures, least=least))
    return Result(
        oracle="quality",
        question=QUESTION,
        subject=subject.title(model),
        checks=tuple(checks),
        evidence=environment() | {"steps": subject.steps} | ({"expected by": source} if source else {}),
    )


def _drawn(subject: Subject, model: Any, options: dict[str, Any] | None) -> tuple[Image | Latents, int | None]:
    """A picture (or the latents) and how many steps were reused; plain where there are no options."""
    draw = subject.draw or subject.generate
    if options is None:
        return draw(model), None
    with subject.wrapped(model, **options) as handle:
        drawn = draw(model, handle)
        stats = handle.stats.last
    return drawn, None if stats is None else stats.reused


def _likeness(wrapped: Image | Latents, plain: Image | Latents) -> dict[str, float]:
    if isinstance(wrapped, list) and isinstance(plain, list):
        return {"PSNR": _psnr_of_latents(wrapped[-1], plain[-1])}
    if isinstance(wrapped, list) or isinstance(plain, list):
        return {}
    from teacache.report.quality import psnr, ssim

    measured = {"SSIM": ssim(wrapped, plain), "PSNR": psnr(wrapped, plain)}
    if find_spec("lpips") and find_spec("torch"):
        measured["LPIPS"] = _lpips(wrapped, plain)
    return measured


def _psnr_of_latents(wrapped: np.ndarray[Any, Any], plain: np.ndarray[Any, Any]) -> float:
    """In dB, with the range of the plain latents as the peak."""
    error = float(np.mean((wrapped.astype(np.float64) - plain) ** 2))
    peak = float(plain.max() - plain.min())
    return 10 * math.log10(peak**2 / error) if error else math.inf


def _lpips(wrapped: Image, plain: Image) -> float:
    """Learned perceptual distance (Zhang et al. 2018, arXiv:1801.03924), AlexNet."""
    import importlib

    lpips, torch = importlib.import_module("lpips"), importlib.import_module("torch")

    def tensor(image: Image) -> Any:
        pixels = np.asarray(image.convert("RGB"), dtype=np.float32).transpose(2, 0, 1) / 127.5 - 1
        return torch.from_numpy(pixels)[None]

    return float(lpips.LPIPS(net="alex", verbose=False)(tensor(wrapped), tensor(plain)).item())
