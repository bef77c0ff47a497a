"""docs/reliability.md lists the tests that there are."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

SCRIPT = Path(__file__).parents[4] / ".ci" / "reliability_page.py"


@pytest.mark.skipif(not SCRIPT.is_file(), reason="only the repository has its pages")
def test_the_page_is_current() -> None:
    """Red when a case is added, renamed or taken away and the page is not made anew, or one was not held."""
    spec = importlib.util.spec_from_file_location("reliability_page", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    assert len(list(module.cases())) > 50
    assert module.outdated() == [], "Run: python .ci/reliability_page.py"
