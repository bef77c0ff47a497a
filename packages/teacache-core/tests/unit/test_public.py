"""The public names and what importing them costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import teacache

pytestmark = pytest.mark.unit


def test_public_names_are_a_decision() -> None:
    """Red when a public name appears, vanishes or cannot be loaded: users would build on it, or break."""
    assert teacache.__all__ == [
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
    assert all(getattr(teacache, name) is not None for name in teacache.__all__)
    assert dir(teacache) == teacache.__all__


def test_import_loads_neither_mlx_nor_mflux() -> None:
    """Red when `import teacache` or listing the adapters pulls in a heavy package."""
    code = (
        "import sys, teacache; teacache.adapters(); print([m for m in ('mlx', 'mflux', 'numpy') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"
