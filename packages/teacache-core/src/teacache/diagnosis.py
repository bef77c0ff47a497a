"""What works on this machine, and what to do about what does not. For `teacache doctor`.

Imports mflux only to see whether it can be imported, inside a function.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from teacache.adapter import Adapter
from teacache.calibration import load_calibrations
from teacache.discovery import DISABLE, InstalledAdapter
from teacache.errors import CalibrationError, KernelError, ToleranceError
from teacache.plugins import adapters
from teacache.store import Store
from teacache.tolerance import load_tolerance

OLDEST_PYTHON = (3, 11)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: what.
        status: "ok"; "note": worth knowing, everything works; "fault": something does not work.
        says: what was found.
        remedy: what to do; empty where there is nothing.
        plugin: it is about one adapter; a fault of it leaves everything else working.
    """

    name: str
    status: Literal["ok", "note", "fault"]
    says: str
    remedy: str = ""
    plugin: bool = False


def diagnose() -> list[Finding]:
    """Looks at everything that a wrapped model needs. Loads MLX and mflux's classes, no model."""
    backend = _mlx()
    rows = adapters()
    working = backend.status == "ok"
    return [
        _python(),
        backend,
        *([_compile()] if working else []),
        _host(rows),
        *(replace(finding, plugin=True) for row in rows for finding in _adapter(row)),
        *([] if rows else [_none()]),
        _recordings(),
    ]


def _python() -> Finding:
    found = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        return Finding(name="Python", status="fault", says=found, remedy="Install Python 3.11 or newer.")
    return Finding(name="Python", status="ok", says=f"{found} on {platform.system()} {platform.machine()}")


def _mlx() -> Finding:
    """MLX imports and computes. Its Linux wheel brings no backend of its own."""
    on_linux = sys.platform.startswith("linux")
    installed = _version("mlx")
    remedy = "Run: pip install --upgrade mlx"
    if on_linux:
        # The same version: mflux allows one minor version of MLX only.
        pin = "" if installed is None else f"=={installed}"
        remedy = f"Run: pip install 'mlx[cpu]{pin}' (with an NVIDIA GPU: 'mlx[cuda13]{pin}')"
    try:
        import mlx.core as mx

        right = bool((mx.arange(4).sum() == 6).item())
        device = mx.default_device().type.name
    except (ImportError, OSError, RuntimeError) as error:
        missing = "has no backend" if on_linux and installed else "does not load"
        return Finding(name="MLX", status="fault", says=f"MLX {missing} ({error})", remedy=remedy)
    if not right:
        return Finding(name="MLX", status="fault", says="MLX adds wrongly", remedy=remedy)
    metal = "" if on_linux or device == "gpu" else "; Metal is not available"
    return Finding(name="MLX", status="ok", says=f"{installed}, device {device}{metal}")


def _compile() -> Finding:
    """`mx.compile` gives what the plain function gives. Its CPU backend calls a C++ compiler at run time."""
    import mlx.core as mx

    if os.environ.get("MLX_DISABLE_COMPILE"):
        says = "mx.compile is off: MLX_DISABLE_COMPILE is set"
        return Finding(name="mx.compile", status="note", says=says, remedy="Unset it for speed.")

    def function(x: mx.array) -> mx.array:
        return mx.exp(x) * x + mx.sin(x)

    x = mx.linspace(0, 1, 17)
    try:
        near = bool(mx.allclose(mx.compile(function)(x), function(x), atol=1e-5).item())
    except (RuntimeError, OSError) as error:
        compiler = "apt install g++" if sys.platform.startswith("linux") else "xcode-select --install"
        return Finding(
            name="mx.compile",
            status="fault",
            says=f"a compiled function fails ({str(error).splitlines()[0]})",
            remedy=f"Install a C++ compiler ({compiler}), or set MLX_DISABLE_COMPILE=1.",
        )
    if not near:
        says = "a compiled function gives other numbers than the plain one"
        return Finding(name="mx.compile", status="fault", says=says, remedy="Set MLX_DISABLE_COMPILE=1.")
    return Finding(name="mx.compile", status="ok", says="works")


def _host(rows: tuple[InstalledAdapter, ...]) -> Finding:
    """Mflux lies in the range that the adapters were tested with."""
    needing = [row.adapter for row in rows if row.adapter is not None and row.adapter.host == "mflux"]
    installed = _version("mflux")
    if installed is None:
        remedy = "Run: pip install mflux" if needing else ""
        return Finding(name="mflux", status="fault" if needing else "note", says="not installed", remedy=remedy)
    outside = [adapter for adapter in needing if not _inside(installed, adapter)]
    if outside:
        ranges = ", ".join(f"{one.name}: {'-'.join(one.host_versions or ())}" for one in outside)
        return Finding(
            name="mflux",
            status="note",
            says=f"{installed}, which these adapters were not tested with ({ranges})",
            remedy="Run: teacache check",
        )
    return Finding(name="mflux", status="ok", says=f"{installed}, tested with {len(needing)} of the installed adapters")


def _inside(installed: str, adapter: Adapter) -> bool:
    if adapter.host_versions is None:
        return True
    oldest, newest = map(_parts, adapter.host_versions)
    return oldest <= _parts(installed) <= newest


def _adapter(row: InstalledAdapter) -> Iterator[Finding]:
    where = f"{row.package} {row.version}"
    if row.status == "disabled":
        remedy = f"Take {row.name!r} out of {DISABLE} to use it."
        yield Finding(name=row.name, status="note", says=f"{where}: {row.reason}", remedy=remedy)
        return
    if row.adapter is None or row.status != "working":
        again = f"Run: pip install --upgrade --force-reinstall {row.package}"
        repair = "" if row.status == "incompatible" else f"{again}. "  # the reason has the line already
        remedy = f"{repair}To leave it out: export {DISABLE}={row.name}"
        yield Finding(name=row.name, status="fault", says=f"{where} is {row.status}: {row.reason}", remedy=remedy)
        return
    try:
        known = () if row.adapter.calibrations is None else load_calibrations(row.adapter.calibrations)
        tolerance = None if row.adapter.tolerance is None else load_tolerance(row.adapter.tolerance)
    except (CalibrationError, ToleranceError) as error:
        remedy = f"Run: pip install --upgrade --force-reinstall {row.package}"
        yield Finding(name=row.name, status="fault", says=f"{where}: {error}", remedy=remedy)
        return
    unloadable = _unloadable(row.adapter)
    if unloadable is not None:
        remedy = f"Run: pip install --upgrade {row.package} mflux"
        yield Finding(name=row.name, status="fault", says=f"{where}: {unloadable}", remedy=remedy)
        return
    with_gate = sum(one.gate is not None for one in known)
    bound = "no tolerance" if tolerance is None else f"tolerance {tolerance.status}"
    yield Finding(
        name=row.name,
        status="ok",
        says=f"{where}: {len(known)} checkpoints known, {with_gate} with a polynomial; {bound}",
    )


def _unloadable(adapter: Adapter) -> str | None:
    """Why one of the pipelines of mflux cannot be imported; None where all can, or mflux is missing."""
    if adapter.host != "mflux" or _version("mflux") is None:
        return None
    from teacache.testing.models import find_class

    for pipeline in adapter.pipelines:
        try:
            find_class(pipeline.cls)
        except Exception as error:  # noqa: BLE001 - what it imports may raise anything
            return f"{pipeline.name} cannot be imported ({type(error).__name__}: {error})".replace("\n", " ")
    return None


def _recordings() -> Finding:
    """The recordings of the user's own models."""
    store = Store()
    try:
        found = [recording for _, recording in store.all()]
    except OSError as error:
        remedy = "Set TEACACHE_DATA to a folder that can be read and written."
        return Finding(name="recordings", status="note", says=f"{store.folder}: {error}", remedy=remedy)
    damaged = sum(isinstance(one, KernelError) for one in found)
    says = f"{len(found) - damaged} in {store.folder}"
    if damaged:
        remedy = "Run: teacache calibrations list"
        return Finding(name="recordings", status="note", says=f"{says}, {damaged} cannot be read", remedy=remedy)
    return Finding(name="recordings", status="ok", says=says)


def _none() -> Finding:
    remedy = "For FLUX.2 Klein: pip install teacache-flux2, or in a clone: uv pip install -e packages/teacache-flux2"
    return Finding(name="adapters", status="note", says="none is installed", remedy=remedy)


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _parts(number: str) -> tuple[int, ...]:
    return tuple(int("".join(filter(str.isdigit, part)) or 0) for part in number.split(".")[:2])
