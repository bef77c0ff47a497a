"""Which circumstances move the bytes on this machine? The same picture in fresh processes that differ in one of them.

Not an oracle: it fails nothing. It shows why none compares bytes across processes. Imports nothing heavy at its top:
the order of imports is one of the circumstances.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from teacache.errors import OptionError, TeaCacheError

BASELINE = "baseline"

VARIABLES: Mapping[str, str] = {
    BASELINE: "one callback that sees the last latents, MLX imported first",
    "the same again": "nothing differs: what moves here moves by itself",
    "callback class": "the callback's class has a method more",
    "callback order": "an idle callback is registered before the one that sees the latents; the next row has it behind",
    "callback order, other": "the idle callback is registered behind",
    "live reference": "a callback keeps the latents of every step alive",
    "import order": "mflux is imported before MLX and teacache",
    "earlier run": "another picture was made before in the process",
    "thread": "everything happens in a second thread",
    "compile off": "mx.compile is switched off",
    "wrapped, threshold 0": "teacache is around the model and set to change nothing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One circumstance and the bytes that it gave.

    Attributes:
        variable: a key of `VARIABLES`.
        digest: SHA-256 of the last latents; empty where the process failed.
        error: the last line of what it said then.
    """

    variable: str
    digest: str
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What is drawn in every process; everything that `teacache.testing.models` needs.

    Attributes:
        family: whose toy; ignored where there is a model.
        steps: number of steps.
        model: real weights by mflux's name.
        quantize: bits of the real weights.
        size: side of the picture with real weights.
    """

    family: str = "flux2"
    steps: int = 6
    model: str | None = None
    quantize: int | None = None
    size: int = 512


def probe(picture: Picture, *, jobs: int = 1, advance: Callable[[str], None] = lambda variable: None) -> list[Row]:
    """Draws the picture once in each circumstance, each in a process of its own.

    Args:
        picture: what is drawn.
        jobs: how many processes at a time. Most of a toy's process is spent on importing mflux (4.5 s of 5 s, CPU).
        advance: told each variable whose process has ended.
    """
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        waiting = {pool.submit(_in_a_process, picture, variable): variable for variable in VARIABLES}
        for done in as_completed(waiting):
            advance(waiting[done])
    return [done.result() for done in waiting]


def moved(rows: list[Row]) -> dict[str, bool]:
    """Tells for each variable whether its bytes differ from the baseline's; failed ones are left out.

    Raises:
        OptionError: the baseline itself failed.
    """
    by_name = {row.variable: row for row in rows}
    if not by_name[BASELINE].digest:
        raise OptionError(f"The picture cannot be made here: {by_name[BASELINE].error}")
    reference = by_name[BASELINE].digest
    return {row.variable: row.digest != reference for row in rows if row.digest and row.variable != BASELINE}


def _in_a_process(picture: Picture, variable: str) -> Row:
    given = json.dumps({"variable": variable, **{name: getattr(picture, name) for name in Picture.__slots__}})
    done = subprocess.run(
        [sys.executable, "-m", "teacache.testing.scenario", given], capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        said = done.stderr.strip().splitlines()
        return Row(variable=variable, digest="", error=said[-1] if said else f"exit code {done.returncode}")
    return Row(variable=variable, digest=lines[-1])


def draw(picture: Picture, variable: str) -> str:
    """Draws the picture in this process under one circumstance and returns the SHA-256 of its last latents."""
    if variable == "import order":
        importlib.import_module("mflux.models.common.config.model_config")
    if variable == "thread":
        answer: list[str] = []
        thread = threading.Thread(target=lambda: answer.append(_draw(picture, variable)))
        thread.start()
        thread.join()
        if not answer:
            raise OptionError("The picture could not be made in a second thread.")
        return answer[0]
    return _draw(picture, variable)


def _draw(picture: Picture, variable: str) -> str:
    import mlx.core as mx
    import numpy as np

    from teacache.testing.models import model_subject, toy_subject

    if variable == "compile off":
        mx.disable_compile()
    if picture.model is None:
        subject = toy_subject(picture.family, steps=picture.steps)
    else:
        arguments = {"prompt": "a red fox in the snow", "height": picture.size, "width": picture.size}
        subject = model_subject(picture.model, quantize=picture.quantize, arguments=arguments, steps=picture.steps)
    model = subject.make_model()
    if subject.draw is None:
        raise OptionError("This subject draws no picture.")
    if variable == "earlier run":
        subject.draw(model, seed=99)
    seen: list[str] = []

    class Sees:
        def call_after_loop(self, seed: int, prompt: str, latents: mx.array, config: Any) -> None:
            seen.append(hashlib.sha256(np.array(latents.astype(mx.float32)).tobytes()).hexdigest())

    class SeesMore(Sees):
        def call_in_loop(self, t: int, seed: int, prompt: str, latents: Any, config: Any, time_steps: Any) -> None:
            return None

    class Keeps:
        def __init__(self) -> None:
            self.kept: list[mx.array] = []

        def call_in_loop(self, t: int, seed: int, prompt: str, latents: Any, config: Any, time_steps: Any) -> None:
            self.kept.append(latents)

    class Idle:
        def call_in_loop(self, t: int, seed: int, prompt: str, latents: Any, config: Any, time_steps: Any) -> None:
            return None

    callbacks: dict[str, list[Any]] = {
        "callback class": [SeesMore()],
        "callback order": [Idle(), Sees()],
        "callback order, other": [Sees(), Idle()],
        "live reference": [Sees(), Keeps()],
    }
    for callback in callbacks.get(variable, [Sees()]):
        model.callbacks.register(callback)
    if variable == "wrapped, threshold 0":
        with subject.wrapped(model, threshold=0.0):
            subject.draw(model)
    else:
        subject.draw(model)
    return seen[-1]


def main(given: str) -> int:
    """Runs as the process of one circumstance: prints the hash alone on the last line."""
    fields = json.loads(given)
    variable = fields.pop("variable")
    try:
        sys.stdout.write(draw(Picture(**fields), variable) + "\n")
    except TeaCacheError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
