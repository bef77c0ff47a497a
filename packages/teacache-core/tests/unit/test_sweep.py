"""`teacache sweep` and `teacache calibrate` without a model: what is asked for, fitted, judged and refused."""

from __future__ import annotations

import math
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from teacache.calibrating import Measured, fit, thresholds
from teacache.calibration.record import Case
from teacache.cli import main
from teacache.cli.source import PROMPTS, prompts_for
from teacache.errors import FitError, OptionError, ToyPromptError
from teacache.held_out import HeldOut, choose_threshold, not_worth, summed_up

pytestmark = pytest.mark.unit

SIGMAS = tuple(np.linspace(1, 0, 21).tolist())
STEP_CURVE = np.linspace(0.4, 0.05, 19)


def measured(seed: int, *, informative: bool = True) -> Measured:
    """A run of 20 steps whose body changes as its signal does, or only as its step does."""
    rng = np.random.default_rng(seed)
    signal = STEP_CURVE * rng.uniform(0.8, 1.2, 19) if informative else rng.uniform(0.05, 0.4, 19)
    body = 2 * signal if informative else STEP_CURVE
    angle = np.linspace(0, 1 + 0.1 * seed, 20)
    return Measured(
        prompt=f"prompt {seed}", seed=seed, sigmas=SIGMAS, signal=tuple(signal), body=tuple(body),
        products=tuple(map(tuple, np.cos(angle[:, None] - angle[None, :]))), guidance=2.0, image_tokens=64,
    )  # fmt: skip


def test_what_holds_on_other_prompts_is_fitted() -> None:
    """Red when a fit is judged on the prompts that it was made from, or the kernels of the prompts are not averaged."""
    runs = [measured(seed) for seed in range(3)]
    fits = fit(runs)
    assert fits.polynomial is not None and fits.why_no_polynomial is None
    assert fits.polynomial_r2 is not None and 0.99 < fits.polynomial_r2 < 1  # clamped to the others' range
    assert fits.curve_r2 is not None and 0.5 < fits.curve_r2 < 1
    assert fits.kernel.prompts == 3
    assert np.allclose(fits.kernel.products, np.mean([run.kernel.products for run in runs], axis=0))


def test_a_polynomial_that_explains_nothing_is_not_written() -> None:
    """Red when a fit too poor to use is handed out without a word; the curve is what explains the steps there."""
    fits = fit([measured(seed, informative=False) for seed in range(4)])
    assert fits.polynomial is None and "too poor to use" in str(fits.why_no_polynomial)
    assert fits.curve_r2 == pytest.approx(1)


def test_runs_of_different_schedules_are_refused() -> None:
    """Red when changes of different noise levels are averaged."""
    other = Measured(**{**{name: getattr(measured(1), name) for name in Measured.__slots__}, "sigmas": SIGMAS[::2]})
    with pytest.raises(FitError, match="schedules"):
        fit([measured(0), other])


def test_thresholds_follow_the_speed() -> None:
    """Red when a faster setting gets a lower threshold, or the count that it leads to is far from the speed."""
    runs = [measured(seed) for seed in range(3)]
    polynomial = fit(runs).polynomial
    assert polynomial is not None
    found = thresholds(runs, polynomial, (1.5, 2.0, 3.0))
    assert found == sorted(found) and len(set(found)) == 3


def row(method: str, psnr: float, *, ssim: float = 0.99, speedup: float = 2.0, computed: int = 10) -> HeldOut:
    threshold = 0.2 * speedup if method == "gate" else None
    error = 10 ** (-psnr / 10) if math.isfinite(psnr) else 0.0
    return HeldOut(method=method, speedup=speedup, threshold=threshold, computed=computed, ssim=ssim, error=error)


def test_held_out_errors_are_averaged_and_judged() -> None:
    """Red when decibels are averaged, or something no better than fewer steps passes for useful."""
    quality = summed_up([row("plan", 50), row("plan", 30), row("gate", 29), row("fewer steps", 30)])
    plan = next(found for found in quality if found.method == "plan")
    assert plan.psnr == pytest.approx(-10 * math.log10((1e-5 + 1e-3) / 2))
    assert [found.method for found in not_worth(quality)] == ["gate"]
    assert summed_up([row("plan", math.inf)])[0].psnr == math.inf


def test_the_threshold_is_the_fastest_that_is_good_enough() -> None:
    """Red when a threshold is written that breaks the floor, or loses to fewer steps."""
    fast, slow = {"speedup": 3.0, "computed": 6}, {"speedup": 2.0, "computed": 10}
    rows = [
        row("gate", 45, **slow),
        row("fewer steps", 30, **slow),
        row("gate", 35, **fast),
        row("fewer steps", 25, **fast),
    ]
    chosen = choose_threshold(summed_up(rows), floor=0.97)
    assert chosen is not None and chosen.threshold == pytest.approx(0.6)
    rows[2] = row("gate", 35, ssim=0.9, **fast)
    chosen = choose_threshold(summed_up(rows), floor=0.97)
    assert chosen is not None and chosen.threshold == pytest.approx(0.4)
    rows[0] = row("gate", 29, **slow)
    assert choose_threshold(summed_up(rows), floor=0.97) is None


def test_prompts_are_different_and_enough(tmp_path: Path) -> None:
    """Red when a prompt is compared that was recorded, or too few are stretched."""
    assert len(set(prompts_for("flux2", 9, None))) == 9
    assert prompts_for(None, 3, None) == list(PROMPTS[:3])
    file = tmp_path / "prompts.txt"
    file.write_text("a fox\n\n a bee \na fox\n", encoding="utf-8")
    assert prompts_for(None, 2, file) == ["a fox", "a bee"]
    with pytest.raises(OptionError, match="3 prompts are needed"):
        prompts_for(None, 3, file)
    with pytest.raises(ToyPromptError):
        prompts_for("flux2", 2, file)


def test_plain_pictures_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when the plain pictures are made anew for each setting, or with the steps of the setting."""
    from teacache.cli import sweep_work

    made: list[int] = []

    class Source:
        model, steps = None, 20

        def make(self, case: Case, steps: int) -> int:
            made.append(steps)
            return steps

    monkeypatch.setattr(sweep_work, "steered", lambda model, run: nullcontext())
    maker = sweep_work._Maker(Source(), lambda: None)
    case = Case("fox", 1)
    assert [maker(case), maker(case)] == [20, 20] and made == [20]
    with maker.trying(nullcontext(object()), 7):
        assert maker(case) == 7
    assert maker(case) == 20 and made == [20, 7]


def test_a_sweep_that_breaks_off_shows_what_it_has(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when Ctrl-C throws away the settings that were tried, or does not say how to go on."""
    from teacache.cli import sweep, sweep_work

    def broken(source: object, wishes: object, prompts: object, seed: int, points: list[sweep_work.Point]) -> None:
        points.append(
            sweep_work.Point(method="plan", value=2.5, computed=8, ssim=0.987, worst_ssim=0.9, psnr=float("inf"))
        )
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep_work, "sweep", broken)
    monkeypatch.setattr(sweep, "open_source", lambda *_, **__: SimpleNamespace(steps=20))
    assert main(["sweep", "--toy", "flux2", "--speedup", "2.5", "--speedup", "3"]) == 130
    shown = capsys.readouterr()
    assert "2.5x" in shown.err and "0.9870" in shown.err and shown.out == ""
    assert "Give the others alone to go on" in shown.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["sweep"], "--toy NAME"),
        (["sweep", "--toy", "flux2"], "--threshold X"),
        (["sweep", "--toy", "flux2", "--model", "dev", "--speedup", "2"], "--toy NAME"),
        (["sweep", "--toy", "flux2", "--quantize", "4", "--speedup", "2"], "--model NAME"),
        (["sweep", "--toy", "flux2", "--speedup", "0.5"], "--speedup"),
        (["sweep", "--toy", "nosuch", "--speedup", "2"], "nosuch"),
        (["sweep", "--toy", "flux2", "--speedup", "2", "--plot", "plot.jpg"], ".png"),
        (["calibrate", "--toy", "flux2"], "--out"),
        (["calibrate", "--out", "numbers"], "--toy NAME"),
        (["calibrate", "--toy", "nosuch", "--out", "numbers"], "nosuch"),
        (["calibrate", "--model", "dev", "--prompts", "40", "--out", "numbers"], "--prompts-file"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Red when a wrong call is noticed after the model is loaded, ends in a traceback, or leaves a folder behind."""
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        "calibrate", "sweep", "bench", "bench frontier", "bench speed", "bench peers", "calibrations",
        "calibrations list", "calibrations show", "calibrations forget", "calibrations export",
    ],
)  # fmt: skip
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Red when a help text is empty, or its example is not on a line that can be copied."""
    assert main([*command.split(), "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"Usage: teacache {command} ") and lines[2].strip()
    group = command in ("bench", "calibrations")
    assert group or any(line.strip().startswith(f"teacache {command}") for line in lines)
