"""What the oracles look at: a small or real model, how it is made and how it is run. Imports mlx; never mflux."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import teacache
from teacache.adapter import Adapter, Pipeline
from teacache.errors import AdapterDescriptionError
from teacache.stats import RunStats
from teacache.testing.spies import Latents, compile_disabled, expected_warnings, record_latents, transformer_of
from teacache.wrapping import Handle

if TYPE_CHECKING:
    from PIL.Image import Image

FORCED: Mapping[str, Any] = {"coefficients": [0.0, 0.0, 0.0, 0.0, 1.0], "threshold": 2.5}
"""Gate options that compute every third step whatever the signal, each step predicting a change of 1.

Two reuses behind one computed step show a stored array that the first of them changed, and the reuses behind the
second computed step a residual that is too old.
"""


class Generate(Protocol):
    """Makes one picture and returns the latents after each step; `handle` is there where the model is wrapped."""

    def __call__(self, model: Any, handle: Handle | None = None, **overrides: Any) -> Latents: ...  # noqa: D102


class Draw(Protocol):
    """Makes one picture."""

    def __call__(self, model: Any, handle: Handle | None = None, **overrides: Any) -> Image: ...  # noqa: D102


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One model under one adapter.

    Attributes:
        adapter: describes the model.
        make_model: builds it, with the same weights every time.
        generate: makes one picture with it.
        steps: how many steps a run has; 6 at least.
        draw: the same, returning the picture; None where there is none to see.
        installed: `wrap` finds the adapter by itself; else it is handed in.
        variation: arguments of a run that differs.
        name: what reports call it; the model's class where it is empty.
    """

    adapter: Adapter
    make_model: Callable[[], Any]
    generate: Generate
    steps: int
    draw: Draw | None = None
    installed: bool = True
    variation: Mapping[str, Any] = field(default_factory=lambda: {"seed": 5})
    name: str = ""

    @classmethod
    def of_mflux(
        cls,
        adapter: Adapter,
        make_model: Callable[[], Any],
        arguments: Mapping[str, Any],
        *,
        steps: int = 6,
        seed: int = 3,
        **fields: Any,
    ) -> Subject:
        """Returns a subject that runs an mflux pipeline's own `generate_image`.

        Args:
            adapter: describes the pipeline.
            make_model: builds it.
            arguments: keyword arguments of `generate_image`, beside seed and number of steps.
            steps: number of steps.
            seed: of the picture.
            fields: other attributes.
        """
        given = {"seed": seed, "num_inference_steps": steps, **arguments}

        def generate(model: Any, handle: Handle | None = None, **overrides: Any) -> Latents:
            return record_latents(model, **{**given, **overrides})

        def draw(model: Any, handle: Handle | None = None, **overrides: Any) -> Image:
            image: Image = model.generate_image(**{**given, **overrides}).image
            return image

        return cls(adapter=adapter, make_model=make_model, generate=generate, draw=draw, steps=steps, **fields)

    def title(self, model: Any) -> str:
        """What reports call it."""
        return self.name or f"{self.adapter.name} {type(model).__name__}"

    def pipeline(self, model: Any) -> Pipeline:
        """The adapter's description of the model's class."""
        pipeline = self.adapter.pipeline_for(type(model))
        if pipeline is None:
            raise AdapterDescriptionError(
                f"The adapter {self.adapter.name!r} does not describe {type(model).__name__}; make_model must build "
                f"one of {', '.join(pipeline.name for pipeline in self.adapter.pipelines)}."
            )
        return pipeline

    def transformer(self, model: Any) -> Any:
        """The model's transformer."""
        return transformer_of(model, self.pipeline(model))

    def compiles(self, model: Any) -> bool:
        """The pipeline has a predict function that `compile=` reaches."""
        return bool(self.pipeline(model).factories)

    def eager(self, model: Any) -> dict[str, Any]:
        """The option of `wrap` that makes this model run eagerly; none where it is eager anyway."""
        return {"compile": False} if self.compiles(model) else {}

    def uncompiled(self, model: Any) -> AbstractContextManager[None]:
        """Runs a plain model as its wrapped one runs eagerly.

        Where nothing of the pipeline is compiled nothing is switched off: the small functions of `mlx.nn` that are
        compiled by themselves (GELU) are then compiled on both sides.
        """
        return compile_disabled() if self.compiles(model) else nullcontext()

    @contextmanager
    def wrapped(self, model: Any, **options: Any) -> Iterator[Handle]:
        """Wraps as a user does, and restores; warnings of teacache are not the oracle's matter."""
        own: dict[str, Any] = {} if self.installed else {"adapter": self.adapter}
        with expected_warnings(), teacache.wrap(model, **own, **options) as handle:
            yield handle

    def run(
        self, model: Any, *, overrides: Mapping[str, Any] | None = None, **options: Any
    ) -> tuple[Latents, RunStats | None]:
        """Makes one picture with the wrapped model; the statistics are None where the run was not counted."""
        with self.wrapped(model, **options) as handle:
            latents = self.generate(model, handle, **(overrides or {}))
            return latents, handle.stats.last
