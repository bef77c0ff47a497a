"""The package that third parties start from: short, shown as it is, found by `wrap`, and gone without a trace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[4]
TEMPLATE = ROOT / "docs/template"
CORE = ROOT / "packages/teacache-core"
FILES = ("pyproject.toml", "src/teacache_mine/__init__.py", "src/teacache_mine/model.py", "tests/test_mine.py")

needs_repository = pytest.mark.skipif(not TEMPLATE.is_dir(), reason="the documentation is not there")


def run(*command: str | Path, **env: str) -> str:
    """Runs a command and returns what it printed."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "PYTHON"))}
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, env=environment | env, cwd=TEMPLATE
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@needs_repository
@pytest.mark.parametrize("name", FILES)
def test_the_documentation_shows_the_package(name: str) -> None:
    """Red when what the page shows is not what is tested."""
    page = (ROOT / "docs/writing-an-adapter.md").read_text(encoding="utf-8")
    assert (TEMPLATE / name).read_text(encoding="utf-8") in page


@needs_repository
def test_a_family_is_80_lines() -> None:
    """Red when a package for a family that nobody has seen, model and loop included, takes more than 80 lines."""
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in TEMPLATE.glob("src/**/*.py")}
    assert lines["__init__.py"] <= 30 and sum(lines.values()) <= 80, lines


@needs_repository
def test_it_passes_the_suite() -> None:
    """Red when the package of the documentation does not pass what it is told to pass."""
    script = (
        "import pytest, sys, teacache_mine, test_mine; test_mine.TestMine.installed = False; "
        "sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', '-W', 'error', test_mine.__file__]))"
    )
    paths = os.pathsep.join(map(str, (TEMPLATE / "src", TEMPLATE / "tests", CORE / "src")))
    out = run(
        sys.executable,
        "-B",
        "-c",
        script.replace("test_mine.__file__", "test_mine.__file__, '--import-mode=append'"),
        PYTHONPATH=paths,
    )
    assert " passed" in out and "failed" not in out


@needs_repository
@pytest.mark.slow
def test_wrap_finds_it_from_a_wheel_and_forgets_it(tmp_path: Path) -> None:
    """Red when a third party's wheel is not found beside core's, or leaves something behind."""
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    assert Path(uv).exists(), "needs uv: pip install uv"
    for package in (CORE, TEMPLATE):
        run(uv, "build", "--wheel", "--out-dir", tmp_path / "wheels", package)
    run(uv, "venv", "--python", sys.executable, tmp_path / "env")
    python = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    backend = "mlx[cpu]" if sys.platform.startswith("linux") else "mlx"
    run(uv, "pip", "install", "--python", python, backend, "pytest", *(tmp_path / "wheels").glob("*.whl"))
    wraps = "import teacache; from teacache_mine.model import Painter; print(teacache.wrap(Painter()).adapter.name)"
    lists = "import teacache; print([row.name for row in teacache.adapters()])"
    assert run(python, "-c", wraps).strip() == "mine"
    assert run(python, "-c", lists).strip() == "['mine']"
    assert " passed" in run(python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", TEMPLATE / "tests")
    run(uv, "pip", "uninstall", "--python", python, "teacache-mine")
    assert run(python, "-c", lists).strip() == "[]"
    assert not [path.name for path in (tmp_path / "env").rglob("teacache_mine*")]
