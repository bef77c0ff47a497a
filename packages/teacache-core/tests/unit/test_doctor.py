"""`teacache doctor`, `check`, `tolerance` and `scenario` where mflux is not needed: what they say and how they end."""

from __future__ import annotations

import builtins
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import mlx.core as mx
import pytest

from teacache import diagnosis, plugins
from teacache.cli import main
from teacache.diagnosis import Finding, diagnose
from teacache.discovery import InstalledAdapter
from teacache.errors import OptionError
from teacache.store import Store
from teacache.testing import scenario
from teacache.testing.denoiser import ADAPTER
from teacache.testing.scenario import BASELINE, VARIABLES, Picture, Row, moved

pytestmark = pytest.mark.unit


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[InstalledAdapter]]:
    """The adapters that the machine seems to have."""
    rows: list[InstalledAdapter] = []
    monkeypatch.setattr(diagnosis, "adapters", lambda: tuple(rows))
    yield rows
    plugins.clear_cache()


def found(name: str) -> Finding:
    return next(finding for finding in diagnose() if finding.name == name)


def test_a_sound_machine_has_no_fault(installed: list[InstalledAdapter], capsys: pytest.CaptureFixture[str]) -> None:
    """Red when doctor finds fault with a machine on which everything works."""
    installed.append(InstalledAdapter("denoiser", "teacache-denoiser", "1.0", "working", ADAPTER))
    assert {finding.status for finding in diagnose()} <= {"ok", "note"}
    assert "no tolerance" in found("denoiser").says
    assert main(["doctor"]) == 0
    assert "MLX" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("row", "status", "says", "remedy"),
    [
        (InstalledAdapter("a", "p", "1", "disabled"), "note", "TEACACHE_DISABLE names it", "Take 'a' out"),
        (
            InstalledAdapter("a", "p", "1", "broken", error=ImportError("gone")),
            "fault",
            "ImportError: gone",
            "DISABLE=a",
        ),
        (
            InstalledAdapter("a", "p", "1", "working", replace(ADAPTER, name="a", tolerance="nowhere:tolerance.toml")),
            "fault",
            "nowhere:tolerance.toml",
            "force-reinstall p",
        ),
    ],
)
def test_an_adapter_that_does_not_work_says_why(
    installed: list[InstalledAdapter], row: InstalledAdapter, status: str, says: str, remedy: str
) -> None:
    """Red when a broken, disabled or damaged adapter is passed over in silence, or without what to do."""
    installed.append(row)
    finding = found("a")
    assert finding.status == status and says in finding.says and remedy in finding.remedy


def test_a_missing_backend_names_the_extra(
    installed: list[InstalledAdapter], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Red when MLX's Linux wheel without a backend is a traceback instead of the line to install it."""
    really = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "mlx.core":
            raise ImportError("libmlx.so: cannot open shared object file")
        return really(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr(sys, "platform", "linux")
    assert main(["doctor", "--json"]) == 1
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["MLX"]["status"] == "fault" and f"'mlx[cpu]=={version('mlx')}'" in rows["MLX"]["remedy"]
    assert "mx.compile" not in rows


def test_a_pipeline_that_cannot_be_imported_is_a_fault(
    installed: list[InstalledAdapter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when an mflux that is installed and breaks on import, or has no such class any more, is called sound."""
    pipelines = (replace(ADAPTER.pipelines[0], cls="teacache.testing:Nothing"),)
    adapter = replace(ADAPTER, name="a", host="mflux", host_versions=("0.21", "0.24"), pipelines=pipelines)
    installed.append(InstalledAdapter("a", "p", "1", "working", adapter))
    monkeypatch.setattr(diagnosis, "_version", {"mflux": "0.24.0"}.get)
    assert found("a").status == "fault"
    assert "Nothing cannot be imported" in found("a").says and "--upgrade p mflux" in found("a").remedy


def test_the_recordings_are_counted(installed: list[InstalledAdapter]) -> None:
    """Red when a damaged recording, which makes a model record again each time, is passed over in silence."""
    folder = Store().folder
    assert found("recordings").status == "ok" and str(folder) in found("recordings").says
    folder.mkdir(parents=True)
    (folder / "0123456789ab.json").write_text("{", encoding="utf-8")
    assert found("recordings").status == "note" and "1 cannot be read" in found("recordings").says


def test_a_compiler_that_fails_is_a_fault(installed: list[InstalledAdapter], monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a machine without a C++ compiler is called sound: every compiled pipeline would break."""

    def broken(function: Any) -> Any:
        def call(*_: Any) -> Any:
            raise RuntimeError("g++: not found")

        return call

    monkeypatch.setattr(mx, "compile", broken)
    monkeypatch.delenv("MLX_DISABLE_COMPILE", raising=False)
    assert found("mx.compile").status == "fault" and "MLX_DISABLE_COMPILE=1" in found("mx.compile").remedy


def test_an_adapter_without_its_host_is_a_fault(
    installed: list[InstalledAdapter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when an adapter for mflux counts as working where mflux is missing, or is too new without a word."""
    adapter = replace(ADAPTER, host="mflux", host_versions=("0.21", "0.24"))
    installed.append(InstalledAdapter("a", "p", "1", "working", adapter))
    versions = {"mflux": None}
    monkeypatch.setattr(diagnosis, "_version", versions.get)
    assert found("mflux").status == "fault" and "pip install mflux" in found("mflux").remedy
    versions["mflux"] = "0.25.1"  # type: ignore[assignment]
    assert found("mflux").status == "note" and "0.21-0.24" in found("mflux").says
    versions["mflux"] = "0.24.9"  # type: ignore[assignment]
    assert found("mflux").status == "ok"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["check", "--only", "speed"], "drift, neutrality, equivalence, quality"),
        (["check", "--quantize", "4"], "--model NAME"),
    ],
)
def test_a_wrong_wish_is_one_line(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a misspelt oracle passes for a check that was made."""
    assert main(arguments) == 2
    assert says in capsys.readouterr().err


def test_the_scenario_names_what_moves(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a circumstance that moves the bytes is not named, or a process that failed counts as one."""

    def drawn(picture: Picture, variable: str) -> Row:
        if variable == "thread":
            return Row(variable=variable, digest="", error="no thread here")
        return Row(variable=variable, digest="b" * 64 if variable == "compile off" else "a" * 64)

    monkeypatch.setattr(scenario, "_in_a_process", drawn)
    monkeypatch.setattr(plugins, "get_adapter", lambda _: ADAPTER)
    assert main(["scenario"]) == 0
    out = capsys.readouterr().out
    assert "moved by: compile off." in out and "no thread here" in out
    assert all(name in out for name in VARIABLES)


@pytest.mark.parametrize("jobs", [1, 3])
def test_the_scenario_keeps_its_order(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when rows come as their processes end, too many run at a time, or one is not told of."""
    running: list[str] = []
    most: list[int] = []

    def drawn(picture: Picture, variable: str) -> Row:
        running.append(variable)
        most.append(len(running))
        time.sleep(0.02 if variable == BASELINE else 0.005)
        running.remove(variable)
        return Row(variable=variable, digest=variable)

    monkeypatch.setattr(scenario, "_in_a_process", drawn)
    told: list[str] = []
    rows = scenario.probe(Picture(), jobs=jobs, advance=told.append)
    assert [row.variable for row in rows] == list(VARIABLES) and sorted(told) == sorted(VARIABLES)
    assert max(most) <= jobs


def test_a_scenario_without_a_baseline_is_no_answer() -> None:
    """Red when a picture that cannot be made is reported as one that nothing moves."""
    with pytest.raises(OptionError, match="no weights"):
        moved([Row(variable=BASELINE, digest="", error="no weights")])
