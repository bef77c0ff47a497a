"""The pytest plugin, in a project of its own: what it makes of a function, and that it stays out of the way."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from types import SimpleNamespace

import pytest

from teacache.testing import pytest_plugin

pytestmark = pytest.mark.unit
pytest_plugins = ["pytester"]

PAGE = Path(__file__).parents[4] / "docs/oracles.md"

MODEL = """
import pytest
from teacache.testing.denoiser import ADAPTER, Denoiser, denoise
from teacache.testing.oracles import Subject
from teacache.testing.planted import find_bug

def generate(model, handle=None, **given):
    return denoise(model, handle, seed=given.get("seed", 3), steps=7, guidance=3.0)

SUBJECT = Subject(adapter=ADAPTER, make_model=Denoiser, generate=generate, steps=7, installed=False)
"""


def run(pytester: pytest.Pytester, tests: str, *options: str) -> pytest.RunResult:
    """Runs these tests in a project that asks for the plugin; in a process of its own, for MLX loads only once."""
    pytester.makeini("[pytest]\naddopts = --strict-markers\n")
    pytester.makepyfile(tests)
    return pytester.runpytest_subprocess("-p", "teacache.testing.pytest_plugin", "-p", "no:cacheprovider", *options)


def test_one_function_is_four_tests(pytester: pytest.Pytester) -> None:
    """Red when an oracle is not asked, a result not shown or not in the JSON, or docs/oracles.md shows what fails."""
    done = run(pytester, f"{MODEL}\nsubject = SUBJECT\n{shown()}", "-rs", "--oracles-json=found.json")
    done.assert_outcomes(passed=4, skipped=1)
    done.stdout.fnmatch_lines(["*ships no data*"])
    done.stdout.fnmatch_lines(["neutrality of *passed*", "equivalence of *passed*", "quality of *passed*"])
    found = json.loads((pytester.path / "found.json").read_text())
    assert [one["oracle"] for one in found] == ["neutrality", "equivalence", "quality", "quality"]
    figures = [one["checks"][0]["figures"] for one in found[2:]]
    assert [(one["fewest"], one["reused"], one["most"]) for one in figures] == [(3, 3, 3), (4, 4, 4)]


def shown() -> str:
    """The tests that the page shows; the same here where the documentation is not there."""
    if not PAGE.exists():
        return (
            "def test_it(oracle):\n    oracle(subject)\n"
            '@pytest.mark.oracles("quality", options={"plan": [0, 3, 6]}, band=(4, 4))\n'
            "def test_plan(oracle):\n    oracle(subject)\n"
        )
    blocks = PAGE.read_text(encoding="utf-8").split("```python\n")[1:]
    return next(block.partition("```")[0] for block in blocks if "@pytest.mark.oracles" in block)


def test_a_failure_has_its_table_and_the_marker_is_heard(pytester: pytest.Pytester) -> None:
    """Red when a broken cache passes a third party's tests in silence, or a class's marker hides that of its test."""
    tests = """
@pytest.mark.oracles("equivalence", parts=("reused",))
def test_bug(oracle):
    with find_bug("residual added twice").plant():
        oracle(SUBJECT)

@pytest.mark.oracles("quality", options={"threshold": 0.0})
class TestIdle:
    @pytest.mark.oracles(band=(0, 0))
    def test_idle(self, oracle):
        oracle(SUBJECT)
    @pytest.mark.oracles(band=(1, 5))
    def test_busy(self, oracle):
        oracle(SUBJECT)
"""
    done = run(pytester, MODEL + tests)
    done.assert_outcomes(passed=1, failed=2)
    done.stdout.fnmatch_lines(["*OracleError: equivalence of denoiser Denoiser: FAILED*", "*reused, latents*failed*"])
    done.stdout.fnmatch_lines(["*FAILED*test_busy*"])


@pytest.mark.parametrize(("names", "settings"), [(("qualty",), {}), ((), {"bnad": (1, 2)})], ids=["oracle", "setting"])
def test_a_misspelt_wish_is_refused(names: tuple[str, ...], settings: dict[str, object]) -> None:
    """Red when a misspelt oracle or setting is silently not asked."""
    mark = SimpleNamespace(args=names, kwargs=settings)
    node = SimpleNamespace(nodeid="test_it", iter_markers=lambda name: iter([mark]))
    with pytest.raises(pytest.UsageError, match="expected some of drift, neutrality, equivalence, quality"):
        pytest_plugin.pytest_generate_tests(SimpleNamespace(fixturenames=["oracle"], definition=node))  # type: ignore[arg-type]


def test_loading_it_loads_no_model_library() -> None:
    """Red when a project that merely asks for the plugin pays for MLX."""
    script = "import sys, teacache.testing.pytest_plugin; print([n for n in ('mlx.core', 'mflux') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_it_loads_itself_nowhere() -> None:
    """Red when teacache is a pytest entry point: it would run in every project beside it."""
    assert not [one for one in distribution("teacache-core").entry_points if one.group == "pytest11"]
