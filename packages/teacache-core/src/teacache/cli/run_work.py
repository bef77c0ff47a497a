"""What `teacache run` does: decides before the weights are loaded, wraps, and reports. Imports mlx through `wrap`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from teacache.cli import say
from teacache.cli.console import as_options
from teacache.cli.run_outlook import Outlook, outlook
from teacache.errors import (
    AdapterNotInstalledError,
    DistilledWarning,
    NothingReusedWarning,
    OptionError,
    TeaCacheWarning,
    UnknownModelError,
    UnsupportedPipelineError,
)
from teacache.hosts.building import Build, watched
from teacache.hosts.scripts import PACKAGE, Script, find_script
from teacache.options import Options
from teacache.plugins import find_adapter

if TYPE_CHECKING:
    from teacache.stats import RunStats

SAID_BY_ITSELF = (DistilledWarning, NothingReusedWarning)
"""Warnings whose news the command has in its own lines."""


class Work:
    """One command of mflux, and what was asked of the cache.

    Args:
        name: the command.
        arguments: its options.
        options: the cache's.
        checkpoint: the user's word on which weights they are.

    Raises:
        OptionError: mflux has no such command.
        MissingDependencyError: mflux is not installed.
    """

    def __init__(self, name: str, arguments: Sequence[str], options: Options, *, checkpoint: str | None) -> None:
        self._script: Script = find_script(name)
        self._arguments = arguments
        self._options = options
        self._checkpoint = checkpoint

    def describe(self) -> list[str]:
        """Runs the command until it would load weights; returns what would be done with them.

        Raises:
            UnsupportedPipelineError: no adapter serves the command.
        """
        refusal = self._refusal()
        if refusal is not None:
            raise UnsupportedPipelineError(f"{refusal} Add --anyway to run it without the cache.")
        try:
            self._script.run(self._arguments, before=self._stop)
        except _Stop as stop:
            return stop.outlook.lines(self._script.name)
        except Exception as error:
            if type(error).__module__.partition(".")[0] != PACKAGE:
                raise
            raise OptionError(f"{self._script.name} would end before it loads a model: {error}") from error
        raise OptionError(f"{self._script.name} ended before it loaded a model: there is nothing to cache.")

    def run(self, *, anyway: bool) -> None:
        """Runs the command with the cache, and ends with its exit code.

        Args:
            anyway: run it plainly where no adapter serves it.

        Raises:
            UnsupportedPipelineError: no adapter serves the command.
        """
        refusal = self._refusal()
        if refusal is not None:
            if not anyway:
                raise UnsupportedPipelineError(f"{refusal} Add --anyway to run it without the cache.")
            say(f"{refusal} It runs without the cache.")
            _leave(self._script.run(self._arguments))
            return
        with ExitStack() as wrapped, _as_options():
            code = self._script.run(
                self._arguments, before=self._advise, after=lambda model, build: self._wrap(model, build, wrapped)
            )
        _leave(code)

    def _refusal(self) -> str | None:
        """Why no adapter serves the script, by the classes that it imports: neither weights nor options are needed."""
        why = "it makes no pictures."
        for cls in self._script.pipelines:
            try:
                find_adapter(cls)
            except UnknownModelError:
                why = f"no installed adapter describes {cls.__name__} (`teacache adapters` lists them)."
            except (AdapterNotInstalledError, UnsupportedPipelineError) as error:
                why = str(error).partition(" The model is unchanged")[0]
            else:
                return None
        return f"{self._script.name} cannot be cached: {why}"

    def _outlook(self, build: Build) -> Outlook:
        return outlook(build, self._script, self._options, checkpoint=self._checkpoint)

    def _stop(self, build: Build) -> None:
        raise _Stop(self._outlook(build))

    def _advise(self, build: Build) -> None:
        for line in self._outlook(build).advice:
            say(line)

    def _wrap(self, model: Any, build: Build, wrapped: ExitStack) -> None:
        from teacache.wrapping import wrap

        options = self._options
        handle = wrap(
            model,
            speedup=options.speedup,
            computed_steps=options.computed_steps,
            plan=options.plan,
            threshold=options.threshold,
            checkpoint=self._checkpoint,
        )
        wrapped.enter_context(handle)
        told = 0

        def report() -> None:
            nonlocal told
            runs = handle.stats.runs
            for run in runs[told:]:
                say(summary(run))
            if len(runs) == told:
                say("the picture was made without the cache.")
            told = len(runs)

        wrapped.enter_context(watched(model, report))


def summary(run: RunStats) -> str:
    """One line for a picture: how many steps were reused and what decided, or why none."""
    return as_options(str(run))


class _Stop(BaseException):
    """Ends a script before it loads weights. No `except Exception` of the script's own may catch it."""

    def __init__(self, outlook: Outlook) -> None:
        super().__init__()
        self.outlook = outlook


def _leave(code: Any) -> None:
    """Ends as the script's own entry point does: `sys.exit(main())`."""
    if code is not None and code != 0:
        raise SystemExit(code)


@contextmanager
def _as_options() -> Iterator[None]:
    """Shows each warning of teacache once, in the words of the command line; the command's own lines replace some."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def shown(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, SAID_BY_ITSELF):
                return
            if issubclass(category, TeaCacheWarning):
                message = category(as_options(str(message)))
            show(message, category, *where, **more)

        warnings.showwarning = shown
        yield
