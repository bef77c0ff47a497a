"""Installs each combination of the built wheels into an environment of its own and tries it there. Needs uv."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HOME = ROOT / "build/try"
OVERRIDES = ROOT / ".ci/linux-cpu-overrides.txt"
CORE, TEMPLATE = "teacache-core", "teacache-mine"
LINUX = sys.platform == "linux"
# Without the workspace's configuration, which has the overrides already: a user's folder has none.
INSTALL = ("uv", "pip", "install", "--quiet", "--no-config")

# What each of them runs in its environment; `families` and `root` are set before.
INSTALLED = """
import sys, sysconfig, teacache
assert teacache.__file__.startswith(sysconfig.get_path("purelib")), teacache.__file__
assert not any(path.startswith(f"{root}/packages") for path in sys.path), sys.path
working = [row.name for row in teacache.adapters() if row.status == "working"]
assert working == sorted(families), working
"""
CORE_ALONE = """
from importlib.util import find_spec
assert find_spec("mflux") is None
from teacache.testing.denoiser import ADAPTER, Denoiser, denoise
model = Denoiser()
with teacache.wrap(model, adapter=ADAPTER, speedup=2.0) as cached:
    for seed in (1, 2):
        denoise(model, cached, seed=seed, steps=8, guidance=2.0)
assert cached.stats.last.computed == 4, cached.stats.last
"""
TEMPLATE_TOO = """
from teacache_mine.model import Painter, paint
model = Painter()
with teacache.wrap(model, speedup=2.0) as cached:
    paint(model, cached)
    paint(model, cached)
assert cached.adapter.name == "mine" and cached.stats.last.computed == 4, cached.stats.last
"""
TOYS = """
from teacache.testing.toys.scenes import EXAMPLES
from teacache.testing.toys.toy import toy_pipeline
for family in families:
    model = toy_pipeline(family)
    with teacache.wrap(model, plan=[0, 2, 4]) as cached:
        model.generate_image(seed=1, prompt=EXAMPLES[0], num_inference_steps=6, height=64, width=64, guidance=2.0)
    assert cached.adapter.name == family and cached.stats.last.reused == 2, cached.stats.last
"""


def try_all(wheels: dict[str, Path]) -> int:
    """Tries every combination; returns 1 if one does not work, and says which."""
    HOME.mkdir(parents=True, exist_ok=True)
    adapters = sorted(set(wheels) - {CORE, TEMPLATE})
    combinations = {"core alone": [], **{name: [name] for name in adapters}, "all": adapters, "template": [TEMPLATE]}
    failed = [name for name, added in combinations.items() if not _works(name, [wheels[CORE], *map(wheels.get, added)])]
    if LINUX and not _names_the_backend(wheels[CORE]):
        failed.append("core without MLX's backend")
    for name in failed:
        sys.stderr.write(f"does not work: {name}\n")
    return 1 if failed else 0


def _works(name: str, wheels: list[Any]) -> bool:
    """Installs these wheels beside each other and runs what a user would."""
    python = _environment(name)
    overrides = ["--override", OVERRIDES] if LINUX else []
    if not _run(*INSTALL, "--python", python, *overrides, *wheels):
        return False
    families = [path.name.split("-")[0].removeprefix("teacache_") for path in wheels if "core" not in path.name]
    trial = {"core alone": CORE_ALONE, "template": TEMPLATE_TOO}.get(name, TOYS)
    program = python.with_name("teacache")
    good = (
        _run(python, "-I", "-W", "ignore", "-c", f"families, root = {families!r}, {str(ROOT)!r}{INSTALLED}{trial}")
        and _run(program, "--version")
        and _run(program, "doctor")
        and _run(program, "adapters")
    )
    if good:
        sys.stdout.write(f"works: {name}\n")
    return good


def _names_the_backend(core: Path) -> bool:
    """MLX's Linux wheel without a backend: doctor runs, says no, and names the extra."""
    python = _environment("no backend")
    bare = HOME / "bare-mlx.txt"
    bare.write_text("mlx==0.32.2\n", encoding="utf-8")
    if not _run(*INSTALL, "--python", python, "--override", bare, core):
        return False
    done = subprocess.run(
        [python.with_name("teacache"), "doctor", "--json"], capture_output=True, text=True, check=False, cwd=HOME
    )
    try:
        rows = {row["name"]: row for row in json.loads(done.stdout)}
    except json.JSONDecodeError:
        sys.stderr.write(done.stdout + done.stderr)
        return False
    good = done.returncode == 1 and "mlx[cpu]" in rows["MLX"]["remedy"]
    sys.stdout.write(f"without a backend: {rows['MLX']['says']} {rows['MLX']['remedy']}\n")
    return good


def _environment(name: str) -> Path:
    """Makes an empty environment and returns its Python."""
    folder = HOME / name.replace(" ", "-")
    subprocess.run(["uv", "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


def _run(*words: Any) -> bool:
    """Runs a command outside of the clone; shows what it printed if it failed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    env |= {"TEACACHE_DATA": str(HOME / "data"), "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, cwd=HOME, env=env)
    if done.returncode:
        sys.stderr.write(f"{' '.join(map(str, words[:4]))}: exit code {done.returncode}\n{done.stdout}{done.stderr}\n")
    return done.returncode == 0
