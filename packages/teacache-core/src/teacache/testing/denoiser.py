"""The smallest model with a step cache: one list of blocks, positional arguments, a loop of its own, no mflux.

The worked example of the documentation, and what core's own tests run on.
"""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
import numpy as np
from mlx import nn

from teacache.adapter import Adapter, Body, Pipeline, Signal
from teacache.testing.spies import Latents
from teacache.wrapping import Handle

WIDTH = 16


class Block(nn.Module):
    """A residual block that is called with positional arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.linear = nn.Linear(WIDTH, WIDTH)

    def __call__(self, tokens: mx.array, time: mx.array) -> mx.array:
        """Tokens (1, T, width) to tokens, modulated by the time (width,)."""
        return tokens + nn.silu(self.linear(self.norm(tokens) * (1 + time)))


class Denoiser(nn.Module):
    """Prelude, three blocks, tail."""

    def __init__(self) -> None:
        super().__init__()
        mx.random.seed(4)
        self.embed = nn.Linear(4, WIDTH)
        self.blocks = [Block() for _ in range(3)]
        self.head = nn.Linear(WIDTH, 4)
        mx.eval(self.parameters())

    def __call__(self, x: mx.array, sigma: float, shift: float = 0.0) -> mx.array:
        """Latents (1, T, 4) at a noise level to their velocity; `shift` stands for another prompt."""
        tokens, time = self.embed(x) + shift, mx.array([sigma, 1 - sigma] * (WIDTH // 2))
        for block in self.blocks:
            tokens = block(tokens, time)
        return self.head(tokens)


ADAPTER = Adapter(
    name="denoiser",
    contract=1,
    host="loop",
    transformer=f"{__name__}:Denoiser",
    pipelines=(Pipeline(cls=f"{__name__}:Denoiser", transformer=None),),
    body=Body(blocks=("blocks",), image=0, tail="head"),
    signal=Signal(read=lambda call: call.block.norm(call[0]) * (1 + call[1]), tensor="modulated input"),
)


def denoise(model: Denoiser, handle: Handle | None, *, seed: int, steps: int, guidance: float) -> Latents:
    """An Euler loop of the user's own, with two branches where guidance is on."""
    x = mx.random.normal((1, 9, 4), key=mx.random.key(seed))
    sigmas = np.linspace(1, 0, steps + 1).tolist()
    latents: Latents = []

    def step(x: mx.array, k: int, carry: Callable[[mx.array], mx.array]) -> mx.array:
        velocity = model(x, sigmas[k])
        if guidance > 1:
            negative = model(x, sigmas[k], shift=0.5)
            velocity = negative + guidance * (velocity - negative)
        x = x + (sigmas[k + 1] - sigmas[k]) * carry(velocity)
        mx.eval(x)
        latents.append(np.array(x))
        return x

    if handle is None:
        for k in range(steps):
            x = step(x, k, lambda velocity: velocity)
        return latents
    with handle.run(sigmas, guidance=guidance) as run:
        for k in run:
            x = step(x, k, run.velocity)
    return latents


def call_each_step(model: Denoiser, handle: Handle, sigmas: list[float], batch: int = 1) -> None:
    """A loop that calls the model and does nothing with its answer."""
    with handle.run(sigmas) as run:
        for _ in run:
            model(mx.ones((batch, 9, 4)), 0.9)
