"""Which adapter serves a model. Must not import mlx or mflux; adapters come from `teacache.discovery` alone."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files

from teacache.adapter import CONTRACT, Adapter, Pipeline
from teacache.discovery import DISABLE, InstalledAdapter, InstalledAdapters, canonical, discover
from teacache.errors import (
    AdapterNotInstalledError,
    AmbiguousAdapterError,
    ContractVersionError,
    OptionError,
    PluginError,
    TeaCacheError,
    UnknownModelError,
    UnsupportedPipelineError,
)

__all__ = ["InstalledAdapter", "adapters", "clear_cache", "find_adapter", "get_adapter"]


def adapters() -> InstalledAdapters:
    """Returns what is installed: name, package, version, and whether it works or why not. It prints as a table."""
    return discover()


def clear_cache() -> None:
    """Makes the next call look for plugins again. Modules that were imported stay imported."""
    discover.cache_clear()


def find_adapter(model_or_cls: object, *, adapter: str | Adapter | None = None) -> tuple[Adapter, Pipeline]:
    """Returns the adapter that serves a model, and which of its pipelines the model is.

    Args:
        model_or_cls: a model, or its class.
        adapter: a name ("flux2"), a name with its package ("teacache-flux2:flux2"), or an adapter object; None: the
            installed one that describes the class.

    Raises:
        UnknownModelError: nothing describes the class.
        AdapterNotInstalledError: a known package would; it is not installed, or disabled.
        UnsupportedPipelineError: the family is known, and this class of it cannot be cached.
        AmbiguousAdapterError: two packages claim the class or the name.
        PluginError: the plugin that would serve the class is broken; the cause is attached.
        ContractVersionError: the adapter is written for another version of the contract.
        OptionError: `adapter` is something else.
    """
    cls = model_or_cls if isinstance(model_or_cls, type) else type(model_or_cls)
    if adapter is None:
        found = _claimant(cls)
    elif isinstance(adapter, str):
        found = get_adapter(adapter)
    elif isinstance(adapter, Adapter):
        found = _compatible(adapter)
    else:
        raise OptionError(
            f"adapter={adapter!r}: expected an adapter's name, an Adapter object or None. "
            "`teacache adapters` lists the names."
        )
    pipeline = found.pipeline_for(cls)
    if pipeline is None:
        why = (found.refusal_for(cls) or "it is not among the pipelines that the adapter describes").rstrip(".")
        raise UnsupportedPipelineError(
            f"{cls.__qualname__} cannot be cached by the adapter {found.name!r}: {why}. Supported are "
            f"{_pipelines(found)}. The model is unchanged and can be used without teacache."
        )
    return found, pipeline


def get_adapter(name: str) -> Adapter:
    """Returns the working adapter of that name.

    Args:
        name: "flux2", or "teacache-flux2:flux2" where two packages bring one of that name.

    Raises:
        AdapterNotInstalledError, AmbiguousAdapterError, PluginError, ContractVersionError: as for `find_adapter`.
    """
    package, _, family = name.rpartition(":")
    rows = [row for row in discover() if row.name == family and canonical(package) in ("", canonical(row.package))]
    working = _working(rows)
    if len(working) > 1:
        raise _ambiguous(f"the name {name!r}", working)
    if working:
        return working[0].adapter
    if rows:
        raise _set_aside(rows[0]) from rows[0].error
    known = next((known for known in _known_adapters() if known.family == family), None)
    if known is not None and canonical(package) in ("", known.package):
        raise _not_installed(f"The adapter {family!r}", known)
    raise AdapterNotInstalledError(
        f"There is no adapter {name!r}; installed are "
        f"{', '.join(sorted({row.name for row in discover()})) or 'none'}. Install the package that brings it."
    )


def missing_package(checkpoint: str) -> str | None:
    """Returns the package that serves a checkpoint of this name, if one is known and it is not installed."""
    known = next((known for known in _known_adapters() if known.has(checkpoint)), None)
    installed = {canonical(row.package) for row in discover()}
    return None if known is None or known.package in installed else known.package


@dataclass(frozen=True, slots=True)
class _Known:
    """A row of known_adapters.toml: models from below `module`, with weights so called, are served by `package`."""

    family: str
    package: str
    module: str
    checkpoints: tuple[str, ...]

    def has(self, checkpoint: str) -> bool:
        """Tells whether weights of this name are its models'."""
        return any(fnmatchcase(checkpoint, pattern) for pattern in self.checkpoints)


@dataclass(frozen=True, slots=True)
class _Working:
    """An adapter that works, and the package that brings it."""

    package: str
    adapter: Adapter


@functools.cache
def _known_adapters() -> tuple[_Known, ...]:
    text = (files("teacache") / "known_adapters.toml").read_text(encoding="utf-8")
    return tuple(_Known(**row) for row in tomllib.loads(text)["adapter"])


def _working(rows: Iterable[InstalledAdapter]) -> list[_Working]:
    return [_Working(row.package, row.adapter) for row in rows if row.adapter is not None and row.status == "working"]


def _claimant(cls: type) -> Adapter:
    """Returns the one adapter whose family a class belongs to."""
    rows = discover()
    working = _working(rows)
    claims = [row for row in working if row.adapter.pipeline_for(cls) is not None]
    if claims:
        names = {row.adapter.name for row in claims}
        rivals = [row for row in working if row.adapter.name in names]
        if len(rivals) > 1:
            raise _ambiguous(cls.__qualname__ if len(claims) > 1 else f"the name {claims[0].adapter.name!r}", rivals)
        return claims[0].adapter
    for row in working:
        if row.adapter.refusal_for(cls) is not None:
            return row.adapter
    for installed in rows:
        if installed.status == "incompatible" and installed.adapter and installed.adapter.pipeline_for(cls):
            raise _set_aside(installed)
    known = _known_for(cls)
    if known is None:
        raise _unknown(cls, rows)
    family = [row for row in rows if canonical(row.package) == known.package]
    family = family or [row for row in rows if row.name == known.family]
    if not family:
        raise _not_installed(cls.__qualname__, known)
    for row in _working(family):
        return row.adapter
    raise _set_aside(family[0]) from family[0].error


def _known_for(cls: type) -> _Known | None:
    """Returns the known package for a class, or for one that it derives from."""
    modules = [f"{base.__module__}." for base in cls.__mro__]
    return next(
        (known for known in _known_adapters() if any(module.startswith(f"{known.module}.") for module in modules)), None
    )


def _compatible(adapter: Adapter) -> Adapter:
    if adapter.contract != CONTRACT:
        raise ContractVersionError(
            f"The adapter {adapter.name!r} is written for contract {adapter.contract!r}; this teacache-core has "
            f"contract {CONTRACT}. Rewrite it for this contract, or run: pip install --upgrade teacache-core"
        )
    return adapter


def _set_aside(row: InstalledAdapter) -> TeaCacheError:
    """Returns the error for an adapter that is installed and does not work."""
    if row.status == "incompatible":
        return ContractVersionError(row.reason)
    if row.status == "disabled":
        return AdapterNotInstalledError(
            f"The adapter {row.name!r} of {row.package} {row.version} is disabled: {DISABLE} names it. "
            f"Take {row.name!r} out of {DISABLE} and start again."
        )
    return PluginError(
        f"The plugin {row.name!r} of {row.package} {row.version} is broken ({row.reason}). "
        f"Run: pip install --upgrade --force-reinstall {row.package}"
    )


def _not_installed(what: str, known: _Known) -> AdapterNotInstalledError:
    return AdapterNotInstalledError(
        f"{what} belongs to {known.package}, which is not installed. Run: pip install {known.package}, or in a clone: "
        f"uv pip install -e packages/{known.package}"
    )


def _ambiguous(what: str, rivals: list[_Working]) -> AmbiguousAdapterError:
    names = [f"{row.package}:{row.adapter.name}" for row in rivals]
    return AmbiguousAdapterError(
        f"{' and '.join(names)} both claim {what}; expected one. Say which, for example adapter={names[0]!r}, "
        "or uninstall one of the two packages."
    )


def _unknown(cls: type, rows: tuple[InstalledAdapter, ...]) -> UnknownModelError:
    served = "; ".join(f"{row.adapter.name}: {_pipelines(row.adapter)}" for row in _working(rows))
    aside = "".join(
        f" {row.name!r} of {row.package} {row.version} was set aside ({row.reason})."
        for row in rows
        if row.status != "working"
    )
    return UnknownModelError(
        f"No adapter describes {cls.__module__}.{cls.__qualname__}; installed adapters serve {served or 'nothing'}."
        f"{aside} Install the adapter of its family, or describe it: adapter=teacache.Adapter(...)."
    )


def _pipelines(adapter: Adapter) -> str:
    return ", ".join(pipeline.name for pipeline in adapter.pipelines)
