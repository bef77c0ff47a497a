"""Finds installed adapters. Must not import mlx, mflux or any adapter by name: entry points bring them, one by one."""

from __future__ import annotations

import functools
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_string
from importlib.metadata import EntryPoint, distributions
from typing import Literal

import pluggy

from teacache import hookspecs
from teacache.adapter import CONTRACT, Adapter
from teacache.errors import ContractVersionError, PluginError

log = logging.getLogger(__name__)

GROUP = "teacache"
DISABLE = "TEACACHE_DISABLE"


@dataclass(frozen=True, slots=True, repr=False)
class InstalledAdapter:
    """An adapter as it was found.

    Attributes:
        name: the adapter's name; the entry point's where no adapter came out of it.
        package: the distribution that brings it.
        version: of the distribution.
        status: "working"; "broken": its plugin failed; "disabled": TEACACHE_DISABLE names it, it was not imported;
            "incompatible": written for another version of the contract.
        adapter: None where the plugin is broken or disabled.
        error: what went wrong, with its traceback; None where nothing did.
    """

    name: str
    package: str
    version: str
    status: Literal["working", "broken", "disabled", "incompatible"]
    adapter: Adapter | None = None
    error: BaseException | None = None

    @property
    def reason(self) -> str:
        """Why it does not work, in one line; empty where it works."""
        if self.status == "disabled":
            return f"{DISABLE} names it"
        if self.error is None:
            return ""
        if self.status == "incompatible":
            return str(self.error)
        return f"{type(self.error).__name__}: {self.error}".partition("\n")[0]

    def __repr__(self) -> str:
        """What `teacache adapters` says of it; the description itself is in `adapter`."""
        why = f" ({self.reason})" if self.reason else ""
        return f"<InstalledAdapter {self.name} of {self.package} {self.version}: {self.status}{why}>"


class InstalledAdapters(tuple[InstalledAdapter, ...]):
    """What is installed: a tuple that prints as a table."""

    __slots__ = ()

    _HEADINGS = ("adapter", "package", "status", "pipelines")

    def __repr__(self) -> str:
        """A table in lines."""
        from teacache.report.notebook import table_text

        return table_text(self._HEADINGS, self._rows()) if self else "no adapter is installed"

    def _repr_html_(self) -> str:
        """For notebooks: a table."""
        from teacache.report.notebook import table_html

        return table_html(self._HEADINGS, self._rows())

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                row.name,
                f"{row.package} {row.version}",
                f"{row.status}: {row.reason}" if row.reason else row.status,
                ", ".join(pipeline.name for pipeline in row.adapter.pipelines) if row.adapter else "",
            )
            for row in self
        ]


@functools.cache
def discover() -> InstalledAdapters:
    """Returns all adapters in the order of their names. Each plugin is imported once per process; none can raise."""
    disabled = {name.strip() for name in os.environ.get(DISABLE, "").split(",")}
    found: list[InstalledAdapter] = []
    for package, version, entry_point in _entry_points():
        if isinstance(entry_point, Exception):
            found.append(InstalledAdapter(package, package, version, "broken", error=entry_point))
        elif entry_point.name in disabled:
            found.append(InstalledAdapter(entry_point.name, package, version, "disabled"))
        else:
            known = [row.adapter for row in found]
            found += (row for row in _rows(package, version, entry_point) if not _is_among(row.adapter, known))
    for row in found:
        log.debug("adapter %s of %s %s: %s", row.name, row.package, row.version, row.status, exc_info=row.error)
    return InstalledAdapters(sorted(found, key=lambda row: (row.name, row.package)))


def canonical(package: str) -> str:
    """Returns a distribution's name as packaging tools compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", package).lower()


def _entry_points() -> Iterator[tuple[str, str, EntryPoint | Exception]]:
    """Yields (package, version, entry point), or what is wrong with a package's list of them.

    `importlib.metadata.entry_points` is not used: an empty folder that an uninstallation left behind hides the
    package's real metadata from it, and one damaged list in any package stops it.
    """
    seen = set()
    for distribution in distributions():
        if f"[{GROUP}]" not in (distribution.read_text("entry_points.txt") or ""):
            continue
        fields = message_from_string(distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or "")
        package, version = fields["Name"], fields["Version"]
        if not package or not version or canonical(package) in seen:
            continue
        seen.add(canonical(package))
        try:
            entry_points = [entry for entry in distribution.entry_points if entry.group == GROUP]
        except (TypeError, ValueError) as error:  # what Python's versions raise for a line without "="
            yield package, version, error
            continue
        for entry_point in entry_points:
            yield package, version, entry_point


def _rows(package: str, version: str, entry_point: EntryPoint) -> list[InstalledAdapter]:
    """Loads one plugin, by itself, so that its failure is its own."""
    try:
        adapters = _load(entry_point)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything; raised when asked for
        return [InstalledAdapter(entry_point.name, package, version, "broken", error=error)]
    return [_row(package, version, adapter) for adapter in adapters]


def _row(package: str, version: str, adapter: Adapter) -> InstalledAdapter:
    if adapter.contract == CONTRACT:
        return InstalledAdapter(adapter.name, package, version, "working", adapter)
    error = ContractVersionError(
        f"The adapter {adapter.name!r} of {package} {version} is written for contract {adapter.contract!r}; this "
        f"teacache-core has contract {CONTRACT}. Run: pip install --upgrade teacache-core {package}"
    )
    return InstalledAdapter(adapter.name, package, version, "incompatible", adapter, error)


def _load(entry_point: EntryPoint) -> list[Adapter]:
    """Imports a plugin, checks its hooks and returns its adapters."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(entry_point.load())
    manager.check_pending()
    hook = manager.hook.teacache_adapters
    if not hook.get_hookimpls():
        raise PluginError(
            f"{entry_point.value} implements no hook; expected a function teacache_adapters marked with "
            "@teacache.hookimpl. Add it, or point the entry point to the module that has it."
        )
    adapters: list[Adapter] = []
    for result in hook() or [None]:
        listed = list(result) if hasattr(result, "__iter__") else [result]
        if not hasattr(result, "__iter__") or not all(isinstance(item, Adapter) for item in listed):
            raise PluginError(
                f"The hook teacache_adapters of {entry_point.value} returned {result!r}; expected a list of "
                "teacache.Adapter objects. Correct the hook."
            )
        adapters += listed
    return adapters


def _is_among(adapter: Adapter | None, known: list[Adapter | None]) -> bool:
    return adapter is not None and any(adapter is other for other in known)
