"""Between pictures and latent tokens: a fixed orthonormal frame, and the enlarging that makes a picture to look at.

Imports numpy only. Every array function here works on numpy and on mlx arrays alike, unless it says otherwise.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

PATCH = 2  # pixels per token and axis
NUMBERS = 3 * PATCH * PATCH  # picture numbers per token
PIXELS_PER_TOKEN = 16  # of the picture that the pipeline shows
LATENT_SCALE = 1.5  # brings the picture's numbers near the unit variance of the noise
_FRAME_SEED = 3  # belongs to the trained weights


@cache
def frame(width: int) -> np.ndarray:
    """`NUMBERS` orthonormal rows of the given width: how a token carries its part of the picture."""
    square, _ = np.linalg.qr(np.random.default_rng(_FRAME_SEED).standard_normal((width, width)))
    return np.ascontiguousarray(square[:NUMBERS]).astype(np.float32)


def patches(pictures: Any) -> Any:
    """Pictures (B, 2h, 2w, 3) as the numbers of their tokens (B, h*w, NUMBERS)."""
    batch, height, width, _ = pictures.shape
    cut = pictures.reshape(batch, height // PATCH, PATCH, width // PATCH, PATCH, 3)
    return cut.transpose(0, 1, 3, 2, 4, 5).reshape(batch, height * width // PATCH**2, NUMBERS)


def unpatch(numbers: Any, height: int, width: int) -> Any:
    """The inverse of `patches` for a grid of height x width tokens."""
    cut = numbers.reshape(numbers.shape[0], height, width, PATCH, PATCH, 3)
    return cut.transpose(0, 1, 3, 2, 4, 5).reshape(numbers.shape[0], height * PATCH, width * PATCH, 3)


def encode(pictures: np.ndarray, width: int) -> np.ndarray:
    """Small pictures (B, 2h, 2w, 3) in [-1, 1] as tokens (B, h*w, width)."""
    return patches(pictures) @ (frame(width) * np.float32(LATENT_SCALE))


def decode(tokens: np.ndarray, height: int, width: int) -> np.ndarray:
    """Tokens (B, height*width, C) as small pictures (B, 2*height, 2*width, 3)."""
    return unpatch(tokens @ (frame(tokens.shape[-1]).T / np.float32(LATENT_SCALE)), height, width)


def to_grid(tokens: Any, height: int, width: int) -> Any:
    """Tokens (B, h*w, 4C) as a latent picture (B, C, 2h, 2w): each channel's 2x2 numbers side by side."""
    cut = tokens.reshape(tokens.shape[0], height, width, tokens.shape[-1] // 4, 2, 2)
    return cut.transpose(0, 3, 1, 4, 2, 5).reshape(tokens.shape[0], -1, 2 * height, 2 * width)


def from_grid(latents: Any) -> Any:
    """The inverse of `to_grid`."""
    batch, channels, height, width = latents.shape
    cut = latents.reshape(batch, channels, height // 2, 2, width // 2, 2)
    return cut.transpose(0, 2, 4, 1, 3, 5).reshape(batch, height * width // 4, 4 * channels)


@cache
def enlarging(count: int, factor: int, *, smooth: bool = True) -> np.ndarray:
    """Matrix (count*factor, count) of cubic interpolation (Keys 1981, a = -0.5), or of linear; edges are repeated."""
    kernel = _keys if smooth else _tent
    matrix = np.zeros((count * factor, count), np.float64)
    for row in range(count * factor):
        position = (row + 0.5) / factor - 0.5
        first = int(np.floor(position)) - 1
        for index in range(first, first + 4):
            matrix[row, min(max(index, 0), count - 1)] += kernel(abs(position - index))
    return matrix.astype(np.float32)


def _keys(distance: float) -> float:
    if distance <= 1:
        return 1.5 * distance**3 - 2.5 * distance**2 + 1
    return -0.5 * distance**3 + 2.5 * distance**2 - 4 * distance + 2


def _tent(distance: float) -> float:
    return max(0.0, 1 - distance)
