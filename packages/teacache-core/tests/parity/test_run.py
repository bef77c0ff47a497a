"""`teacache run` with mflux's real commands in this process, their model's construction replaced by a toy."""

from __future__ import annotations

import gc
import json
import re
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlx import nn
from PIL import Image

from teacache.cli import main
from teacache.store import Store

pytest.importorskip("teacache_flux2")

PROMPT = "red circle left, white background"
loaded: list[weakref.ref[Any]] = []
"""The transformers that the commands loaded."""

STEPS = 10


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> type:
    """Has `Flux2Klein(...)` become a toy instead of loading weights; the configuration stays the command's."""
    from mflux.models.flux2.variants import Flux2Klein

    from teacache.testing import toy_pipeline

    def init(
        self: Any,
        quantize: int | None = None,
        model_path: str | None = None,
        lora_paths: list[str] | None = None,
        lora_scales: list[float] | None = None,
        bake_lora: bool = True,
        model_config: Any = None,
        compute_precision: Any = None,
        small_text_encoder: bool = False,
        small_decoder: bool = False,
    ) -> None:
        made = toy_pipeline("flux2")
        nn.Module.__init__(self)
        dict.update(self, made)
        vars(self).update(vars(made))
        self.model_config = model_config
        self.bits, self.lora_paths, self.lora_scales = quantize, lora_paths, lora_scales
        loaded.append(weakref.ref(self.transformer))

    loaded.clear()
    monkeypatch.setattr(Flux2Klein, "__init__", init)
    return Flux2Klein


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """Runs mflux-generate-flux2 and returns the lines of ours."""

    def go(*arguments: str, options: tuple[str, ...] = (), steps: int = STEPS, expect: int = 0) -> list[str]:
        common = ("--prompt", PROMPT, "--model", "flux2-klein-base-4b", "--height", "64", "--width", "64")
        output = ("--steps", str(steps), "--output", str(tmp_path / "picture.png"))
        assert main(["run", *options, "--", "mflux-generate-flux2", *common, *output, *arguments]) == expect
        return [line for line in capsys.readouterr().err.splitlines() if line.startswith("teacache: ")]

    return go


def reports(lines: list[str]) -> list[tuple[int, int]]:
    """(reused, steps) of each picture that was reported."""
    found = (re.match(r"teacache: (\d+) of (\d+) steps reused", line) for line in lines)
    return [(int(one[1]), int(one[2])) for one in found if one]


def test_each_seed_is_reported_and_the_class_is_as_before(
    run: Callable[..., list[str]], toy: type, tmp_path: Path
) -> None:
    """Red when only the first picture is wrapped or reported, or the constructor stays changed, or the model alive."""
    before = toy.__init__
    lines = run("--seed", "1", "2", "3", options=("--speedup", "2"))
    assert reports(lines) == [(0, STEPS), (5, STEPS), (5, STEPS)]
    assert "2.0x estimated" in lines[-1] and "plan from the recording" in lines[-1]
    assert any("recorded" in line for line in lines)
    assert sorted(path.name for path in tmp_path.glob("*.png")) == [f"picture_seed_{seed}.png" for seed in (1, 2, 3)]
    assert toy.__init__ is before
    assert len(list(Store().all())) == 1
    gc.collect()
    assert [one() for one in loaded] == [None]


def test_the_picture_is_the_one_that_wrap_makes(run: Callable[..., list[str]], tmp_path: Path) -> None:
    """Red when the command makes another picture than `wrap` from Python, or a plain one under threshold 0."""
    import numpy as np

    import teacache
    from teacache.testing import toy_pipeline

    arguments = {"prompt": PROMPT, "num_inference_steps": STEPS, "height": 64, "width": 64, "guidance": 1.0, "seed": 4}
    plain = toy_pipeline("flux2").generate_image(**arguments).image
    model = toy_pipeline("flux2")
    with teacache.wrap(model, plan=[0, 3, 6]):
        planned = model.generate_image(**arguments).image
    lines = run("--seed", "4", options=("--threshold", "0"))
    assert "threshold is 0" in lines[-1]
    with Image.open(tmp_path / "picture.png") as made:
        assert np.array_equal(np.array(made), np.array(plain))
    (tmp_path / "picture.png").unlink()
    assert reports(run("--seed", "4", options=("--plan", "0,3,6"))) == [(STEPS - 4, STEPS)]
    with Image.open(tmp_path / "picture.png") as made:
        assert np.array_equal(np.array(made), np.array(planned)) and not np.array_equal(np.array(made), np.array(plain))


def test_stepwise_pictures_and_low_ram(run: Callable[..., list[str]], tmp_path: Path) -> None:
    """Red when mflux's own callbacks are lost under the cache, or freeing the transformer breaks the report."""
    steps = tmp_path / "steps"
    lines = run("--seed", "1", "--low-ram", "--stepwise-image-output-dir", str(steps), options=("--plan", "0,3,6"))
    assert reports(lines) == [(STEPS - 4, STEPS)]
    assert len(list(steps.glob("seed_1_step*.png"))) == STEPS + 1


def test_lora_paths_are_read(run: Callable[..., list[str]], tmp_path: Path) -> None:
    """Red when a LoRA of the command line does not make the checkpoint a declared one."""
    lora = tmp_path / "style.safetensors"
    lora.touch()
    lines = run("--seed", "1", "--lora-paths", str(lora), "--lora-scales", "0.7", options=("--speedup", "2"))
    assert reports(lines) == [(0, STEPS)]
    (_, recording), = Store().all()  # fmt: skip
    assert recording.key.level == "declared"


def test_a_folder_is_not_the_checkpoint_that_it_declares(run: Callable[..., list[str]], tmp_path: Path) -> None:
    """Red when weights from a folder pass for the checkpoint whose configuration mflux picked for them."""
    run("--seed", "1", "--model", str(tmp_path), "--base-model", "flux2-klein-base-4b", options=("--speedup", "2"))
    (_, recording), = Store().all()  # fmt: skip
    assert (recording.key.level, recording.key.checkpoint) == ("declared", "black-forest-labs/FLUX.2-klein-base-4B")


def test_little_to_save_is_said_before_the_picture(run: Callable[..., list[str]]) -> None:
    """Red when few steps are passed over in silence, or come without the option that helps."""
    lines = run("--seed", "1", steps=6)
    assert "--steps 50" in lines[0]
    assert lines[-1].startswith("teacache: 0 of 6 steps reused: too few steps")
    assert sum("too few steps" in line for line in lines) == 1


def test_metadata_tells_what_made_the_picture(run: Callable[..., list[str]], tmp_path: Path) -> None:
    """Red when a picture does not say that steps were reused in it, and how it can be made again."""
    run("--seed", "1", "--metadata", options=("--plan", "0,3,6"))
    made = json.loads((tmp_path / "picture.metadata.json").read_text(encoding="utf-8"))["teacache"]
    assert made["computed_steps"] == [0, 3, 6, STEPS - 1]
    assert made["policy"] == "given plan"


@pytest.mark.parametrize("error", [RuntimeError("out of paper"), SystemExit(7), KeyboardInterrupt()])
def test_an_exception_inside_ends_as_without_and_undoes(
    error: BaseException, run: Callable[..., list[str]], toy: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when an error of the command is swallowed, or leaves the class, the warnings or the models changed."""
    import warnings

    from mflux.models.flux2.cli import flux2_generate

    class Image:
        def save(self, **_: Any) -> None:
            raise error

    kept: list[Any] = []
    before, shown, generate = toy.__init__, warnings.showwarning, toy.generate_image

    def generate_image(self: Any, **arguments: Any) -> Any:
        kept.append(self)
        generate(self, **arguments)
        return Image()

    monkeypatch.setattr(toy, "generate_image", generate_image)
    if isinstance(error, KeyboardInterrupt):
        assert "interrupted" in run("--seed", "1", options=("--speedup", "2"), expect=130)[-1]
    else:
        with pytest.raises(type(error)) as raised:
            run("--seed", "1", options=("--speedup", "2"))
        assert raised.value is error
    assert toy.__init__ is before and warnings.showwarning is shown
    assert "generate_image" not in vars(kept[0]) and type(kept[0].transformer).__name__ == "Flux2Transformer"
    assert flux2_generate.CommandLineParser.parse_args.__name__ == "parse_args"
    assert not hasattr(flux2_generate.CommandLineParser.parse_args, "__wrapped__")


def test_an_interrupted_loop_ends_as_mflux_ends_it(
    run: Callable[..., list[str]], toy: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when Ctrl-C in the loop, which mflux turns into an end with code 0, ends otherwise or reports a picture."""
    from teacache.session import Session

    end_step = Session.end_step

    def interrupted(self: Session, index: int, latents: Any = None) -> Any:
        if index == 3:
            raise KeyboardInterrupt
        return end_step(self, index, latents)

    monkeypatch.setattr(Session, "end_step", interrupted)
    assert reports(run("--seed", "1", options=("--plan", "0,3,6"))) == []


def test_anyway_runs_plainly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when --anyway wraps, changes the exit code, or a command that no adapter serves runs without it."""
    from mflux.models.fibo.cli import fibo_generate

    monkeypatch.setattr(fibo_generate, "main", lambda: 3)
    assert main(["run", "--", "mflux-generate-fibo"]) == 2
    with pytest.raises(SystemExit) as left:
        main(["run", "--anyway", "--", "mflux-generate-fibo", "--prompt", "x"])
    assert left.value.code == 3
    assert "without the cache" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--prompt-file", "nosuch.txt"],
        ["--prompt", PROMPT, "--nosuch"],
        ["--prompt", PROMPT, "--guidance", "3", "--model", "flux2-klein-4b"],
        ["--prompt", PROMPT, "--lora-paths", "nosuch.safetensors"],
        [],
    ],
    ids=["prompt file", "option", "guidance", "LoRA", "nothing"],
)
def test_mistakes_end_as_without_the_cache(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a mistake in mflux's options has another exit code, or other words, under the cache."""
    from mflux.models.flux2.cli import flux2_generate

    common = ["--steps", "4", "--height", "64", "--width", "64", "--seed", "1", "--output", str(tmp_path / "x.png")]
    monkeypatch.setattr(sys, "argv", ["mflux-generate-flux2", *arguments, *common])
    plain = code_of(flux2_generate.main), said(capsys)
    assert (code_of(lambda: main(["run", "--", *sys.argv])), said(capsys)) == plain


def code_of(call: Callable[[], Any]) -> int | str:
    try:
        return call() or 0
    except SystemExit as left:
        return left.code or 0


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What mflux said: memory differs from run to run, and our own lines begin with our name."""
    shown = capsys.readouterr()
    lines = (shown.out + shown.err).splitlines()
    return [line for line in lines if not line.startswith(("teacache: ", "Peak MLX memory"))]
