"""One denoising run: its steps and their records. Made new for every run; nothing of it outlives the run.

Knows no host and no family. Must not import mflux.
"""

from __future__ import annotations

import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from teacache.errors import RunError, TeaCacheWarning
from teacache.stats import StepRecord
from teacache.walks import Args, Kwargs

if TYPE_CHECKING:
    from teacache.pieces import Pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """What a host knows when a run begins.

    Attributes:
        sigmas: noise level at the start of each step of the whole schedule, and at the last one's end: N + 1 numbers.
        first_step: index of the first step that runs (image-to-image starts late).
        image_tokens: tokens of the picture, as the host counts them; None where all image tokens are its.
        guidance: strength of guidance; None where the host knows none.
        carries_velocity: None where the host's step takes any velocity along its sigmas (an Euler step), so that a
            step's velocity may be carried over from others; else why it does not.
    """

    sigmas: tuple[float, ...]
    first_step: int = 0
    image_tokens: int | None = None
    guidance: float | None = None
    carries_velocity: str | None = None

    @property
    def steps(self) -> int:
        """How many steps run."""
        return len(self.sigmas) - 1 - self.first_step

    @property
    def active_sigmas(self) -> tuple[float, ...]:
        """The noise levels of the steps that run, and the end of the last."""
        return self.sigmas[self.first_step :]


OnStep = Callable[[StepRecord], None]


class Run(ABC):
    """What every kind of run has in common: the steps come one by one, and each leaves a record.

    Args:
        info: what the host knows.
        on_step: called with each record.
    """

    measures_body = False
    """The pieces hand out the body's output too."""

    def __init__(self, info: RunInfo, *, target: int | None = None, on_step: OnStep | None = None) -> None:
        self.info = info
        self.target = target
        self.records: list[StepRecord] = []
        self.thread = threading.get_ident()
        self.closed = False
        self._on_step = on_step
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Wall time since the run began."""
        return time.perf_counter() - self._started

    @property
    def complete(self) -> bool:
        """Whether every announced step has ended."""
        return len(self.records) >= self.info.steps

    @property
    def index(self) -> int:
        """The open step's index in the host's schedule."""
        return self.info.first_step + len(self.records)

    @abstractmethod
    def call(self, pieces: Pieces, args: Args, kwargs: Kwargs, key: Any = None) -> Any:
        """One call of the entry: all branches of a step, or one of them.

        Args:
            pieces: the entry's pieces.
            args: positional arguments of the call.
            kwargs: keyword arguments of the call.
            key: the object that tells this call's branch from the others (its text embeddings); None: order alone.

        Returns:
            What the entry returns, or a stand-in of its shape where the velocity is carried over.
        """

    def velocity(self, predicted: mx.array) -> mx.array:
        """The guided velocity that the host steps with: what was predicted, unless the run carries another over."""
        return predicted

    def end_step(self, index: int, latents: mx.array | None = None) -> StepRecord:
        """Ends a step: evaluates what it leaves behind, together with the latents, and records it.

        Args:
            index: the step's index in the host's schedule.
            latents: what the scheduler made of the step, shape and dtype as the host has it.

        Raises:
            RunError: the host ends another step than the one that is open.
        """
        if self.complete or index != self.index:
            raise RunError(
                f"The host ended step {index}, but step {self.index} of {len(self.info.sigmas) - 1} was open. "
                "Steps must come one by one; another callback or a changed loop skipped or repeated one."
            )
        record = self._finish(index, latents)
        self.records.append(record)
        if self._on_step is not None:
            self._on_step(record)
        return record

    def close(self) -> None:
        """Lets go of every array. What still asks for a velocity, in a loop that goes on, gets its own back."""
        self.closed = True

    @abstractmethod
    def _finish(self, index: int, latents: mx.array | None) -> StepRecord:
        """Evaluates what the step leaves behind and returns its record."""

    @staticmethod
    def _warn(warning: TeaCacheWarning) -> None:
        warnings.warn(warning, stacklevel=5)
