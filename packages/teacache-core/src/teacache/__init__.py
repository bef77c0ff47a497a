"""teacache: a step cache for diffusion models on MLX.

Importing it imports neither mlx nor mflux; the public names load what they need when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from teacache.adapter import Adapter, BlockCall, Body, Pipeline, Signal
    from teacache.errors import TeaCacheError, TeaCacheWarning
    from teacache.hookspecs import hookimpl
    from teacache.plugins import adapters
    from teacache.support import Support, supports
    from teacache.wrapping import Handle, wrap

_HOMES = {
    "Adapter": "adapter",
    "BlockCall": "adapter",
    "Body": "adapter",
    "Handle": "wrapping",
    "Pipeline": "adapter",
    "Signal": "adapter",
    "Support": "support",
    "TeaCacheError": "errors",
    "TeaCacheWarning": "errors",
    "adapters": "plugins",
    "hookimpl": "hookspecs",
    "supports": "support",
    "wrap": "wrapping",
}

__all__ = [
    "Adapter",
    "BlockCall",
    "Body",
    "Handle",
    "Pipeline",
    "Signal",
    "Support",
    "TeaCacheError",
    "TeaCacheWarning",
    "adapters",
    "hookimpl",
    "supports",
    "wrap",
]


def __getattr__(name: str) -> Any:
    """Loads a public name from its module."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Lists the public names."""
    return sorted(__all__)
