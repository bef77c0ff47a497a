"""How far two pictures are apart. Needs the `quality` extra; imports neither mlx nor mflux."""

from __future__ import annotations

from typing import TYPE_CHECKING

from teacache.errors import MissingDependencyError, OptionError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image


def ssim(one: Image, other: Image) -> float:
    """Returns the structural similarity of two pictures: 1.0 for equal ones, towards 0 for unrelated ones.

    Mean over the colour channels, scikit-image's window of 7 pixels (Wang et al. 2004, doi:10.1109/TIP.2003.819861).

    Raises:
        OptionError: the pictures differ in size, or are smaller than the window.
        MissingDependencyError: scikit-image is not installed.
    """
    try:
        from skimage.metrics import structural_similarity
    except ImportError as error:
        raise _missing(error) from error
    first, second = _arrays(one, other)
    return float(structural_similarity(first, second, channel_axis=2, data_range=255))


def psnr(one: Image, other: Image) -> float:
    """Returns the peak signal-to-noise ratio of two pictures in dB; infinite for equal ones.

    Raises:
        OptionError: the pictures differ in size.
        MissingDependencyError: scikit-image is not installed.
    """
    try:
        from skimage.metrics import peak_signal_noise_ratio
    except ImportError as error:
        raise _missing(error) from error
    first, second = _arrays(one, other)
    # Equal pictures are taken out first: scikit-image divides by their error.
    return float("inf") if (first == second).all() else float(peak_signal_noise_ratio(first, second, data_range=255))


def _arrays(one: Image, other: Image) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    import numpy as np

    first, second = np.asarray(one.convert("RGB")), np.asarray(other.convert("RGB"))
    if first.shape != second.shape or min(first.shape[:2]) < 7:
        raise OptionError(
            f"Pictures of {one.width}x{one.height} and {other.width}x{other.height} were given; expected two of one "
            "size, 7x7 or more. Make both with the same width= and height=."
        )
    return first, second


def _missing(error: ImportError) -> MissingDependencyError:
    return MissingDependencyError(
        f"Comparing pictures needs {error.name or 'scikit-image'}, which is not installed. "
        "Run: pip install 'teacache-core[quality]'"
    )
