"""The plugin hook: what a package implements to bring adapters. Must not import mlx or mflux."""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from teacache.adapter import Adapter

PROJECT = "teacache"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def teacache_adapters() -> Iterable[Adapter]:  # type: ignore[empty-body]
    """Returns the adapters that this package brings."""
