"""mflux's console scripts: which there are, what they build, and running one in this process.

Imports mflux through the script alone; its own code runs unchanged.
"""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from types import ModuleType
from typing import Any

from teacache.errors import MissingDependencyError, OptionError
from teacache.hosts.building import After, Before, met

PACKAGE = "mflux"
PREFIX = "mflux-generate"


@dataclass(frozen=True, slots=True)
class Script:
    """One of mflux's console scripts.

    Attributes:
        name: as it is typed.
        module: where its `main` is.
        pipelines: the classes that it imports and that make pictures; none for a script that makes no pictures.
    """

    name: str
    module: ModuleType
    pipelines: tuple[type, ...]

    def takes(self, model: str) -> bool:
        """Whether `--model` takes this name: a script for one family lists its own."""
        default = getattr(self.module, "DEFAULT_MODEL", None)
        return default is None or model in (default, *getattr(self.module, "FAMILY_MODELS", ()))

    def run(
        self,
        arguments: Sequence[str],
        *,
        before: Before | None = None,
        after: After | None = None,
    ) -> Any:
        """Runs the script in this process, as its own command would.

        Args:
            arguments: what follows its name.
            before: called before a pipeline's weights are loaded; what it raises ends the script.
            after: called with the pipeline once it is built.

        Returns:
            What the script's `main` returns. `SystemExit` and every other exception pass through.
        """
        with ExitStack() as changed:
            changed.enter_context(_argv([self.name, *arguments]))
            if before is not None or after is not None:
                parser = getattr(self.module, "CommandLineParser", None)
                changed.enter_context(met(self.pipelines, parser, before, after))
            return self.module.main()


def find_script(name: str) -> Script:
    """Returns the console script of that name. This imports it, and mflux with it.

    Raises:
        MissingDependencyError: mflux is not installed.
        OptionError: it has no such script.
    """
    known = script_modules()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1) or [f"{PREFIX}-qwen"]
        raise OptionError(
            f"{name!r} is no command of {PACKAGE}. Did you mean {near[0]}? Expected is one of mflux's own commands, as "
            f"in: teacache run -- {near[0]} --help"
        )
    module = importlib.import_module(known[name])
    return Script(name, module, _pipelines(module))


def script_modules() -> dict[str, str]:
    """Returns the modules of mflux's console scripts by their names. Imports none of them.

    Raises:
        MissingDependencyError: mflux is not installed.
    """
    try:
        entries = distribution(PACKAGE).entry_points
    except PackageNotFoundError as error:
        raise MissingDependencyError(
            f"{PACKAGE} is not installed, and its commands with it. Run: pip install {PACKAGE}"
        ) from error
    return {entry.name: entry.module for entry in entries if entry.group == "console_scripts" and entry.attr == "main"}


def _pipelines(module: ModuleType) -> tuple[type, ...]:
    """The classes that a script imports to make pictures with.

    `mflux-save` builds pipelines of all families and registers no callbacks: it makes no pictures.
    """
    if not hasattr(module, "CallbackManager"):
        return ()
    found = {value: None for value in vars(module).values() if isinstance(value, type)}
    return tuple(cls for cls in found if callable(getattr(cls, "generate_image", None)))


@contextmanager
def _argv(arguments: list[str]) -> Iterator[None]:
    """Puts the script's own command line where mflux also reads it by itself, past its parser."""
    before = sys.argv
    sys.argv = arguments
    try:
        yield
    finally:
        sys.argv = before
