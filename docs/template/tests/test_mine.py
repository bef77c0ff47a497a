"""The suite that every adapter passes, and the planted bugs, each of which an oracle must see."""

import numpy as np
import pytest
from teacache_mine import ADAPTER
from teacache_mine.model import Painter, paint

from teacache.testing.conformance import AdapterConformance
from teacache.testing.hunting import Hunt
from teacache.testing.planted import BUGS


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


LACKS = {"branches", "other tokens", "controlnet", "compile", "tail conditioning", "callbacks"}


@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.needs not in LACKS], ids=lambda bug: bug.name)
def test_a_planted_bug_is_seen(bug):
    """Every bug that this model can have; `LACKS` says what it has not."""
    hunt = Hunt(family="mine", subject=TestMine().subject_of(Painter()))
    assert hunt.caught(bug), hunt.said[bug.name]
