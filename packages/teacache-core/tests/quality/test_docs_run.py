"""Runs what README and docs tell to run, on the toys: `.ci/doc_commands.toml` says what stands in for what."""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from teacache import adapters, plugins
from teacache.cli import main
from teacache.errors import TeaCacheWarning
from teacache.testing.toys.scenes import EXAMPLES
from teacache.testing.toys.toy import toy_pipeline

ROOT = Path(__file__).parents[4]
if not (ROOT / ".ci/doc_commands.py").is_file():
    pytest.skip("the repository is not there", allow_module_level=True)

spec = importlib.util.spec_from_file_location("doc_commands", ROOT / ".ci/doc_commands.py")
assert spec is not None and spec.loader is not None
docs: Any = importlib.util.module_from_spec(spec)
sys.modules["doc_commands"] = docs
spec.loader.exec_module(docs)

SIDE, FEWER_STEPS = 64, 6


def to_run(kind: str) -> list[Any]:
    slow = pytest.mark.slow
    return [
        pytest.param(entry, id=entry.name, marks=[slow] if entry.slow else [])
        for entry in docs.entries(kind)
        if entry.check == "run"
    ]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("entry", to_run("sh"))
def test_the_command_runs(entry: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a documented command ends with an error, or says nothing."""
    program, *words = shlex.split(entry.more.get("run", entry.says))
    assert program == "teacache"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TeaCacheWarning)
        assert main(words) == 0
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("entry", to_run("python"))
def test_the_code_runs(entry: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when documented code names what is not there, passes what a signature does not take, or raises."""
    text = next(block.text for block in docs.blocks() if block.page == entry.page and entry.says in block.text)
    for old, new in entry.more.get("replace", ()):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    names: dict[str, Any] = {}
    if "given" in entry.more:
        family = entry.more["given"]
        names |= {"model": small(toy_pipeline(family)), "make_model": functools.partial(toy_pipeline, family)}
    if "installs" in entry.more:
        installed(ROOT / entry.more["installs"], tmp_path / "site", monkeypatch)
    calls.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TeaCacheWarning)
        run(text, names)
    plugins.clear_cache()
    assert "generate_image" not in text or calls


@pytest.mark.slow
def test_the_first_example_reuses_steps() -> None:
    """Red when what the README begins with reuses nothing: out of its recipe, or declared instead of exact."""
    text = next(block.text for block in docs.blocks() if block.page == "README.md" and block.language == "python")
    names: dict[str, Any] = {}
    run(text, names, fewer=False)
    assert names["cached"].stats.last.reused > 0


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("Flux2Klein(model='klein')", TypeError),
        ("Flux2Klein(model_config=ModelConfig.flux2_klein_base_4b()).generate_image(promt='x')", TypeError),
        ("Flux2Klein(model_config=ModelConfig.klein())", AttributeError),
    ],
)
def test_wrong_code_does_not_run(text: str, error: type[Exception]) -> None:
    """Red when the stand-ins take what mflux does not."""
    imports = "from mflux.models.common.config import ModelConfig\nfrom mflux.models.flux2.variants import Flux2Klein\n"
    with pytest.raises(error):
        run(imports + text, {})


def test_pages_made_from_the_adapters_are_current() -> None:
    """Red when an adapter or a calibration was changed and the page of supported models was not made again."""
    path = ROOT / ".ci/supported_models.py"
    spec = importlib.util.spec_from_file_location("supported_models", path)
    assert spec is not None and spec.loader is not None
    page: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    assert page.main(["--check"]) == 0


calls: list[dict[str, Any]] = []
"""What the stand-ins were asked to draw."""


def run(text: str, names: dict[str, Any], *, fewer: bool = True) -> None:
    """Runs code with each pipeline of mflux that it imports replaced by its family's toy."""
    tree = ast.parse(text)
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    rest = [node for node in tree.body if node not in imports]
    exec(compile(ast.Module(imports, []), "<imports>", "exec"), names)
    families = dict(pipelines())
    for name, value in list(names.items()):
        if inspect.isclass(value) and value.__name__ in families:
            names[name] = stand_in(value, families[value.__name__], fewer=fewer)
    exec(compile(ast.Module(rest, []), "<documented>", "exec"), names)


def pipelines() -> Iterator[tuple[str, str]]:
    """Each pipeline's class name with the family that serves it."""
    for row in adapters():
        if row.adapter is not None and row.adapter.toy is not None:
            yield from ((pipeline.name, row.adapter.name) for pipeline in row.adapter.pipelines)


def stand_in(cls: type, family: str, *, fewer: bool) -> Callable[..., Any]:
    """Makes the toy where `cls` would load weights; takes what `cls` takes, and is named as `cls` would be."""

    def make(*args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(cls.__init__).bind(None, *args, **kwargs)  # type: ignore[misc]
        model = small(toy_pipeline(family), fewer=fewer)
        assert type(model) is cls
        model.model_config = given.arguments["model_config"]
        return model

    return make


def small(model: Any, *, fewer: bool = True) -> Any:
    """Lets a toy draw small pictures in few steps, of words that it knows, whatever is asked."""
    draw = model.generate_image
    signature = inspect.signature(draw)

    @functools.wraps(draw)
    def generate_image(*args: Any, **kwargs: Any) -> Any:
        given = {} if args == (...,) else dict(signature.bind(*args, **kwargs).arguments)
        calls.append(given)
        steps = given.get("num_inference_steps", FEWER_STEPS)
        asked = {"seed": 1} | given | {"prompt": EXAMPLES[0], "height": SIDE, "width": SIDE}
        return draw(**asked | {"num_inference_steps": min(steps, FEWER_STEPS) if fewer else steps})

    model.generate_image = generate_image
    return model


def installed(folder: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts a package where Python finds it, with the metadata that its installation would leave."""
    import tomllib

    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    metadata = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir(parents=True)
    fields = f"Metadata-Version: 2.4\nName: {project['name']}\nVersion: {project['version']}\n"
    (metadata / "METADATA").write_text(fields, encoding="utf-8")
    points = "".join(f"{name} = {value}\n" for name, value in project["entry-points"]["teacache"].items())
    (metadata / "entry_points.txt").write_text(f"[teacache]\n{points}", encoding="utf-8")
    for path in (site, folder / "src"):
        monkeypatch.syspath_prepend(path)
    plugins.clear_cache()
