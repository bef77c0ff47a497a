"""A comparison made by hand: two prompts, three settings, of which the last reused nothing."""

from __future__ import annotations

from PIL import Image, ImageDraw

from teacache.report.compare import Case, Comparison, Likeness, Picture, Trial
from teacache.stats import RunStats, StepRecord

EVIL = "</script><script>document.title = 'run'</script> \"quoted\" & 'so' $style <b>"
"""What a user may write into a prompt."""

STEPS = 30


def run_of(timeline: str, why: str | None = None) -> RunStats:
    records = tuple(
        StepRecord(
            step=k,
            sigma=1 - k / len(timeline),
            action="reuse" if cell == "." else "compute",
            planned="compute",
            reason="plan",
        )
        for k, cell in enumerate(timeline)
    )
    return RunStats(records=records, seconds=timeline.count("#") / 10, policy="by hand", why_nothing=why)


def drawn(shift: int = 0, side: int = 96) -> Image.Image:
    """A red square on grey, `shift` pixels from its place."""
    image = Image.new("RGB", (side, side), (200, 200, 205))
    ImageDraw.Draw(image).rectangle((20 + shift, 20, 60 + shift, 60), (200, 30, 40))
    return image


def picture(label: str, timeline: str, shift: int, plain: Picture | None, why: str | None = None) -> Picture:
    image = drawn(shift)
    likeness = None if plain is None else Likeness.of(plain.image, image)
    run = run_of(timeline, why)
    return Picture(label=label, image=image, run=run, seconds=2.0, loop_seconds=run.seconds, likeness=likeness)


def case(prompt: str, seed: int) -> Case:
    plain = picture("plain", "#" * STEPS, 0, None)
    trials = [
        Trial(
            setting=setting,
            cached=picture(setting, timeline, shift, plain),
            fewer=picture(f"{timeline.count('#')} steps instead", "#" * timeline.count("#"), 9, plain),
        )
        for setting, timeline, shift in (("speedup=2", "#." * 15, 1), ("threshold=0.2", "#..##" * 6, 3))
    ]
    idle = picture("threshold=<0.01", "#" * STEPS, 0, plain, why="the smallest change is 0.1 & more.")
    trials.append(Trial(setting="threshold=<0.01", cached=idle, fewer=None))
    return Case(prompt=prompt, seed=seed, plain=plain, trials=tuple(trials))


def comparison(*prompts: str) -> Comparison:
    return Comparison(
        name="a <toy>",
        steps=STEPS,
        cases=tuple(case(prompt, seed) for seed, prompt in enumerate(prompts or ("red square", EVIL))),
        made_with=(("model", "a <toy>"), ("speedup=2", "plan & <carry>")),
        command="teacache compare --prompt 'a & <b>'",
    )
