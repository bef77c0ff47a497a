"""The reliability suite on a model without mflux, one and two branches a step."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import teacache
from teacache.testing.denoiser import ADAPTER, Denoiser, denoise
from teacache.testing.reliability import AdapterReliability
from teacache.testing.spies import Latents

pytestmark = pytest.mark.unit


class TestDenoiser(AdapterReliability):
    adapter = ADAPTER
    installed = False
    arguments: ClassVar[dict[str, Any]] = {"guidance": 3.0}
    others: ClassVar[dict[str, dict[str, Any]]] = {"guidance": {"guidance": 1.0}}

    def make_model(self) -> Denoiser:
        return Denoiser()

    def generate(self, model: Any, handle: teacache.Handle | None = None, **overrides: Any) -> Latents:
        given = {"seed": 3, "num_inference_steps": self.steps, **self.arguments, **overrides}
        return denoise(
            model, handle, seed=given["seed"], steps=given["num_inference_steps"], guidance=given["guidance"]
        )
