"""Trains a toy by flow matching on drawn scenes, on any machine. Imports mlx; mflux only through the families.

Run: python -m teacache.testing.toys.training FAMILY --steps N --out FILE [--start FILE] [--resume]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.optimizers as optimizers
import numpy as np
from mlx import nn
from mlx.utils import tree_unflatten

from teacache.errors import OptionError
from teacache.testing.toys import codec, scenes
from teacache.testing.toys.toy import Toy, find_toy, flat, load_weights


@dataclass(frozen=True)
class Recipe:
    """How a toy is trained.

    Attributes:
        steps: optimiser steps in all.
        batch: scenes per step.
        rate: highest learning rate of AdamW, which trains all but the matrices of the blocks. Both rates rise over
            `warmup` steps and then fall as a cosine.
        matrix_rate: highest learning rate of Muon, which trains the matrices of the blocks. On the Qwen toy, batch
            16, 100 steps of it reached a loss of 0.67, and 125 of AdamW alone 0.78, in the same CPU time.
        average: decay of the averaged weights, which are the ones that are saved.
        unconditional: share of scenes whose words are dropped, so that guidance has something to guide from.
        off_frame: weight of the error outside the frame. The frame's numbers weigh 1: a plain mean over the
            latent width starves the few that carry the picture.
        wander: how far shapes stray from their places, in units of the 256-unit canvas. 0: a prompt has one picture,
            and nothing is left for the seed to decide.
        seed: of the scenes, the noise and the first weights.
        save_every: steps between two checkpoints.
    """

    steps: int = 3000
    batch: int = 32
    rate: float = 1.5e-3
    matrix_rate: float = 0.02
    warmup: int = 50
    average: float = 0.995
    unconditional: float = 0.1
    off_frame: float = 0.1
    wander: float = 0.0
    seed: int = 0
    save_every: int = 300


@dataclass(frozen=True)
class Report:
    """What a training run comes to: the mean loss of its last 100 steps and the mean seconds per step."""

    steps: int
    loss: float
    seconds_per_step: float
    interrupted: bool


def train(
    toy: Toy,
    recipe: Recipe,
    out: Path,
    *,
    start: Path | None = None,
    resume: bool = False,
    say: Callable[[str], None] | None = None,
) -> Report:
    """Train a toy and write its averaged weights to `out`, in float16; Ctrl-C saves and returns.

    Beside `out`, with the suffix `.resume.safetensors`, a checkpoint is kept until the last step; `resume` goes on
    from it.

    Args:
        toy: what is trained.
        recipe: how.
        out: where the weights go.
        start: weights to begin with; random ones without.
        resume: go on from the checkpoint.
        say: takes each line of progress; standard output without.

    Raises:
        OptionError: `resume` without a checkpoint.
    """
    say = say or _say
    mx.random.seed(recipe.seed)
    model = toy.transformer()
    if start is not None:
        load_weights(model, start)
    model.update(tree_unflatten([(k, v.astype(mx.float32)) for k, v in flat(model.parameters()).items()]))
    optimizer = _optimizer(recipe)
    optimizer.init(model.trainable_parameters())
    averaged = flat(model.trainable_parameters())
    done = 0
    checkpoint = out.with_suffix(".resume.safetensors")
    if resume:
        done, averaged = _restore(checkpoint, model, optimizer, averaged)
    step = _step(toy, recipe, model, optimizer)
    batches = _batches(toy, recipe, np.random.default_rng((recipe.seed, done)))
    losses: list[float] = []
    begun, first, interrupted = time.monotonic(), done, False
    try:
        while done < recipe.steps:
            loss = step(*next(batches))
            # The average is kept on the side of the parameters that the step has just written.
            current = flat(model.trainable_parameters())
            averaged = {k: recipe.average * averaged[k] + (1 - recipe.average) * v for k, v in current.items()}
            mx.eval(loss, averaged, model.parameters(), optimizer.state)
            losses.append(float(loss))
            done += 1
            if done % 50 == 0 or done == recipe.steps:
                say(_progress(done, recipe.steps, losses, (time.monotonic() - begun) / (done - first)))
            if done % recipe.save_every == 0 and done < recipe.steps:
                _save(toy, recipe, out, averaged, done, losses)
                _keep(checkpoint, model, optimizer, averaged, done)
    except KeyboardInterrupt:
        interrupted = True
        say(f"Interrupted at step {done}. Go on with --resume.")
        _keep(checkpoint, model, optimizer, averaged, done)
    if done > first:
        _save(toy, recipe, out, averaged, done, losses)
    if not interrupted:
        checkpoint.unlink(missing_ok=True)
    seconds = (time.monotonic() - begun) / max(1, done - first)
    return Report(done, float(np.mean(losses[-100:])) if losses else float("nan"), seconds, interrupted)


def _optimizer(recipe: Recipe) -> optimizers.Optimizer:
    def schedule(rate: float) -> Callable[[mx.array], mx.array]:
        rise = optimizers.linear_schedule(0.0, rate, recipe.warmup)
        fall = optimizers.cosine_decay(rate, max(1, recipe.steps - recipe.warmup), rate * 0.01)
        return optimizers.join_schedules([rise, fall], [recipe.warmup])

    muon = optimizers.Muon(schedule(recipe.matrix_rate), weight_decay=0.0, ns_steps=4)
    adamw = optimizers.AdamW(schedule(recipe.rate), weight_decay=0.0)
    return optimizers.MultiOptimizer([muon, adamw], [_is_matrix_of_a_block])


def _is_matrix_of_a_block(name: str, value: mx.array) -> bool:
    return value.ndim == 2 and any(part.isdigit() for part in name.split("."))


def _batches(toy: Toy, recipe: Recipe, rng: np.random.Generator) -> Iterator[tuple[mx.array, ...]]:
    """Noisy tokens, words, sigmas and the velocity wanted, without end."""
    nothing = scenes.embed(scenes.word_numbers(None))
    while True:
        drawn = [scenes.random_scene(rng) for _ in range(recipe.batch)]
        if recipe.wander:
            pictures = [scenes.draw(scene, rng=rng, wander=recipe.wander) for scene in drawn]
        else:
            pictures = [_drawn(scene) for scene in drawn]
        clean = codec.encode(np.stack(pictures), toy.width)
        words = scenes.embed(np.array([scenes.word_numbers(scene) for scene in drawn]))
        words[rng.random(recipe.batch) < recipe.unconditional] = nothing
        # Half of the times uniform, half as their square: logit-normal times starve the last, low-noise steps.
        sigmas = rng.random(recipe.batch)
        sigmas = np.where(rng.random(recipe.batch) < 0.5, sigmas, sigmas**2) * 0.98 + 0.02
        noise = rng.standard_normal(clean.shape, np.float32)
        noisy = clean + sigmas[:, None, None] * (noise - clean)
        yield tuple(mx.array(a.astype(np.float32)) for a in (noisy, words, sigmas, noise - clean))


@lru_cache(maxsize=20_000)
def _drawn(scene: scenes.Scene) -> np.ndarray:
    return scenes.draw(scene)


def _step(toy: Toy, recipe: Recipe, model: nn.Module, optimizer: optimizers.Optimizer) -> Callable[..., mx.array]:
    frame = mx.array(codec.frame(toy.width).T)

    def loss(noisy: mx.array, words: mx.array, sigmas: mx.array, wanted: mx.array) -> mx.array:
        error = toy.velocity(model, noisy, words, sigmas) - wanted
        return mx.mean(mx.square(error @ frame)) + recipe.off_frame * mx.mean(mx.square(error))

    value_and_grad = nn.value_and_grad(model, loss)

    def step(*batch: mx.array) -> mx.array:
        value, gradients = value_and_grad(*batch)
        gradients, _ = optimizers.clip_grad_norm(gradients, 1.0)
        optimizer.update(model, gradients)
        return value

    return step


def _progress(done: int, steps: int, losses: list[float], seconds: float) -> str:
    left = int(seconds * (steps - done))
    loss = np.mean(losses[-100:])
    return f"step {done}/{steps}  loss {loss:.4f}  {seconds:.2f} s/step  {left // 60} min {left % 60:02d} s left"


def _save(toy: Toy, recipe: Recipe, out: Path, averaged: dict[str, mx.array], done: int, losses: list[float]) -> None:
    metadata = {
        "toy": toy.family,
        "transformer": toy.description,
        "steps": str(done),
        "recipe": json.dumps(recipe.__dict__),
        "loss": f"{np.mean(losses[-100:]):.4f}",
        "licence": "Apache-2.0",
    }
    _write(out, {name: value.astype(mx.float16) for name, value in averaged.items()}, metadata)


def _keep(
    path: Path, model: nn.Module, optimizer: optimizers.Optimizer, averaged: dict[str, mx.array], done: int
) -> None:
    arrays = {f"model/{k}": v for k, v in flat(model.trainable_parameters()).items()}
    arrays |= {f"optimizer/{k}": v for k, v in flat(optimizer.state).items()}
    arrays |= {f"averaged/{k}": v for k, v in averaged.items()}
    _write(path, arrays, {"done": str(done)})


def _restore(
    path: Path, model: nn.Module, optimizer: optimizers.Optimizer, averaged: dict[str, mx.array]
) -> tuple[int, dict[str, mx.array]]:
    if not path.exists():
        raise OptionError(f"There is no checkpoint {path} to resume from. Start without --resume.")
    loaded: Any = mx.load(str(path), return_metadata=True)
    arrays, metadata = loaded

    def part(name: str) -> list[tuple[str, mx.array]]:
        return [(k.removeprefix(f"{name}/"), v) for k, v in arrays.items() if k.startswith(f"{name}/")]

    model.load_weights(part("model"), strict=False)
    state: Any = tree_unflatten(part("optimizer"))
    optimizer.state = state
    return int(metadata["done"]), {**averaged, **dict(part("averaged"))}


def _write(path: Path, arrays: dict[str, mx.array], metadata: dict[str, str]) -> None:
    """Write beside and rename, so that an interruption never leaves half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.stem}.part.safetensors")
    mx.save_safetensors(str(beside), arrays, metadata)
    beside.replace(path)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: list[str] | None = None) -> int:
    """The command line of this module; returns the exit code."""
    default = Recipe()
    parser = argparse.ArgumentParser(prog="python -m teacache.testing.toys.training", description="Train a toy.")
    parser.add_argument("family")
    parser.add_argument("--steps", type=int, default=default.steps)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--start", type=Path, help="weights to begin with")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint beside --out")
    parser.add_argument("--rate", type=float, default=default.rate, help="highest learning rate of AdamW")
    parser.add_argument("--matrix-rate", type=float, default=default.matrix_rate, help="the same of Muon")
    parser.add_argument("--batch", type=int, default=default.batch)
    parser.add_argument("--seed", type=int, default=default.seed)
    given = parser.parse_args(arguments)
    recipe = Recipe(
        steps=given.steps, batch=given.batch, rate=given.rate, matrix_rate=given.matrix_rate, seed=given.seed
    )
    report = train(
        find_toy(given.family), recipe, given.out, start=given.start, resume=given.resume,
        say=_say,
    )  # fmt: skip
    _say(f"{report.steps} steps, loss {report.loss:.4f}, {report.seconds_per_step:.2f} s/step: {given.out}")
    return 130 if report.interrupted else 0


if __name__ == "__main__":
    sys.exit(main())
