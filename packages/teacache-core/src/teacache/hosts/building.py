"""Meets mflux's pipelines where a script builds them: what they are built of, before and after, and what they make.

The constructors of some classes call back for the length of a `with` block; all is undone behind it. Imports no mflux.
"""

from __future__ import annotations

import functools
import inspect
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from teacache.changes import Changes
from teacache.hosts import LOADED_AS, Names, names_from_config

EULER = {"linear", "LinearScheduler", "flow_match_euler_discrete", "FlowMatchEulerDiscreteScheduler"}
"""What `--scheduler` calls the schedulers that take a carried velocity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A pipeline that a script is about to build: what it gives the constructor. Nothing is loaded yet.

    Attributes:
        cls: the class.
        model_config: mflux's configuration of the model.
        model_path: where the weights come from, where that is not the configuration's own name.
        lora_paths: the LoRA files.
        quantize: bits of the weights, None where they are not quantised.
        options: the script's options as it parsed them.
    """

    cls: type
    model_config: Any
    model_path: str | None = None
    lora_paths: tuple[str, ...] = ()
    quantize: int | None = None
    options: Namespace = field(default_factory=Namespace)

    @property
    def names(self) -> Names:
        """What the weights are called: a path says more than the configuration that mflux picked for it."""
        return names_from_config(self.model_config, path=self.model_path, altered=bool(self.lora_paths))

    @property
    def steps(self) -> int | None:
        """How many steps the script asks for."""
        return getattr(self.options, "steps", None)

    @property
    def carries_velocity(self) -> str | None:
        """Why a velocity cannot be carried through the scheduler that was asked for; None where it can."""
        scheduler = getattr(self.options, "scheduler", None)
        if scheduler is None or scheduler in EULER:
            return None
        return f"--scheduler {scheduler} takes no carried velocity. Leave it out, or use the gate (--threshold)."

    @property
    def guidance(self) -> float | None:
        """The strength of guidance: the script's option, else the pipeline's own default."""
        given: float | None = getattr(self.options, "guidance", None)
        if given is not None:
            return given
        default = inspect.signature(self.cls.generate_image).parameters.get("guidance")  # type: ignore[attr-defined]
        return None if default is None or default.default is inspect.Parameter.empty else default.default


Before = Callable[[Build], None]
After = Callable[[Any, Build], None]


@contextmanager
def met(classes: Sequence[type], parser: type | None, before: Before | None, after: After | None) -> Iterator[None]:
    """Calls back around each construction of these classes.

    Args:
        classes: the pipelines.
        parser: the class whose `parse_args` reads the script's options; None: they stay unknown.
        before: called before a pipeline's weights are loaded; what it raises ends the construction.
        after: called with the pipeline once it is built.
    """
    options = Namespace()
    hook = _Hook(options, before, after)
    with ExitStack() as changed:
        if parser is not None:
            changed.enter_context(_replaced(parser, "parse_args", _remembering(parser.parse_args, options)))  # type: ignore[attr-defined]
        for cls in classes:
            changed.enter_context(_replaced(cls, "__init__", hook.around(cls)))
        yield


@contextmanager
def watched(model: Any, done: Callable[[], None]) -> Iterator[None]:
    """Calls `done` after each picture that a wrapped pipeline has made, for the length of a `with` block."""
    original, changes = model.generate_image, Changes()

    @functools.wraps(original)
    def generate_image(*args: Any, **kwargs: Any) -> Any:
        image = original(*args, **kwargs)
        done()
        return image

    changes.set_attribute(model, "generate_image", generate_image)
    try:
        yield
    finally:
        changes.undo()


class _Hook:
    """What happens around the constructors. Only the outermost one counts: a constructor may call its base's."""

    def __init__(
        self,
        options: Namespace,
        before: Before | None,
        after: After | None,
    ) -> None:
        self._options, self._before, self._after = options, before, after
        self._building = False

    def around(self, cls: type) -> Callable[..., None]:
        original = cls.__init__  # type: ignore[misc]

        @functools.wraps(original)
        def init(model: Any, *args: Any, **kwargs: Any) -> None:
            if self._building:
                return original(model, *args, **kwargs)
            build = _build(type(model), original, (model, *args), kwargs, self._options)
            self._building = True
            try:
                if self._before is not None:
                    self._before(build)
                original(model, *args, **kwargs)
                if build.model_path is not None:
                    object.__setattr__(model, LOADED_AS, build.model_path)
                if self._after is not None:
                    self._after(model, build)
            finally:
                self._building = False

        return init


def _build(
    cls: type, constructor: Callable[..., None], args: tuple[Any, ...], kwargs: dict[str, Any], options: Namespace
) -> Build:
    bound = inspect.signature(constructor).bind_partial(*args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    return Build(
        cls=cls,
        model_config=given.get("model_config"),
        model_path=given.get("model_path"),
        lora_paths=tuple(given.get("lora_paths") or ()),
        quantize=given.get("quantize"),
        options=options,
    )


def _remembering(parse_args: Callable[..., Any], seen: Namespace) -> Callable[..., Any]:
    """Parses as before, and lets `seen` share what came out: scripts fill in defaults of their own later."""

    @functools.wraps(parse_args)
    def parse(*args: Any, **kwargs: Any) -> Any:
        parsed = parse_args(*args, **kwargs)
        seen.__dict__ = parsed.__dict__
        return parsed

    return parse


@contextmanager
def _replaced(cls: type, name: str, value: Any) -> Iterator[None]:
    """Puts a function into a class, and gives the class back as it was: what it inherits, it inherits again."""
    own = vars(cls).get(name)
    setattr(cls, name, value)
    try:
        yield
    finally:
        if own is None:
            delattr(cls, name)
        else:
            setattr(cls, name, own)
