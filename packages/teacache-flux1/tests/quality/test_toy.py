"""The trained toy of the family: its pictures, and its calibrated gate."""

from __future__ import annotations

import pytest

from teacache.testing.toys.suite import ToySuite

pytestmark = pytest.mark.quality


class TestToy(ToySuite):
    """Bands around what the calibration's sweep measured."""

    family = "flux1"
    reused = (18, 25)
    ssim = 0.97
