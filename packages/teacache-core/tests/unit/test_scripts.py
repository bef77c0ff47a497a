"""The hook around constructors, and the list of a host's scripts, on classes and modules made here."""

from __future__ import annotations

import importlib.metadata
import sys
from argparse import Namespace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from teacache.errors import MissingDependencyError, OptionError
from teacache.hosts import LOADED_AS, Names, names_from_config
from teacache.hosts import scripts as hosted
from teacache.hosts.building import Build, met
from teacache.hosts.scripts import Script, find_script, script_modules

pytestmark = pytest.mark.unit

CONFIG = SimpleNamespace(model_name="sea/fish", base_model=None)


class Base:
    """A pipeline that notes how often its weights were loaded."""

    def __init__(self, model_config: Any = CONFIG, model_path: str | None = None, lora_paths: Any = None) -> None:
        self.loaded = getattr(self, "loaded", 0) + 1
        self.model_config = model_config

    def generate_image(self, seed: int, guidance: float = 2.5) -> None:
        """Makes nothing."""


class Inherits(Base):
    """Has no constructor of its own."""


class Calls(Base):
    """Calls its base's constructor, which is met too."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)


class Parser:
    """Reads one option."""

    def parse_args(self) -> Namespace:
        return Namespace(steps=7, guidance=None)


def test_a_construction_is_met_once_with_what_it_is_given() -> None:
    """Red when a constructor that calls its base's is met twice, or the weights' path and the options are lost."""
    before: list[Build] = []
    after: list[Any] = []
    with met([Base, Inherits, Calls], Parser, before.append, lambda model, build: after.append((type(model), build))):
        options = Parser().parse_args()
        options.guidance = 4.0  # scripts fill in defaults of their own behind the parser
        assert Calls(model_path="my/fish", lora_paths=["a"]).loaded == 1
        Inherits()
    assert [build.cls for build in before] == [Calls, Inherits]
    assert after == [(Calls, before[0]), (Inherits, before[1])]
    assert (before[1].model_path, before[1].steps, before[1].guidance) == (None, 7, 4.0)
    assert before[1].names == Names(name="sea/fish")


def test_the_path_stays_with_the_model() -> None:
    """Red when what the weights were loaded as is unknown when they are wrapped, or a plain model gets a mark."""
    with met([Base], None, None, lambda model, build: None):
        assert getattr(Base(model_path="my/fish"), LOADED_AS) == "my/fish"
        assert not hasattr(Base(), LOADED_AS)
    assert not hasattr(Base(model_path="my/fish"), LOADED_AS)


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(3)])
def test_the_classes_are_as_before(error: BaseException) -> None:
    """Red when a constructor stays changed behind an error, or an inherited one becomes the class's own."""

    def refuse(build: Build) -> None:
        raise error

    own, parse = Base.__init__, Parser.parse_args
    with pytest.raises(type(error)), met([Base, Inherits], Parser, refuse, None):
        Inherits()
    assert Base.__init__ is own and Parser.parse_args is parse
    assert "__init__" not in vars(Inherits)


def test_a_refused_construction_loads_nothing() -> None:
    """Red when the weights are loaded before anybody is asked, or a later construction is not met any more."""
    seen: list[type] = []

    def refuse(build: Build) -> None:
        seen.append(build.cls)
        raise OptionError("not this one")

    class Loads(Base):
        def __init__(self) -> None:
            raise AssertionError("loaded")

    with met([Loads], None, refuse, None):
        for _ in range(2):
            with pytest.raises(OptionError):
                Loads()
    assert seen == [Loads, Loads]


def test_guidance_is_the_options_or_the_pipelines_own() -> None:
    """Red when a script without --guidance is taken for one that makes pictures without guidance."""
    assert Build(cls=Base, model_config=CONFIG).guidance == 2.5
    assert Build(cls=Base, model_config=CONFIG, options=Namespace(guidance=1.0)).guidance == 1.0


@pytest.mark.parametrize(
    ("name", "base", "path", "names"),
    [
        ("sea/fish", None, None, Names(name="sea/fish")),
        ("sea/fish", None, "sea/fish", Names(name="sea/fish")),
        ("sea/fish", None, "/weights/mine", Names(name="/weights/mine", base="sea/fish")),
        ("/weights/mine", "sea/fish", "/weights/mine", Names(name="/weights/mine", base="sea/fish")),
        ("sea/fish", "sea/water", "/weights/mine", Names(name="/weights/mine", base="sea/water")),
    ],
)
def test_a_path_says_more_than_the_configuration(name: str, base: str | None, path: str | None, names: Names) -> None:
    """Red when weights from elsewhere go by the name of the configuration that the host picked for them."""
    assert names_from_config(SimpleNamespace(model_name=name, base_model=base), path=path) == names


@pytest.fixture
def fish(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A host with two scripts: one makes pictures, the other one does not."""
    module = ModuleType("fish_script")
    module.__dict__.update(CallbackManager=object, Base=Base, Names=Names, DEFAULT_MODEL="fish", FAMILY_MODELS=("eel",))
    module.__dict__.update(main=lambda: (sys.argv, Base().loaded))
    saving = ModuleType("fish_saving")
    saving.__dict__.update(Base=Base, main=lambda: None)
    monkeypatch.setitem(sys.modules, "fish_script", module)
    monkeypatch.setitem(sys.modules, "fish_saving", saving)
    entries = [
        importlib.metadata.EntryPoint(name, f"{where}:main", "console_scripts")
        for name, where in (("mflux-generate-fish", "fish_script"), ("mflux-save", "fish_saving"))
    ]
    entries.append(importlib.metadata.EntryPoint("fish", "fish_script:main", "other_group"))
    monkeypatch.setattr(hosted, "distribution", lambda name: SimpleNamespace(entry_points=entries))
    return module


def test_scripts_are_found_by_name(fish: ModuleType) -> None:
    """Red when another group of entry points is taken for commands, or one that makes no pictures seems to."""
    assert script_modules() == {"mflux-generate-fish": "fish_script", "mflux-save": "fish_saving"}
    found = find_script("mflux-generate-fish")
    assert found == Script("mflux-generate-fish", fish, (Base,))
    assert find_script("mflux-save").pipelines == ()
    assert (found.takes("eel"), found.takes("shark")) == (True, False)
    with pytest.raises(OptionError, match="Did you mean mflux-generate-fish"):
        find_script("mflux-generate-fihs")


def test_a_script_sees_its_own_command_line(fish: ModuleType) -> None:
    """Red when a script reads our options as its own, or `sys.argv` stays changed."""
    before = sys.argv
    assert find_script("mflux-generate-fish").run(["--x"]) == (["mflux-generate-fish", "--x"], 1)
    assert sys.argv is before


def test_a_missing_host_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a user without mflux reads a traceback of importlib."""

    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(hosted, "distribution", missing)
    with pytest.raises(MissingDependencyError, match="pip install mflux"):
        find_script("mflux-generate")
