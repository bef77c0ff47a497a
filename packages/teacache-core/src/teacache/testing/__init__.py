"""Help for tests of adapters and hosts, shipped for third parties. Importing it imports neither mlx nor mflux."""

from __future__ import annotations

from typing import Any

__all__ = ["toy_pipeline"]


def __getattr__(name: str) -> Any:
    if name == "toy_pipeline":
        from teacache.testing.toys.toy import toy_pipeline

        return toy_pipeline
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
