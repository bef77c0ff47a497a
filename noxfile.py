"""Tests, checks and the demo, each in an environment of its own under `.nox/`.

Needs nox and nothing else: uv is used where it is installed, virtualenv and pip elsewhere.
On Linux, where mflux's metadata asks for CUDA and torch, both install MLX's CPU backend instead.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import nox

if sys.version_info < (3, 11):  # noqa: UP036 (nox runs on older ones)
    sys.exit(
        f"nox runs on Python {sys.version.split()[0]}, and teacache needs 3.11 or newer. "
        "Make the environment again with a newer one: python3.12 -m venv --clear .venv"
    )

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["unit", "tests", "template"]

ROOT = Path(__file__).parent
LINUX = sys.platform == "linux"


@dataclass(frozen=True)
class Package:
    """One distribution of the workspace."""

    name: str
    dir: str
    needs_mflux: bool

    @property
    def metadata(self) -> dict:
        """Its `[project]` table."""
        return nox.project.load_toml(ROOT / self.dir / "pyproject.toml")["project"]


PACKAGES = (
    Package("core", "packages/teacache-core", needs_mflux=False),
    Package("flux2", "packages/teacache-flux2", needs_mflux=True),
    Package("flux1", "packages/teacache-flux1", needs_mflux=True),
    Package("qwen", "packages/teacache-qwen", needs_mflux=True),
    Package("zimage", "packages/teacache-zimage", needs_mflux=True),
)
CORE = PACKAGES[0]
PEER = "mlx-teacache==0.14.1"
"""What `peers` compares with. It says that it was tested up to mflux 0.23; its functions run on 0.24 too."""
PICTURED = (
    "--prompt", "red circle left, blue square right, white background",
    "--prompt", "blue circle center, orange background",
)  # fmt: skip
ADAPTERS = tuple(package for package in PACKAGES if package.needs_mflux)
HOST_VERSIONS = ("0.21", "0.22", "0.23", "0.24")
"""Of mflux: those that the adapters are tested with."""

each_adapter = nox.parametrize("package", ADAPTERS, ids=[package.name for package in ADAPTERS])


@nox.session
def unit(session: nox.Session) -> None:
    """The core's unit tests where mflux is not installed."""
    install(session, [CORE], "test")
    run_pytest(session, CORE, options=("-m", "unit"))


@nox.session
def tests(session: nox.Session) -> None:
    """All other tests that run by default, of all packages, in one environment with mflux."""
    install(session, ADAPTERS, "test")
    run_pytest(session, *PACKAGES, options=("--deselect", f"{CORE.dir}/tests/unit"))


@nox.session
def template(session: nox.Session) -> None:
    """The package of docs/template as a third party has it: a wheel beside core's, found, passing, and gone again."""
    install(session, [CORE], "test")
    session.install("uv")
    session.run("pytest", "-m", "slow", f"{CORE.dir}/tests/unit/test_template.py", env=runtime_env(session))


@nox.session(default=False)
def weights(session: nox.Session) -> None:
    """The oracles on the real weights in Hugging Face's cache; nothing is downloaded. `-- -k klein` chooses."""
    install(session, ADAPTERS, "test")
    run_pytest(session, CORE, options=("-m", "weights", "-s"))


@nox.session(default=False)
@each_adapter
def parity(session: nox.Session, package: Package) -> None:
    """The parity tests of one adapter, installed alone beside the core."""
    install(session, [package], "test")
    run_pytest(session, package, options=("-m", "parity"))


@nox.session(default=False)
@each_adapter
def quality(session: nox.Session, package: Package) -> None:
    """The quality tests of one adapter, installed alone beside the core."""
    install(session, [package], "test")
    run_pytest(session, package, options=("-m", "quality"))


@nox.session(default=False)
def browser(session: nox.Session) -> None:
    """The comparison's page in Chromium without a window. On Debian: apt install chromium."""
    install(session, [CORE], "test")
    session.run("pytest", "-m", "browser", f"{CORE.dir}/tests/page", *session.posargs, env=runtime_env(session))


@nox.session(default=False)
def slow(session: nox.Session) -> None:
    """The slow tests of reliability: every error at every step, compiled throughout, fifty pictures in turn."""
    install(session, ADAPTERS, "test")
    files = [f"{package.dir}/tests/parity/test_reliability.py" for package in ADAPTERS]
    env = runtime_env(session) | {"OPENBLAS_NUM_THREADS": "1"}
    session.run("pytest", "-m", "slow", *files, *session.posargs, env=env)


@nox.session(default=False)
def reliability(session: nox.Session) -> None:
    """An hour of random life, divided among the families, recorded in docs/; `-- --minutes 10` takes less."""
    options = argparse.ArgumentParser(prog="nox -s reliability --")
    options.add_argument("--minutes", type=float, default=60.0)
    minutes, record = options.parse_args(session.posargs).minutes, ROOT / "docs/reliability.json"
    install(session, ADAPTERS, "test")
    record.unlink(missing_ok=True)
    env = runtime_env(session) | {
        "OPENBLAS_NUM_THREADS": "1",
        "TEACACHE_LIFE_MINUTES": str(minutes / len(ADAPTERS)),
        "TEACACHE_LIFE_RECORD": str(record),
    }
    for package in ADAPTERS:
        test = f"{package.dir}/tests/parity/test_reliability.py"
        session.run("pytest", "-m", "slow", "-k", "test_a_long_random_life", test, env=env)
    session.run("python", ".ci/reliability_page.py", env=env)


@nox.session(default=False)
@nox.parametrize("host", HOST_VERSIONS, ids=HOST_VERSIONS)
def versions(session: nox.Session, host: str) -> None:
    """The parity tests of all adapters on one version of mflux: the oldest that they allow to the newest."""
    install(session, ADAPTERS, "test")
    # With pillow 13 no mflux before 0.24 can be imported.
    session.install("--no-deps", f"mflux=={host}.*", *(["pillow<13"] if host < "0.24" else []))
    run_pytest(session, *ADAPTERS, options=("-m", "parity"))


@nox.session(default=False, python=["3.11", "3.12", "3.13"])
def interpreters(session: nox.Session) -> None:
    """The core's unit tests on every Python that is here; nox says which it skips."""
    install(session, [CORE], "test")
    run_pytest(session, CORE, options=("-m", "unit"))


@nox.session(default=False)
def demo(session: nox.Session) -> None:
    """Pictures of the embedded toy models, plain and wrapped; what follows `--` goes to `teacache demo`."""
    install(session, ADAPTERS)
    session.run("teacache", "demo", *session.posargs, env=runtime_env(session))
    session.log(f"Relative paths above start at {ROOT}")


@nox.session(default=False)
def pictures(session: nox.Session) -> None:
    """The documentation's pictures and drawings, into docs/; that of the comparison needs Chromium."""
    install(session, ADAPTERS)
    made = Path(session.create_tmp())
    env = runtime_env(session) | {"TEACACHE_DATA": str(made / "data")}
    session.run("teacache", "demo", "--out", "docs/demo.png", *PICTURED, env=env)
    session.run("teacache", "compare", "flux2", "--out", str(made / "compare.html"), *PICTURED, env=env)
    session.run("python", ".ci/screenshot.py", str(made / "compare.html"), "docs/compare.png", "1200x1470")
    session.run("python", ".ci/drawings.py", env=env)


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """The speed benchmark into docs/; `-- --model NAME` on real weights; `-- frontier` the toys' frontier instead."""
    install(session, ADAPTERS)
    frontier = session.posargs[:1] == ["frontier"]
    which = ("frontier", "docs/frontier.md") if frontier else ("speed", "docs/performance.md")
    options = session.posargs[1:] if frontier else session.posargs
    # One thread: OpenBLAS's pool spins, which counts as CPU time and falls on whatever is measured next.
    env = runtime_env(session) | ({} if frontier else {"OPENBLAS_NUM_THREADS": "1"})
    session.run("teacache", "bench", which[0], "--out", which[1], *options, env=env)


@nox.session(default=False)
def peers(session: nox.Session) -> None:
    """Beside other caches, in one run, into docs/; what follows `--` goes to `teacache bench peers`."""
    install(session, ADAPTERS)
    session.install("--no-deps", PEER)
    env = runtime_env(session) | {"OPENBLAS_NUM_THREADS": "1"}
    session.run("teacache", "bench", "peers", "--out", "docs/peers.md", *session.posargs, env=env)


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """The documentation's site, into build/site, and everything that its pages tell to run."""
    install(session, ADAPTERS, "test", "docs")
    session.run("python", ".ci/supported_models.py", "--check")
    session.run("mkdocs", "build", "--strict", "-f", ".ci/mkdocs.yml", env={"NO_MKDOCS_2_WARNING": "1"})
    session.run("python", ".ci/check_site.py", "build/site")
    told = (f"{CORE.dir}/tests/unit/test_docs_listed.py", f"{CORE.dir}/tests/quality/test_docs_run.py")
    session.run("pytest", "-m", "slow or not slow", *told, *session.posargs, env=runtime_env(session))


@nox.session(default=False)
def release(session: nox.Session) -> None:
    """All distributions, into build/dist: looked into, installed and tried in clean environments."""
    session.install("packaging", "uv")
    session.run("python", ".ci/check_wheels.py", *session.posargs)


@nox.session(default=False)
def lint(session: nox.Session) -> None:
    """Ruff's rules and format, mypy's strict mode on all sources, and the two copies of the overrides."""
    install(session, [CORE], "test", "lint")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    lines = (ROOT / ".ci/linux-cpu-overrides.txt").read_text(encoding="utf-8").splitlines()
    if [line for line in lines if line and not line.startswith("#")] != overrides():
        session.error(
            ".ci/linux-cpu-overrides.txt differs from override-dependencies in pyproject.toml: copy the lines"
        )


def install(session: nox.Session, packages: Sequence[Package], *groups: str) -> None:
    """Install these packages and the core editable, with the tools of these dependency groups."""
    tools = nox.project.dependency_groups(nox.project.load_toml(ROOT / "pyproject.toml"), *groups)
    core = ("-e", f"{CORE.dir}[quality]")
    adapters = [package for package in packages if package.needs_mflux]
    editable = [word for package in adapters for word in ("-e", package.dir)]
    if session.venv_backend == "uv" or not LINUX:
        # uv reads the overrides from pyproject.toml.
        session.install(*core, *editable, *tools)
    elif adapters:
        # pip knows no overrides: first what mflux imports, then mflux and the adapters by themselves.
        session.install("-r", ".ci/linux-cpu.txt", *core, *tools)
        session.install("--no-deps", mflux(adapters[0]), *editable)
    else:
        session.install(mlx_cpu(), *core, *tools)


def overrides() -> list[str]:
    """What the workspace puts in the place of mflux's own requirements."""
    return nox.project.load_toml(ROOT / "pyproject.toml")["tool"]["uv"]["override-dependencies"]


def mlx_cpu() -> str:
    """The requirement that brings MLX with its CPU backend on Linux."""
    return next(line for line in overrides() if line.startswith("mlx[cpu]"))


def mflux(adapter: Package) -> str:
    """The mflux versions that this adapter asks for."""
    return next(line for line in adapter.metadata["dependencies"] if line.startswith("mflux"))


def run_pytest(session: nox.Session, *packages: Package, options: tuple[str, ...]) -> None:
    """Run the tests of these packages; what follows `--` goes to pytest."""
    folders = [f"{package.dir}/tests" for package in packages if (ROOT / package.dir / "tests").is_dir()]
    # One thread: OpenBLAS's pool spins against itself on busy cores, and the tests' models are too small to gain.
    env = runtime_env(session) | {"OPENBLAS_NUM_THREADS": "1"}
    session.run("pytest", *options, *folders, *session.posargs, env=env)


def runtime_env(session: nox.Session) -> dict[str, str]:
    """What makes MLX's Linux CPU wheel fast, and work without a compiler."""
    env: dict[str, str] = {}
    if not LINUX:
        return env
    # The wheel links the reference BLAS, about 1 GFLOP/s in float32; OpenBLAS put before it is some 70 times faster.
    openblas = next(Path("/usr/lib").glob("*/openblas-pthread/libblas.so.3"), None)
    if openblas:
        env["LD_PRELOAD"] = " ".join(filter(None, [os.environ.get("LD_PRELOAD"), str(openblas)]))
    else:
        session.log("OpenBLAS not found: matrix products are slow. On Debian: apt install libopenblas0-pthread")
    # mx.compile builds its CPU kernels with g++ at run time.
    if not shutil.which("g++"):
        env["MLX_DISABLE_COMPILE"] = "1"
        session.warn("g++ not found: mx.compile is off. On Debian: apt install g++")
    return env
