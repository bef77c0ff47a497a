"""The scripts that look into the built site and the built wheels see what is wrong; the drawings are their script's."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[4]
if not (ROOT / ".ci/check_site.py").is_file() or not (ROOT / ".git").exists() or not shutil.which("git"):
    pytest.skip("the repository is not there", allow_module_level=True)


def script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / f".ci/{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


site, wheels, drawings = script("check_site"), script("check_wheels"), script("drawings")
CORE, FLUX2 = (next(one for one in wheels.PACKAGES if one.name == name) for name in ("teacache-core", "teacache-flux2"))


@pytest.mark.parametrize(
    ("page", "found"),
    [
        (
            '<a href="https://elsewhere.example">read on</a><img src="demo.png"><link rel="canonical" href="https://x">',
            0,
        ),
        ('<script src="https://cdn.example/x.js"></script>', 1),
        ('<link rel="stylesheet" href="//fonts.example/x.css">', 1),
        ('<p style="background: url(https://x.example/y.png)">', 1),
        ("<style>@import 'https://x.example/y.css';</style>", 1),
        ('<pre class="mermaid"></pre>', 1),
    ],
)
def test_what_a_page_loads_from_elsewhere(page: str, found: int, tmp_path: Path) -> None:
    """Red when a font, a script or a picture of another server comes into the documentation unseen."""
    (tmp_path / "index.html").write_text(page, encoding="utf-8")
    assert len(site.foreign(tmp_path)) == found
    assert site.main([str(tmp_path)]) == min(found, 1)


def a_wheel(package: Any) -> dict[str, bytes]:
    """What a wheel holds if it was built right."""
    licence = f"{package.stem}.dist-info/licenses/LICENSE"
    return dict.fromkeys(package.in_git("src"), b"") | {licence: (ROOT / "LICENSE").read_bytes()}


@pytest.mark.parametrize("package", [CORE, FLUX2], ids=lambda one: one.name)
def test_a_right_wheel_has_no_fault(package: Any) -> None:
    """Red when the check finds fault with what git keeps."""
    assert list(wheels._contents(package, a_wheel(package))) == []


@pytest.mark.parametrize(
    ("package", "lost"),
    [
        (CORE, "teacache/py.typed"),
        (CORE, "teacache/known_adapters.toml"),
        (FLUX2, "teacache_flux2/toy_weights.safetensors"),
        (FLUX2, "teacache_flux2/calibrations/klein-4b.toml"),
        (FLUX2, f"{FLUX2.stem}.dist-info/licenses/LICENSE"),
    ],
)
def test_what_a_wheel_lacks(package: Any, lost: str) -> None:
    """Red when a wheel without its data, its marker or its licence passes."""
    files = a_wheel(package)
    del files[lost]
    assert list(wheels._contents(package, files))


@pytest.mark.parametrize("stray", ["tests/test_x.py", "teacache/__pycache__/x.pyc", "teacache/notes.txt"])
def test_what_a_wheel_has_too_much(stray: str) -> None:
    """Red when tests, caches or a file that somebody forgot are shipped."""
    assert list(wheels._contents(CORE, a_wheel(CORE) | {stray: b""}))


def test_an_adapter_holds_on_to_its_core() -> None:
    """Red when an adapter that takes any core passes: the next contract would break it in its users' hands."""
    found = Message()
    for line in FLUX2.project["dependencies"]:
        found["Requires-Dist"] = line.replace("~=0.1", ">=0.1")
    assert any(wheels.CORE_BOUND in fault for fault in wheels._metadata(FLUX2, found))
    del found["Requires-Dist"]
    for line in FLUX2.project["dependencies"]:
        found["Requires-Dist"] = line
    assert not any(wheels.CORE_BOUND in fault for fault in wheels._metadata(FLUX2, found))


@pytest.mark.parametrize("name", ["step", "boundary"])
def test_drawings_are_what_the_script_draws(name: str) -> None:
    """Red when a drawing was changed by hand, or its script and not the drawing."""
    file = ROOT / f"docs/drawings/{name}.svg"
    assert file.read_text(encoding="utf-8") == drawings.DRAWINGS[name]()


def test_the_drawn_plan_computes_what_it_says() -> None:
    """Red when the drawing of a plan shows another number of computed steps than its own words, or none."""
    text = (ROOT / "docs/drawings/plan.svg").read_text(encoding="utf-8")
    said = [int(words.split()[0]) for words in re.findall(r"x: (\d+ of 30)", text)]
    assert said == [15, 10] and text.count(f"height='24' fill='{drawings.TEAL}'") == sum(said)
