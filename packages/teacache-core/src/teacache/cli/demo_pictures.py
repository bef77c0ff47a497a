"""Makes the pictures of `teacache demo`: each prompt plain and wrapped, on a toy. Imported when the command runs."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Protocol

import mlx.core as mx

from teacache import wrap
from teacache.cli.toys import load_toy
from teacache.errors import NothingReusedWarning
from teacache.plugins import adapters
from teacache.report.pair import Pair, Section

if TYPE_CHECKING:
    from PIL.Image import Image

SIZE = 128
SEPARATOR = "  ·  "


class Advance(Protocol):
    """Takes what is being done now, and how many pictures were finished before."""

    def __call__(self, doing: str, done: int = 1) -> None: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What all pictures of a demo have in common."""

    prompts: tuple[str, ...]
    threshold: float | None
    steps: int
    seed: int
    guidance: float


def section_of(family: str, settings: Settings, advance: Advance) -> Section:
    """Makes all pictures of one toy."""
    advance(f"{family}: loading", 0)
    model = load_toy(family)
    with wrap(model, threshold=settings.threshold) as handle:
        adapter = handle.adapter.name
    advance(f"{family}: warming up", 0)
    _warm_up(model, settings)
    advance(f"{family}: warmed up")
    pairs = tuple(_pair(model, index, settings, advance) for index in range(len(settings.prompts)))
    policies = dict.fromkeys(pair.run.policy for pair in pairs)
    made = (f"{settings.steps} steps", f"guidance {settings.guidance:g}", f"seed {settings.seed}", *_versions(adapter))
    details = (SEPARATOR.join(policies), SEPARATOR.join(made))
    title = f"{type(model).__name__} ({family}): a small model trained on drawn scenes"
    return Section(title=title, details=details, pairs=pairs)


def _warm_up(model: Any, settings: Settings) -> None:
    """Makes two pictures of few steps that nobody sees: MLX builds its kernels when they are first used."""
    few = 4
    _picture(model, settings.prompts[0], settings.seed, few, settings.guidance)
    with wrap(model, coefficients=[0.0] * 5, threshold=1.0):  # reuses all but the first and the last step
        _picture(model, settings.prompts[0], settings.seed, few, settings.guidance)


def _pair(model: Any, index: int, settings: Settings, advance: Advance) -> Pair:
    prompt, seed = settings.prompts[index], settings.seed + index
    advance(f"plain: {prompt}", 0)
    plain, plain_seconds = _picture(model, prompt, seed, settings.steps, settings.guidance)
    advance(f"wrapped: {prompt}")
    with wrap(model, threshold=settings.threshold) as handle, warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingReusedWarning)  # said below the table, once
        wrapped, wrapped_seconds = _picture(model, prompt, seed, settings.steps, settings.guidance)
        run = handle.stats.runs[-1]
    advance(f"wrapped: {prompt}")
    return Pair.of(
        prompt=prompt,
        plain=plain,
        wrapped=wrapped,
        run=run,
        plain_seconds=plain_seconds,
        wrapped_seconds=wrapped_seconds,
    )


def _picture(model: Any, prompt: str, seed: int, steps: int, guidance: float) -> tuple[Image, float]:
    """Makes one picture and takes its time."""
    begun = time.perf_counter()
    made = model.generate_image(
        seed=seed, prompt=prompt, num_inference_steps=steps, width=SIZE, height=SIZE, guidance=guidance
    )
    return made.image, time.perf_counter() - begun


def _versions(adapter: str) -> list[str]:
    """Names what the pictures were made with."""
    packages = ["teacache-core", *(row.package for row in adapters() if row.name == adapter), "mflux"]
    device = "GPU" if mx.default_device() == mx.gpu else "CPU"
    return [*(f"{package} {version(package)}" for package in packages), f"MLX {version('mlx')} ({device})"]
