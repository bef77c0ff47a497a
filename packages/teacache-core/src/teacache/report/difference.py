"""Shows how far two pictures are apart, pixel by pixel. Needs pillow. Imports neither mlx nor mflux."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

AMPLIFICATIONS = (1, 2, 4, 8, 16, 32)


def amplification(pairs: Iterable[tuple[Image, Image]]) -> int:
    """Returns the largest factor of `AMPLIFICATIONS` under which no difference of these pairs is cut off."""
    from PIL import ImageChops

    largest = 0
    for one, other in pairs:
        bands = ImageChops.difference(one.convert("RGB"), other.convert("RGB")).getextrema()
        largest = max(largest, *(int(high) for _, high in bands))  # type: ignore[misc]
    fitting = [factor for factor in AMPLIFICATIONS if factor * largest <= 255]
    return fitting[-1] if largest and fitting else 1


def difference(one: Image, other: Image, factor: int) -> Image:
    """Returns how far each pixel is off in its worst colour channel: white for equal, `factor` times darkened."""
    from PIL import ImageChops

    red, green, blue = ImageChops.difference(one.convert("RGB"), other.convert("RGB")).split()
    worst = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    return worst.point([max(0, 255 - factor * value) for value in range(256)])
