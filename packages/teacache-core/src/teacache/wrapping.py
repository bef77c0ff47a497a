"""`wrap` and the handle: what a user touches."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal

from teacache.errors import (
    AlreadyWrappedError,
    CompileOptionError,
    DistilledWarning,
    ForeignWrapperError,
    NoCalibrationWarning,
    OptionError,
    TeaCacheWarning,
    UntestedVersionWarning,
)

if TYPE_CHECKING:
    from teacache.adapter import Adapter, Pipeline
    from teacache.hosts import Host
    from teacache.hosts.loop import LoopRun
    from teacache.identity import Identity
    from teacache.options import Options
    from teacache.session import Session
    from teacache.stats import Stats, StepRecord
    from teacache.verification import Verification, Verifier

log = logging.getLogger(__name__)

Mode = Literal["cache", "shadow"]
Reconstruction = Literal["reuse", "linear"]


class Handle:
    """A wrapped model. Leaving its `with` block, or `restore()`, gives the model back exactly as it was.

    Attributes:
        adapter: the adapter that describes the model.
        identity: which checkpoint the model holds, and how surely.
    """

    def __init__(
        self,
        model: Any,
        adapter: Adapter,
        identity: Identity,
        session: Session,
        restore: Callable[[], None],
        verifier: Verifier | None = None,
    ) -> None:
        self.adapter = adapter
        self.identity = identity
        self._model = weakref.ref(model)
        self._session = session
        self._restore = restore
        self._verifier = verifier

    @property
    def stats(self) -> Stats:
        """The finished runs."""
        return self._session.stats

    @property
    def verification(self) -> Verification | None:
        """What `verify=True` found; None before the first computed step, or where nobody asked for it."""
        return None if self._verifier is None else self._verifier.result

    def restore(self) -> None:
        """Gives the model back exactly as it was. Calling it again does nothing.

        Raises:
            RestoreError: something was changed on top of what `wrap` changed; undo that, then call again.
        """
        self._session.close()
        self._restore()

    def run(
        self, sigmas: Sequence[float], *, image_tokens: int | None = None, guidance: float | None = None
    ) -> AbstractContextManager[LoopRun]:
        """Opens a run for a loop of your own (models outside mflux).

        Args:
            sigmas: the schedule's noise levels, one per step and the last one's end.
            image_tokens: how many of the image stream's tokens become the picture; None for all.
            guidance: strength of guidance, where the calibration asks for it.

        Returns:
            A context manager over the steps: ``with handle.run(sigmas) as steps: for k in steps:``. With a plan
            (`speedup=`), step with ``steps.velocity(prediction)``.

        Raises:
            OptionError: the model has a loop of its own, or there are fewer than two noise levels.
        """
        from teacache.hosts.loop import loop_run
        from teacache.run import RunInfo

        if self.adapter.host != "loop":
            raise OptionError(
                f"{type(self._model()).__name__} runs in {self.adapter.host}'s own loop. Call its generate_image(...) "
                "instead of opening a run."
            )
        info = RunInfo(sigmas=tuple(map(float, sigmas)), image_tokens=image_tokens, guidance=guidance)
        return loop_run(self._session, info)

    def __enter__(self) -> Handle:
        """Returns the handle."""
        return self

    def __exit__(self, *_: object) -> None:
        """Restores the model."""
        self.restore()

    def __str__(self) -> str:
        """One line for the last run: how many steps were reused, or why none."""
        return str(self.stats)

    def __repr__(self) -> str:
        """The model, its checkpoint and the number of runs."""
        state = "restored" if self._session.closed else f"{len(self.stats.runs)} runs"
        return f"<teacache.Handle {self.adapter.name} {self.identity.checkpoint or 'unknown checkpoint'}: {state}>"

    def _repr_html_(self) -> str:
        """For notebooks: the model and all runs, the last one first."""
        from html import escape

        from teacache.report.notebook import runs_html

        return f"<div><div>{escape(repr(self))}</div>{runs_html(self.stats.runs)}</div>"


def wrap(
    model: Any,
    *,
    threshold: float | None = None,
    coefficients: Sequence[float] | None = None,
    speedup: float | None = None,
    computed_steps: int | None = None,
    plan: Sequence[int] | None = None,
    warmup: int = 1,
    cooldown: int = 1,
    max_reuse: int = 8,
    mode: Mode = "cache",
    reconstruction: Reconstruction = "reuse",
    compile: bool | None = None,
    verify: bool = False,
    adapter: str | Adapter | None = None,
    checkpoint: str | None = None,
    on_step: Callable[[StepRecord], None] | None = None,
) -> Handle:
    """Puts the step cache around a model. Its own `generate_image` then reuses the steps that change little.

    Args:
        model: a pipeline that an installed adapter describes (`teacache.adapters()` lists them).
        threshold: how much predicted change may add up before a step is computed; from 0 (off: the plain path, bit
            for bit) up. None takes the calibrated one.
        coefficients: a polynomial of your own for the gate: five numbers, highest power first. It is used for every
            recipe and without a range, and needs `threshold`.
        speedup: how many times fewer steps are to be computed, for example 2.0. The steps are planned from a recording
            of this very model; where there is none yet, the first picture is computed in full and recorded.
        computed_steps: the same wish as a number of steps.
        plan: the indices of the computed steps, counted within the run; first and last are added.
        warmup: how many steps at the start are always computed (at least 1).
        cooldown: how many steps at the end are always computed (at least 1).
        max_reuse: most steps in a row that are reused.
        mode: ``"cache"``, or ``"shadow"``: the gate runs and records, and every step is computed and measured.
        reconstruction: what stands in for the body on a step that the gate reuses: ``"reuse"``: the residual of the
            last computed step; ``"linear"``: the line in sigma through those of the last two.
        compile: None follows the pipeline; True or False force `mx.compile` where the pipeline has a predict
            function.
        verify: on the first computed step, run the untouched and the traced path once and compare them within the
            adapter's tolerance: `Handle.verification` has the result. It costs two more forwards.
        adapter: which adapter to use, by name, where several claim the model; or an `Adapter` of your own.
        checkpoint: which checkpoint the model holds, where its name does not say so.
        on_step: called with the record of each step as it ends.

    Returns:
        The handle: a context manager, with `stats` and `restore()`.

    Raises:
        UnknownModelError: no adapter describes the model.
        AdapterNotInstalledError: a known package would; the message has the line to install it.
        UnsupportedPipelineError: the family is known, this pipeline of it is not cacheable.
        AlreadyWrappedError: the model, or a pipeline that shares its transformer, is wrapped.
        OptionError: an option has an impossible value (ThresholdError, CoefficientsError, CompileOptionError).
    """
    from teacache.boundary import Boundary
    from teacache.changes import Changes
    from teacache.fingerprint import fingerprint
    from teacache.given import check_given
    from teacache.hosts import host_for
    from teacache.options import Options
    from teacache.plugins import adapters, find_adapter
    from teacache.selection import Selection
    from teacache.session import Session
    from teacache.verification import Verifier

    check_given(model, adapter)
    options = Options(
        threshold=threshold,
        coefficients=coefficients,
        speedup=speedup,
        computed_steps=computed_steps,
        plan=plan,
        warmup=warmup,
        cooldown=cooldown,
        max_reuse=max_reuse,
        mode=mode,
        reconstruction=reconstruction,
    )
    found, pipeline = find_adapter(model, adapter=adapter)
    transformer = _transformer(model, found, pipeline)
    _check_compile(compile, model, pipeline)
    host = host_for(found.host)
    reference = weakref.ref(transformer)
    selection = Selection.of(
        found,
        pipeline,
        host.names(model),
        options,
        checkpoint=checkpoint,
        fingerprint=lambda: fingerprint(reference()),
    )
    identity = selection.identity
    log.debug(
        "wrapping a %s with the adapter %s: checkpoint %s (%s)",
        type(model).__name__, found.name, identity.checkpoint, identity.level,
    )  # fmt: skip
    boundary = Boundary(found.body, found.signal, batch=found.branches_in_batch)
    verifier = Verifier(found) if verify else None
    session = Session(
        boundary,
        selection.choose,
        compile=compile,
        on_step=on_step,
        verify=verifier,
        packages=tuple(row.package for row in adapters() if row.adapter is found),
    )
    for warning in _warnings(selection.identity, options, found, host):
        session.warn(warning)
    changes = Changes()
    try:
        boundary.install(transformer, changes)
        if not pipeline.factories:
            boundary.on_call = lambda entry, args, kwargs: session.traced_call(entry, args, kwargs, found.branch_key)
        host.install(model, pipeline, session, changes)
        return Handle(model, found, selection.identity, session, changes.undo, verifier)
    except BaseException:
        changes.undo()
        raise


def _transformer(model: Any, adapter: Adapter, pipeline: Pipeline) -> Any:
    """The model's transformer, checked to be the class that the adapter describes and to be free."""
    from teacache.adapter import class_matches

    transformer = model if pipeline.transformer is None else getattr(model, pipeline.transformer, None)
    if transformer is None:
        raise OptionError(
            f"{type(model).__name__}.{pipeline.transformer} is None: its weights were freed (low-RAM mode does so "
            "after a picture). Load the model again, then wrap it."
        )
    if hasattr(type(transformer), "teacache_boundary"):
        raise AlreadyWrappedError(
            f"The {type(transformer).__name__} of this {type(model).__name__} is wrapped already, through this model "
            "or one that shares it. Call restore() on the first handle, then wrap again with the new options."
        )
    if not class_matches(type(transformer), adapter.transformer):
        raise ForeignWrapperError(
            f"{type(model).__name__}.{pipeline.transformer} is a {type(transformer).__module__}."
            f"{type(transformer).__qualname__}, but the adapter {adapter.name!r} describes {adapter.transformer}. "
            "If another tool replaced it, undo that first, then wrap again."
        )
    return transformer


def _check_compile(compile: bool | None, model: Any, pipeline: Pipeline) -> None:
    if compile is not None and not isinstance(compile, bool):
        raise CompileOptionError(f"compile={compile!r} was given; expected None, True or False.")
    if compile is not None and not pipeline.factories:
        raise CompileOptionError(
            f"compile={compile} was given, but {type(model).__name__} calls its transformer directly: there is no "
            "predict function to compile, and it runs eagerly. Leave compile out."
        )


def _warnings(identity: Identity, options: Options, adapter: Adapter, host: Host) -> Iterator[TeaCacheWarning]:
    """What the user must know before the first run."""
    version, tested = host.version(), adapter.host_versions
    if version is not None and tested is not None and _parts(version) > _parts(tested[1]):
        yield UntestedVersionWarning(
            f"{adapter.host} {version} is newer than the versions that the adapter {adapter.name!r} was tested with "
            f"({tested[0]} to {tested[1]}). `teacache doctor` checks this machine."
        )
    calibration = identity.calibration
    if calibration is not None and calibration.distilled and not options.off:
        yield DistilledWarning(
            f"{identity.checkpoint} is distilled to a few steps, each of which changes much: little or nothing will "
            "be reused. A base checkpoint at 25 to 50 steps gains."
        )
    elif options.wants_polynomial:
        if identity.level == "declared":
            yield NoCalibrationWarning(
                f"The weights are declared to derive from {identity.checkpoint}, which is not proof that its numbers "
                f"fit them: they are not used. Say wrap(model, checkpoint={identity.checkpoint!r}) to use them all the "
                "same."
            )
        elif options.threshold is not None and (calibration is None or calibration.gate is None):
            yield NoCalibrationWarning(
                f"There is no polynomial for {identity.checkpoint or 'this model'}, so threshold= cannot work: every "
                "step is computed and measured. Leave threshold out to have the model recorded and planned, or give "
                "coefficients= too."
            )


def _parts(version: str) -> tuple[int, ...]:
    """Major and minor, for comparing with the tested range."""
    return tuple(int("".join(filter(str.isdigit, part)) or 0) for part in version.split(".")[:2])
