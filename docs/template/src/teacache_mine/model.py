"""The model itself, and its loop. In a package of your own it is somebody else's, and you only import it in tests."""

from contextlib import nullcontext

import mlx.core as mx
from mlx import nn

WIDTH = 16


class Layer(nn.Module):
    """A residual block, called by position."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mix = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def __call__(self, tokens: mx.array, time: mx.array) -> mx.array:
        """Tokens (1, T, width) to tokens."""
        return tokens + nn.silu(self.mix(self.norm(tokens) * (1 + time)))


class Painter(nn.Module):
    """Prelude, layers, tail."""

    def __init__(self) -> None:
        super().__init__()
        mx.random.seed(0)
        self.into, self.out = nn.Linear(4, WIDTH), nn.Linear(WIDTH, 4)
        self.layers = [Layer() for _ in range(4)]

    def __call__(self, x: mx.array, sigma: float) -> mx.array:
        """Latents (1, T, 4) at a noise level to their velocity."""
        tokens, time = self.into(x), mx.array([sigma] * WIDTH)
        for layer in self.layers:
            tokens = layer(tokens, time)
        return self.out(tokens)


def paint(model, handle=None, *, seed: int = 3, steps: int = 8) -> list[mx.array]:
    """Returns the latents after each step; `handle` is what `teacache.wrap` returned, where the model is wrapped."""
    x, latents = mx.random.normal((1, 9, 4), key=mx.random.key(seed)), []
    sigmas = [1 - k / steps for k in range(steps + 1)]
    with nullcontext() if handle is None else handle.run(sigmas) as run:
        for k in range(steps) if run is None else run:
            velocity = model(x, sigmas[k])
            x = x + (sigmas[k + 1] - sigmas[k]) * (velocity if run is None else run.velocity(velocity))
            mx.eval(x)
            latents.append(x)
    return latents
