"""The suite that every adapter passes."""

import numpy as np
from teacache_mine import ADAPTER
from teacache_mine.model import Painter, paint

from teacache.testing.conformance import AdapterConformance


class TestMine(AdapterConformance):
    """The whole suite on this model."""

    adapter = ADAPTER

    def make_model(self):
        """The same weights every time."""
        return Painter()

    def generate(self, model, handle=None, **given):
        """The latents after each step, as numpy arrays."""
        latents = paint(model, handle, seed=given.get("seed", 3), steps=given.get("num_inference_steps", self.steps))
        return [np.array(x) for x in latents]
