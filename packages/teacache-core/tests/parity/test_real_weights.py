"""`teacache check --model`: the way to real weights, with faults and with a toy in their place. No weights needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from teacache.cli import main
from teacache.testing import fetching, models

pytest.importorskip("mflux")
pytest.importorskip("teacache_flux1")

RUN = "import sys; from teacache.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def toy_in_the_place_of(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Every checkpoint "loads" as FLUX.1's toy under the checkpoint's own configuration; returns what was asked for."""
    asked: list[dict[str, Any]] = []

    def construct(*, model_config: Any, quantize: int | None) -> Any:
        asked.append({"checkpoint": model_config.model_name, "quantize": quantize})
        model = models.toy_pipeline("flux1")
        model.model_config = model_config
        return model

    monkeypatch.setattr(models, "find_class", lambda reference: construct)
    return asked


def test_the_paths_are_asked_of_the_named_checkpoint(
    toy_in_the_place_of: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Red when `--model` asks the toys, loads with other bits, or leaves an oracle out."""
    arguments = ["check", "--model", "dev", "--quantize", "4", "--size", "64", "--prompt", "red circle left"]
    assert main([*arguments, "--only", "neutrality", "--only", "equivalence", "--steps", "6"]) == 0
    out = capsys.readouterr().out
    assert "neutrality of black-forest-labs/FLUX.1-dev (Flux1, 4 bit): passed" in out
    assert "equivalence of black-forest-labs/FLUX.1-dev (Flux1, 4 bit): passed" in out
    assert {tuple(one.values()) for one in toy_in_the_place_of} == {("black-forest-labs/FLUX.1-dev", 4)}


def test_dev_is_held_to_its_published_point(
    toy_in_the_place_of: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Red when FLUX.1-dev at 25 steps and its default threshold is not expected to reuse 5 to 7 steps."""
    code = main(["check", "--model", "dev", "--size", "64", "--prompt", "red circle left", "--only", "quality"])
    row = next(line for line in capsys.readouterr().out.splitlines() if "reused steps in the band" in line)
    reused = int(row.partition("reused steps in the band")[2].partition("reused ")[2].partition(",")[0])
    assert row.endswith("fewest 5, most 7") and reused > 0
    assert (code == 0) == (5 <= reused <= 7)


def test_a_pipeline_that_needs_pictures_is_refused_before_loading(capsys: pytest.CaptureFixture[str]) -> None:
    """Red when `--model` of an editing pipeline downloads 20 GB and then ends in a TypeError."""
    assert main(["check", "--model", "dev-kontext", "--only", "neutrality"]) == 2
    assert "needs more than a prompt" in capsys.readouterr().err


def test_weights_that_are_not_here_are_one_line(tmp_path: Path) -> None:
    """Red when mflux's own error for a checkpoint that cannot be fetched is a traceback, or has no remedy."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, "check", "--model", "dev", "--quantize", "4", "--only", "neutrality"],
        capture_output=True, text=True, check=False,
        env=os.environ | {"HF_HOME": str(tmp_path), "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if line.startswith("teacache: ")]
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert "The weights of black-forest-labs/FLUX.1-dev could not be loaded" in said[-1]
    assert "hf download black-forest-labs/FLUX.1-dev" in said[-1]


def test_the_hub_still_has_the_errors_that_are_known_by_name() -> None:
    """Red when huggingface_hub renamed an error, so that its remedy would be another one's."""
    from huggingface_hub import errors

    assert [name for name in fetching.KNOWN if not hasattr(errors, name)] == []
    assert issubclass(errors.GatedRepoError, errors.RepositoryNotFoundError)  # why the order of KNOWN matters
