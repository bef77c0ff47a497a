"""The mflux host: callbacks, factories, `generate_image`, names and schedules of mflux. Imported lazily.

All that the project knows of mflux's program (not of its models) is here.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import mlx.core as mx

from teacache.adapter import Pipeline
from teacache.changes import Changes
from teacache.errors import AdapterDescriptionError, AlreadyWrappedError, TransformerReplacedWarning
from teacache.hosts import LOADED_AS, Names, names_from_config
from teacache.report.metadata import KEY, metadata
from teacache.run import RunInfo
from teacache.session import Session
from teacache.velocity import VelocityRun

OURS = "__teacache__"
"""Marks the `generate_image` that a wrapped pipeline carries."""


class MfluxHost:
    """Ties a session to an mflux pipeline."""

    def install(self, model: Any, pipeline: Pipeline, session: Session, changes: Changes) -> None:
        """Registers the callbacks and wraps the pipeline's factories and `generate_image`, on this object only."""
        if hasattr(vars(model).get("generate_image"), OURS):
            raise AlreadyWrappedError(
                f"This {type(model).__name__} is wrapped already, and its transformer was replaced since. "
                "Call restore() on the first handle, then wrap again."
            )
        callback = _Callback(model, pipeline, session)
        registry = model.callbacks
        for callbacks in (registry.before_loop, registry.in_loop, registry.after_loop, registry.interrupt):
            changes.append(callbacks, callback)
        for name in pipeline.factories:
            changes.set_attribute(model, name, _factory(model, name, session))
        changes.set_attribute(model, "generate_image", _generate_image(model, session))

    def names(self, model: Any) -> Names:
        """Reads the model's config, and whether a LoRA changes its weights."""
        return names_from_config(
            model.model_config,
            path=vars(model).get(LOADED_AS),
            altered=bool(getattr(model, "lora_paths", None)),
        )

    def version(self) -> str:
        """Returns mflux's version."""
        return _version()


@functools.cache
def _version() -> str:
    """Reading the package's metadata anew took two thirds of the time of `wrap`."""
    return version("mflux")


class _Callback:
    """What mflux calls around and in its loop."""

    def __init__(self, model: Any, pipeline: Pipeline, session: Session) -> None:
        self._model = weakref.ref(model)
        self._transformer = weakref.ref(getattr(model, str(pipeline.transformer)))
        self._attribute = str(pipeline.transformer)
        self._session = session

    def call_before_loop(self, seed: int, prompt: str, latents: mx.array, config: Any, **_: Any) -> None:
        model = self._model()
        if getattr(model, self._attribute, None) is not self._transformer():
            self._session.abort()
            self._session.warn(
                TransformerReplacedWarning(
                    f"{type(model).__name__}.{self._attribute} was replaced after it was wrapped: this picture is "
                    "made without the cache. Call restore() and wrap the model again."
                )
            )
            return
        scheduler = config.scheduler
        run = self._session.begin(
            RunInfo(
                sigmas=tuple(scheduler.sigmas.tolist()[: config.num_inference_steps + 1]),
                first_step=config.init_time_step,
                image_tokens=config.image_seq_len,
                guidance=config.guidance,
                carries_velocity=_carries_velocity(scheduler),
            )
        )
        if isinstance(run, VelocityRun) and run.wants_velocity:
            scheduler.step = _step(scheduler.step, run)

    def call_in_loop(self, t: int, seed: int, prompt: str, latents: mx.array, config: Any, time_steps: Any) -> None:
        self._session.end_step(t, latents)
        run = self._session.run
        show = getattr(time_steps, "set_postfix_str", None)  # tqdm's, or whatever a callback puts in its place
        if run is not None and show is not None:
            reused = sum(record.action == "reuse" for record in run.records)
            show(f"computed {len(run.records) - reused}, reused {reused}", refresh=False)

    def call_after_loop(self, seed: int, prompt: str, latents: mx.array, config: Any) -> None:
        self._session.end()

    def call_interrupt(self, t: int, seed: int, prompt: str, latents: mx.array, config: Any, time_steps: Any) -> None:
        self._session.abort()


EULER = {"LinearScheduler", "FlowMatchEulerDiscreteScheduler"}
"""mflux's schedulers whose step is latents + (sigma' - sigma) * velocity, and nothing else."""


def _carries_velocity(scheduler: Any) -> str | None:
    """Why a velocity cannot be carried through this scheduler; None where it can."""
    cls = type(scheduler)
    if cls.__name__ in EULER and cls.__module__.startswith("mflux.models.common.schedulers."):
        return None
    return (
        f"a velocity can be carried over with {' and '.join(sorted(EULER))}, not with {cls.__name__}. "
        "Use the pipeline's own scheduler, or the gate (threshold=)."
    )


def _step(original: Callable[..., Any], run: VelocityRun) -> Callable[..., Any]:
    """The scheduler's step, behind guidance. The scheduler is made for one picture and dies with it."""

    def step(*args: Any, **kwargs: Any) -> Any:
        if args:
            return original(run.velocity(args[0]), *args[1:], **kwargs)
        return original(**{**kwargs, "noise": run.velocity(kwargs["noise"])})

    return step


def _original(model: Any, name: str) -> Callable[[], Callable[..., Any]]:
    """The attribute as the pipeline would find it, without keeping the pipeline alive."""
    reference = weakref.ref(model)
    if name in vars(model):
        own = vars(model)[name]
        return lambda: own
    try:
        static = inspect.getattr_static(type(model), name)
    except AttributeError:
        raise AdapterDescriptionError(
            f"{type(model).__name__} has no attribute {name!r}. The installed mflux and the adapter do not fit: "
            "`teacache adapters` shows the versions."
        ) from None
    return lambda: static.__get__(reference(), type(reference()))


def _factory(model: Any, name: str, session: Session) -> Callable[..., Any]:
    original = _original(model, name)

    def factory(*args: Any, **kwargs: Any) -> Any:
        return session.entry(original()(*args, **kwargs))

    return factory


def _generate_image(model: Any, session: Session) -> Callable[..., Any]:
    original = _original(model, "generate_image")

    def generate_image(*args: Any, **kwargs: Any) -> Any:
        session.abort()
        try:
            image = original()(*args, **kwargs)
            stats = session.commit()
        finally:
            session.abort()
        if stats is not None and stats.reused and hasattr(image, "generation_parameters"):
            made = metadata(stats, (*session.packages, "mflux", "mlx"))
            image.generation_parameters = {**(image.generation_parameters or {}), KEY: made}
        return image

    functools.update_wrapper(generate_image, type(model).generate_image)
    generate_image.__signature__ = inspect.signature(original())  # type: ignore[attr-defined]
    setattr(generate_image, OURS, True)
    return generate_image
