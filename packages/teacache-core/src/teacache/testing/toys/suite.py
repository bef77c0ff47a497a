"""What every trained toy is held to: right colours in the right places, and a cache that engages. Needs pytest."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image

import teacache
from teacache.report.quality import ssim
from teacache.testing.spies import expected_warnings
from teacache.testing.toys.scenes import COLOURS
from teacache.testing.toys.toy import toy_pipeline

SIZE = 128


class ToySuite:
    """Subclass it as ``class TestToy`` with the family's name and its bands.

    Attributes:
        family: as `toy_pipeline` takes it.
        reused: (least, most) steps of 30 that the calibrated gate reuses.
        ssim: lowest SSIM of a wrapped picture to the plain one.
    """

    family: ClassVar[str]
    reused: ClassVar[tuple[int, int]]
    ssim: ClassVar[float]

    @pytest.fixture
    def model(self) -> Any:
        """The trained toy, loaded once."""
        return _trained(self.family)

    def draw(self, model: Any, prompt: str, **more: Any) -> Image.Image:
        """One picture of the toy."""
        settings = {"seed": 3, "num_inference_steps": 30, "guidance": 2.0, "height": SIZE, "width": SIZE}
        picture: Image.Image = model.generate_image(prompt=prompt, **{**settings, **more}).image
        return picture

    @pytest.mark.parametrize(("colour", "ground"), [("blue", "orange"), ("red", "white")])
    def test_colours_stand_where_the_words_say(self, model: Any, colour: str, ground: str) -> None:
        """Red when the weights do not belong to the words, the codec or the transformer any more."""
        pixels = np.asarray(self.draw(model, f"{colour} square center, {ground} background"), dtype=float)
        middle = pixels[56:72, 56:72].mean(axis=(0, 1))
        corners = np.stack([pixels[:12, :12], pixels[-12:, -12:]]).mean(axis=(0, 1, 2))
        assert _nearest(middle) == colour
        assert _nearest(corners) == ground

    def test_the_gate_reuses_and_the_picture_stays(self, model: Any) -> None:
        """Red when a cache that does nothing passes, or when one that does too much ruins the picture."""
        prompt = "red circle left, blue square right, white background"
        plain = self.draw(model, prompt)
        with teacache.wrap(model) as handle:
            wrapped = self.draw(model, prompt)
        assert handle.stats.last is not None
        assert self.reused[0] <= handle.stats.last.reused <= self.reused[1]
        assert ssim(plain, wrapped) >= self.ssim

    def test_image_to_image_starts_late(self, model: Any, tmp_path: Path) -> None:
        """Red when the toy cannot be given a picture, or when a late start counts the steps that never ran."""
        source = tmp_path / "source.png"
        self.draw(model, "blue square center, orange background").save(source)
        late = {"image_path": source, "image_strength": 0.4}
        plain = self.draw(model, "blue circle center, orange background", **late)
        with expected_warnings(), teacache.wrap(model, plan=range(18)) as handle:
            wrapped = self.draw(model, "blue circle center, orange background", **late)
        assert handle.stats.last is not None and len(handle.stats.last.records) == 18
        assert handle.stats.last.records[0].step == 12
        assert np.array_equal(np.asarray(plain), np.asarray(wrapped))


@functools.cache
def _trained(family: str) -> Any:
    return toy_pipeline(family)


def _nearest(colour: np.ndarray[Any, Any]) -> str:
    """The name of the palette's colour that lies nearest (0 to 255, RGB)."""
    palette = {name: np.asarray(value, dtype=float) for name, value in COLOURS.items()}
    return min(palette, key=lambda name: float(((palette[name] - colour) ** 2).sum()))
