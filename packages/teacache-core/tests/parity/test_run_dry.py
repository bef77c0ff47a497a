"""`teacache run --dry-run` over mflux's real console scripts: which are served, and what would be done."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from PIL import Image

from teacache.cli import main
from teacache.hosts.scripts import script_modules

pytest.importorskip("teacache_flux1")
pytest.importorskip("teacache_flux2")
pytest.importorskip("teacache_qwen")
pytest.importorskip("teacache_zimage")

FAMILIES = ("mflux.models.flux.", "mflux.models.flux2.", "mflux.models.qwen.", "mflux.models.z_image.")
REFUSED = ("mflux-concept", "mflux-concept-from-image")

NEEDS = {  # what a command asks for besides a prompt; @ stands for a picture
    "mflux-generate": "--model dev",
    "mflux-generate-controlnet": "--model dev --controlnet-image-path @",
    "mflux-generate-depth": "--image-path @",
    "mflux-generate-fill": "--image-path @ --masked-image-path @",
    "mflux-generate-flux2-edit": "--image-paths @",
    "mflux-generate-in-context": "--reference-image @",
    "mflux-generate-in-context-catvton": "--person-image @ --person-mask @ --garment-image @",
    "mflux-generate-in-context-edit": "--reference-image @",
    "mflux-generate-kontext": "--image-path @",
    "mflux-generate-qwen-edit": "--image-paths @",
    "mflux-generate-redux": "--redux-image-paths @",
    "mflux-generate-z-image-controlnet": "--control canny:@",
    "mflux-upscale-controlnet": "--controlnet-image-path @",
}
SERVED = sorted(
    name
    for name, module in script_modules().items()
    if module.startswith(FAMILIES) and name not in REFUSED and "train" not in name
)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "picture.png"
    Image.new("RGB", (64, 64), "red").save(path)
    return path


def dry(capsys: pytest.CaptureFixture[str], *arguments: str, options: tuple[str, ...] = ()) -> dict[str, str]:
    """What would be done, by the words at the beginning of the lines; notes are joined."""
    assert main(["run", "--dry-run", *options, "--", *arguments]) == 0
    rows: dict[str, str] = {}
    for line in capsys.readouterr().out.splitlines():
        if not line.startswith("[INFO]"):
            word, _, text = line.partition(" ")
            rows[word] = f"{rows[word]} {text.strip()}" if word in rows else text.strip()
    return rows


def test_no_command_of_the_families_is_forgotten() -> None:
    """Red when mflux brings a command for one of the four families that the other tests here do not see."""
    assert {"mflux-generate", "mflux-generate-qwen", "mflux-generate-z-image-turbo", *NEEDS} <= {*SERVED}
    assert len(SERVED) >= 16


@pytest.mark.parametrize("name", SERVED)
def test_every_command_of_the_families_starts(
    name: str, picture: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a command builds its pipeline where nobody looks, loads weights first, or names no adapter."""
    arguments = [name, "--prompt", "a red fox", *NEEDS.get(name, "").replace("@", str(picture)).split()]
    before = sys.argv
    rows = dry(capsys, *arguments)
    assert rows["command"].startswith(f"{name} (")
    assert rows["adapter"].split()[0] in ("flux1", "flux2", "qwen", "zimage")
    assert rows["calibration"] and rows["policy"]
    assert sys.argv is before


def test_the_two_dashes_may_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """Red when an option of mflux's is taken for one of ours where no -- stands before the command."""
    assert main(["run", "--dry-run", "mflux-generate-flux2", "--prompt", "a", "--steps", "4"]) == 0
    assert "mflux-generate-flux2" in capsys.readouterr().out


@pytest.mark.parametrize("name", REFUSED)
def test_what_an_adapter_refuses_ends_before_weights(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a pipeline that cannot be cached is noticed after its weights are loaded, or without the reason."""
    assert main(["run", "--", name, "--prompt", "a red fox"]) == 2
    error = capsys.readouterr().err
    assert "Flux1Concept" in error and "--anyway" in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["mflux-generate-fibo", "--prompt", "x"], "FIBO"),
        (["mflux-save", "--path", "x", "--model", "dev"], "no pictures"),
        (["mflux-genrate-qwen"], "mflux-generate-qwen"),
        (["nonsense"], "mflux-generate"),
    ],
)
def test_other_commands_are_refused(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a command that no adapter serves, or that makes no pictures, starts all the same."""
    for dry_run in ([], ["--dry-run"]):
        assert main(["run", *dry_run, "--", *arguments]) == 2
        error = capsys.readouterr().err.splitlines()
        assert says in error[-1] and error[-1].startswith("teacache: ")


def test_the_calibrated_gate_is_named_where_it_would_be_used(capsys: pytest.CaptureFixture[str]) -> None:
    """Red when steps or guidance of the command line do not reach the choice, or a threshold is lost."""
    base = ("mflux-generate-flux2", "--model", "flux2-klein-base-4b", "--prompt", "a", "--guidance", "4")
    assert dry(capsys, *base)["policy"] == "gate at threshold 0.17"
    assert dry(capsys, *base, options=("--threshold", "0.3"))["policy"] == "gate at threshold 0.3"
    assert dry(capsys, *base, options=("--threshold", "0"))["policy"] == "off (threshold 0)"
    short = dry(capsys, *base, "--steps", "24")
    assert short["policy"].startswith("would record the first picture")
    assert "compute 12 of 24 steps" in short["policy"]
    assert "--steps 50" in short["note"]
    weak = dry(capsys, *base[:-2])
    assert weak["policy"].startswith("would record") and "--guidance 4" in weak["note"]


def test_a_plan_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Red when the options for a plan do not reach the choice."""
    base = ("mflux-generate", "--model", "dev", "--prompt", "a", "--steps", "30")
    assert dry(capsys, *base, options=("--plan", "0-3,10,20"))["policy"] == "given plan"
    assert "compute 9 of 30 steps" in dry(capsys, *base, options=("--computed-steps", "9"))["policy"]
    assert "compute 10 of 30 steps" in dry(capsys, *base, options=("--speedup", "3"))["policy"]
    other = dry(capsys, *base, "--scheduler", "seedvr2_euler", options=("--speedup", "3"))["policy"]
    assert other.startswith("off (scheduler)") and "--scheduler seedvr2_euler" in other


@pytest.mark.parametrize(
    ("arguments", "helps"),
    [
        ("mflux-generate-flux2", "--model flux2-klein-base-4b --steps 50"),
        ("mflux-generate-flux2 --model flux2-klein-9b", "--model flux2-klein-base-9b --steps 50"),
        ("mflux-generate-z-image-turbo", "mflux-generate-z-image --steps 50"),
        ("mflux-generate --model schnell", "--model dev --steps"),
        ("mflux-generate-qwen", "--steps 50"),
        ("mflux-generate --model dev --steps 8", "--steps"),
    ],
)
def test_defaults_that_leave_little_name_what_helps(
    arguments: str, helps: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Red when a new user with mflux's own defaults is not told why nothing gets faster, or is told a wrong option."""
    note = dry(capsys, *arguments.split(), "--prompt", "a")["note"]
    assert helps in note


def test_numbers_that_are_not_used_say_why(picture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a calibration is named that this pipeline does not use, or advice is given that would change nothing."""
    upscaled = dry(capsys, "mflux-upscale-controlnet", "--prompt", "a", "--controlnet-image-path", str(picture))
    assert "not used, it holds for Flux1" in upscaled["calibration"] and "note" not in upscaled
    edited = dry(capsys, "mflux-generate-in-context-edit", "--prompt", "a", "--reference-image", str(picture))
    assert "(declared)" in edited["checkpoint"] and "note" not in edited


def test_what_the_command_line_knows_of_the_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a fine-tune, a folder or a LoRA passes for the original checkpoint."""
    lora = tmp_path / "style.safetensors"
    lora.touch()
    common = ("--prompt", "a", "--steps", "50", "--guidance", "4")
    base = ("mflux-generate-flux2", *common)
    named = dry(capsys, *base, "--model", "flux2-klein-base-4b", "-q", "4")
    assert named["checkpoint"] == "black-forest-labs/FLUX.2-klein-base-4B (exact), 4 bit"
    folder = dry(capsys, *base, "--model", str(tmp_path), "--base-model", "flux2-klein-base-4b")
    assert "(declared)" in folder["checkpoint"] and str(tmp_path) in folder["checkpoint"]
    assert folder["policy"].startswith("would record") and "--checkpoint" in folder["note"]
    altered = dry(capsys, *base, "--model", "flux2-klein-base-4b", "--lora-paths", str(lora))
    assert "(declared)" in altered["checkpoint"] and "style.safetensors" in altered["checkpoint"]
    word = dry(capsys, *base, "--model", str(tmp_path), "--base-model", "flux2-klein-base-4b",
               options=("--checkpoint", "klein-base-4b"))  # fmt: skip
    assert "(exact)" in word["checkpoint"] and word["policy"] == "gate at threshold 0.17"


def test_a_dry_run_says_why_mflux_would_end(capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a dry run ends in mflux's traceback, which says less than its last line."""
    assert main(["run", "--dry-run", "--", "mflux-generate", "--prompt", "a"]) == 2
    assert "would end before it loads a model: No model requested" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--plan", "0,x"], "--plan 0,x"),
        (["--plan", "0,9-4"], "--plan 0,9-4"),
        (["--plan", "0-999999999999"], "--plan 0-9"),
        (["--plan", "0,40"], "40"),
        (["--speedup", "0.5"], "--speedup 0.5"),
        (["--speedup", "2", "--threshold", "0.1"], "given together"),
        (["--checkpoint", "nosuch"], "--checkpoint 'nosuch'"),
    ],
)
def test_wrong_options_are_one_line(options: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a wrong option of ours is noticed after the weights, speaks of Python's arguments, or is a traceback."""
    arguments = ["mflux-generate", "--model", "dev", "--prompt", "a"]
    assert main(["run", *options, "--", *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


def test_the_commands_own_mistakes_keep_their_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a mistake in mflux's options is swallowed, or ends otherwise than without the cache."""
    with pytest.raises(SystemExit) as left:
        main(["run", "--", "mflux-generate-flux2", "--prompt", "a", "--nosuch"])
    assert left.value.code == 2
    assert "--nosuch" in capsys.readouterr().err
    with pytest.raises(SystemExit) as left:
        main(["run", "--", "mflux-generate-flux2", "--help"])
    assert not left.value.code
    assert "--lora" in capsys.readouterr().out
