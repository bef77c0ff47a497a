"""Plugins under attack: what one package does wrong stays its own, and is said by name."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

import teacache
from teacache import discovery, plugins
from teacache.adapter import CONTRACT
from teacache.cli import main
from teacache.errors import AdapterDescriptionError, PluginError
from teacache.testing.denoiser import ADAPTER, Denoiser, call_each_step
from teacache.testing.spies import expected_warnings

from .test_plugins import BROKEN, model

pytestmark = pytest.mark.unit

Install = Callable[[str, str, str], None]

SOUND = """
from teacache import Adapter, Body, Pipeline, Signal, hookimpl
import dataclasses

ADAPTER = Adapter(
    name={name!r}, contract={contract}, host="loop", pipelines=(Pipeline(cls="host_program:Pipe"),),
    transformer="host_program:Transformer", body=Body(blocks=("blocks",)),
    signal=Signal(read=lambda call: call["x"], tensor="x"),
)

@hookimpl
def teacache_adapters():
    return [{adapter}]
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Returns a function that installs a package in a folder of its own; no other one with adapters is seen."""
    folders: list[str] = []
    monkeypatch.setattr(discovery, "distributions", lambda: metadata.distributions(path=folders))
    monkeypatch.delenv("TEACACHE_DISABLE", raising=False)

    def add(package: str, text: str, name: str) -> None:
        module = package.replace("-", "_")
        info = tmp_path / module / f"{module}-1.2.dist-info"
        info.mkdir(parents=True)
        (info.parent / f"{module}.py").write_text(text, encoding="utf-8")
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[teacache]\n{name} = {module}\n")
        folders.append(str(info.parent))
        monkeypatch.syspath_prepend(info.parent)
        plugins.clear_cache()

    yield add
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
    monkeypatch.undo()
    plugins.clear_cache()


def source(name: str = "fam", adapter: str = "ADAPTER", contract: int = CONTRACT) -> str:
    return SOUND.format(name=name, adapter=adapter, contract=contract)


def assert_named(capsys: pytest.CaptureFixture[str], culprit: str, status: str) -> None:
    """Both commands end well, name the culprit, and say that the other adapter works."""
    assert plugins.find_adapter(model())[0].name == "fam"
    capsys.readouterr()
    assert main(["adapters", "--json"]) == 0
    rows = {(row["package"], row["status"]) for row in json.loads(capsys.readouterr().out)}
    assert rows == {("fam-plugin", "working"), (culprit, status)}
    assert main(["adapters"]) == 0
    capsys.readouterr()
    assert main(["doctor", "--json"]) == 0
    said = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert said["fam"]["status"] == "ok"
    assert [row for row in said.values() if row["status"] == "fault" and culprit in row["says"]], said
    assert main(["doctor"]) == 0


@pytest.mark.parametrize("case", BROKEN)
def test_the_commands_name_a_broken_plugin(install: Install, capsys: pytest.CaptureFixture[str], case: str) -> None:
    """Red when one package takes `doctor` or `adapters` down with it, or goes unnamed."""
    install("broken-plugin", BROKEN[case][0], "sick")
    install("fam-plugin", source(), "fam")
    assert_named(capsys, "broken-plugin", "broken")


DESCRIPTIONS = {
    "name": "name=3",
    "empty name": "name=' '",
    "pipelines": "pipelines=None",
    "pipelines of text": "pipelines=('host_program:Pipe',)",
    "body": "body=None",
    "signal": "signal=ADAPTER.body",
    "transformer": "transformer='Transformer'",
    "contract": "contract='1'",
    "host": "host='elsewhere'",
    "target_tokens": "target_tokens=4",
    "branch_key": "branch_key=1",
    "branches_in_batch": "branches_in_batch=0",
    "refused": "refused=['host_program:Refused']",
    "calibrations": "calibrations=3",
    "tolerance": "tolerance='tolerance.toml'",
    "host_versions": "host_versions='0.24'",
    "blocks": "body=Body(blocks=())",
    "read": "signal=Signal(read=None, tensor='x')",
    "factories": "pipelines=(Pipeline(cls='a:B', factories='_predict'),)",
}


@pytest.mark.parametrize("case", DESCRIPTIONS)
def test_a_description_of_another_type(install: Install, capsys: pytest.CaptureFixture[str], case: str) -> None:
    """Red when a wrong field of one adapter is found out while another one is looked for."""
    install("broken-plugin", source("sick", f"dataclasses.replace(ADAPTER, {DESCRIPTIONS[case]})"), "sick")
    install("fam-plugin", source(), "fam")
    assert_named(capsys, "broken-plugin", "broken")
    with pytest.raises(PluginError, match=r"AdapterDescriptionError.*expected"):
        plugins.get_adapter("sick")


def test_a_plugin_for_a_newer_contract(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a newer adapter stops the commands, or when what it has of its own counts as a mistake."""
    newer = "dataclasses.replace(ADAPTER, pipelines=(), host='a newer one')"
    install("newer-plugin", source("newer", newer, CONTRACT + 1), "newer")
    install("fam-plugin", source(), "fam")
    assert_named(capsys, "newer-plugin", "incompatible")


def test_two_packages_of_one_name(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when the commands cannot show the clash that `wrap` speaks of."""
    install("a-plugin", source(), "fam")
    install("b-plugin", source(), "fam")
    for command in (["adapters"], ["adapters", "--json"], ["doctor"]):
        assert main(command) == 0
        said = capsys.readouterr().out
        assert "a-plugin" in said and "b-plugin" in said


def test_names_that_look_like_markup(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a name with brackets is taken for colours of the table, or breaks it."""
    install("fam-plugin", source(), "fam")
    install("odd-plugin", source("odd", "dataclasses.replace(ADAPTER, name='[/red] odd', pipelines=())"), "odd")
    assert main(["adapters"]) == 0
    assert "[/red] odd" in capsys.readouterr().out


def fails(*_: Any) -> Any:
    raise ZeroDivisionError("planted in the adapter")


def used(adapter: teacache.Adapter, image_tokens: int | None = None) -> None:
    """A run with the gate, then the same model with a sound adapter."""
    denoiser = Denoiser()
    plain = type(denoiser)
    options = {"coefficients": [0, 0, 0, 0, 1], "threshold": 1.5}
    try:
        with (
            expected_warnings(),
            teacache.wrap(denoiser, adapter=adapter, **options) as handle,
            handle.run([1.0, 0.5, 0.2, 0.0], image_tokens=image_tokens) as run,
        ):
            for _ in run:
                denoiser(mx.ones((1, 9, 4)), 0.9)
    finally:
        assert type(denoiser) is plain
        with expected_warnings(), teacache.wrap(denoiser, adapter=ADAPTER, **options) as handle:
            call_each_step(denoiser, handle, [1.0, 0.5, 0.2, 0.0])
            assert handle.stats.last is not None and handle.stats.last.reused == 1


def test_a_signal_that_fails_says_whose_it_is() -> None:
    """Red when the model's own exception is replaced by another one, or nothing points to the adapter."""
    with pytest.raises(ZeroDivisionError, match="planted") as raised:
        used(dataclasses.replace(ADAPTER, signal=dataclasses.replace(ADAPTER.signal, read=fails)))
    assert raised.value.__notes__ == ["While the adapter read its signal, 'modulated input'."]


@pytest.mark.parametrize("signal", [None, 3.0, [mx.ones(3)], mx.ones(()), mx.ones(3)], ids=repr)
def test_a_signal_of_another_shape_is_refused(signal: Any) -> None:
    """Red when something that is no array of tokens is compared from step to step."""
    with pytest.raises(AdapterDescriptionError, match=r"'modulated input' is of .*expected an array \(\.\.\., tokens"):
        used(dataclasses.replace(ADAPTER, signal=dataclasses.replace(ADAPTER.signal, read=lambda call: signal)))


@pytest.mark.parametrize("count", [fails, lambda n: 2.5, lambda n: 0, lambda n: None])
def test_target_tokens_that_are_none_are_refused(count: Callable[..., Any]) -> None:
    """Red when a wrong count cuts the tokens somewhere else, or ends in an untyped error."""
    with pytest.raises(AdapterDescriptionError, match=r"target_tokens\(9\) of the adapter 'denoiser'"):
        used(dataclasses.replace(ADAPTER, target_tokens=count), image_tokens=9)


@pytest.mark.parametrize("tail", [fails, lambda module: (module, "nothing"), "nothing"])
def test_a_tail_that_is_none_leaves_the_model_whole(tail: Any) -> None:
    """Red when a wrong tail is an error in the middle of a step that leaves steered lists behind."""
    with pytest.raises((AdapterDescriptionError, ZeroDivisionError)):
        used(dataclasses.replace(ADAPTER, body=dataclasses.replace(ADAPTER.body, tail=tail)))
