"""Builds all distributions into build/dist, looks into each file, and tries them in clean environments. Needs uv.

python .ci/check_wheels.py              # all of it: `nox -s release`
python .ci/check_wheels.py --look-only  # without the environments
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_string
from email.message import Message
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
OUT = ROOT / "build/dist"
DIRECT = ROOT / "build/dist-direct"
CORE = "teacache-core"
CORE_BOUND = "teacache-core[quality]~=0.1"
DATA = ("tolerance.toml", "pins.toml", "toy.py", "toy_card.md", "toy_weights.safetensors")


@dataclass(frozen=True)
class Package:
    """One distribution in the clone."""

    folder: Path

    @property
    def project(self) -> dict[str, Any]:
        """Its `[project]` table."""
        project: dict[str, Any] = tomllib.loads((self.folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return project

    @property
    def name(self) -> str:
        """Of the distribution."""
        return str(self.project["name"])

    @property
    def stem(self) -> str:
        """How its files begin."""
        return f"{self.name.replace('-', '_')}-{self.project['version']}"

    @property
    def wheel(self) -> Path:
        """The wheel that was built from its source distribution."""
        return OUT / f"{self.stem}-py3-none-any.whl"

    @property
    def sdist(self) -> Path:
        """Its source distribution."""
        return OUT / f"{self.stem}.tar.gz"

    def in_git(self, under: str) -> set[str]:
        """The files that git keeps below a folder of it, relative to that folder."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", under], cwd=self.folder, check=True, capture_output=True, text=True
        ).stdout
        return {name.removeprefix(f"{under}/") for name in listed.split("\0") if name}


PACKAGES = tuple(Package(path.parent) for path in sorted(ROOT.glob("packages/*/pyproject.toml")))
TEMPLATE = Package(ROOT / "docs/template")


def build() -> None:
    """Builds source distributions, wheels from them, and wheels from the clone for comparison."""
    for folder in (OUT, DIRECT):
        folder.mkdir(parents=True, exist_ok=True)
        for old in (*folder.glob("teacache*.whl"), *folder.glob("teacache*.tar.gz")):
            old.unlink()
    for package in (*PACKAGES, TEMPLATE):
        subprocess.run(["uv", "build", "--quiet", "--out-dir", OUT, package.folder], check=True)
        subprocess.run(["uv", "build", "--quiet", "--wheel", "--out-dir", DIRECT, package.folder], check=True)


def faults(package: Package) -> Iterator[str]:
    """Everything that is wrong with the two files of a package, one sentence each."""
    with zipfile.ZipFile(package.wheel) as archive:
        wheel = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    with tarfile.open(package.sdist) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        sdist = {member.name.removeprefix(f"{package.stem}/"): _bytes(archive, member) for member in members}
    yield from _contents(package, wheel)
    yield from _metadata(package, message_from_string(wheel[f"{package.stem}.dist-info/METADATA"].decode()))
    yield from _entry_points(package, wheel)
    yield from _source(package, sdist)
    with zipfile.ZipFile(DIRECT / package.wheel.name) as archive:
        direct = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    if direct != wheel:
        yield "the wheel of the source distribution is not the wheel of the clone"
    for kind, files in (("wheel", wheel), ("source distribution", sdist)):
        for name, content in files.items():
            for path in (ROOT, Path.home()):
                if f"{path}/".encode() in content:
                    yield f"{name} of the {kind} names a path of this machine ({path})"
    if f"## [{package.project['version']}]" not in (package.folder / "CHANGELOG.md").read_text(encoding="utf-8"):
        yield f"its CHANGELOG.md has no section [{package.project['version']}]"


def _bytes(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None  # noqa: S101 - a regular file has one
    return file.read()


def _contents(package: Package, wheel: dict[str, bytes]) -> Iterator[str]:
    """The wheel holds what git keeps below src, and its own metadata: no tests, no caches, nothing forgotten."""
    info = f"{package.stem}.dist-info"
    shipped = {name for name in wheel if not name.startswith(f"{info}/")}
    kept = package.in_git("src")
    if shipped - kept:
        yield f"the wheel holds what git does not keep: {sorted(shipped - kept)}"
    if kept - shipped:
        yield f"the wheel lacks {sorted(kept - shipped)}"
    if wheel.get(f"{info}/licenses/LICENSE") != (ROOT / "LICENSE").read_bytes():
        yield "the wheel lacks the licence, or has another than the repository's"
    module = "teacache" if package.name == CORE else package.name.replace("-", "_")
    wanted = [f"{module}/{name}" for name in ("py.typed", *(DATA if package.name != CORE else ()))]
    yield from (f"the wheel lacks {name}" for name in wanted if name not in wheel)
    if package.name != CORE and not any(name.startswith(f"{module}/calibrations/") for name in wheel):
        yield "the wheel has no calibrations"


def _metadata(package: Package, found: Message) -> Iterator[str]:
    """The fields that an index shows and an installer reads."""
    project = package.project
    wanted = {
        "Name": project["name"],
        "Version": project["version"],
        "Summary": project["description"],
        "Requires-Python": ">=3.11",
        "License-Expression": "Apache-2.0",
        "License-File": "LICENSE",
        "Description-Content-Type": "text/markdown",
        "Keywords": ",".join(sorted(project["keywords"])),
    }
    for field, value in wanted.items():
        if found[field] is None or ",".join(sorted(str(found[field]).split(","))) != ",".join(sorted(value.split(","))):
            yield f"{field} is {found[field]!r}, not {value!r}"
    if found.get_payload() != (package.folder / "README.md").read_text(encoding="utf-8"):
        yield "its description is not its README.md"
    if "Typing :: Typed" not in (found.get_all("Classifier") or []):
        yield "it is not classified as typed"
    required = [Requirement(line) for line in found.get_all("Requires-Dist") or []]
    plain = {str(one) for one in required if one.marker is None}
    if plain != {str(Requirement(line)) for line in project["dependencies"]}:
        yield f"it requires {sorted(plain)}"
    if package.name != CORE and str(Requirement(CORE_BOUND)) not in plain:
        yield f"it does not require {CORE_BOUND}"
    if package.name == CORE and any(
        canonicalize_name(one.name) in ("mflux", "torch", "transformers") for one in required
    ):
        yield "the core requires what only adapters need"


def _entry_points(package: Package, wheel: dict[str, bytes]) -> Iterator[str]:
    text = wheel.get(f"{package.stem}.dist-info/entry_points.txt", b"").decode()
    family = package.name.removeprefix("teacache-")
    wanted = "teacache = teacache.cli:main" if package.name == CORE else f"[teacache]\n{family} = teacache_{family}"
    if wanted not in text:
        yield f"its entry points lack {wanted!r}"


def _source(package: Package, sdist: dict[str, bytes]) -> Iterator[str]:
    """The source distribution holds what git keeps below src and tests, and what builds it."""
    wanted = {f"{folder}/{name}" for folder in ("src", "tests") for name in package.in_git(folder)}
    wanted |= {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"}
    if wanted - sdist.keys():
        yield f"the source distribution lacks {sorted(wanted - sdist.keys())}"
    if sdist.keys() - wanted - {"PKG-INFO", ".gitignore"}:
        yield f"the source distribution holds {sorted(sdist.keys() - wanted - {'PKG-INFO', '.gitignore'})}"


def main(arguments: list[str]) -> int:
    """Builds, looks, tries."""
    build()
    found = [f"{package.name}: {fault}" for package in PACKAGES for fault in faults(package)]
    for line in found:
        sys.stderr.write(f"{line}\n")
    if not found:
        sys.stdout.write(f"{len(PACKAGES)} wheels and source distributions are as they should be, in {OUT}\n")
    if found or arguments == ["--look-only"]:
        return 1 if found else 0
    sys.path.insert(0, str(Path(__file__).parent))
    from try_wheels import try_all

    return try_all({package.name: package.wheel for package in (*PACKAGES, TEMPLATE)})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
