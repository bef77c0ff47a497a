"""The shared suite on every FLUX.1 pipeline of mflux."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from teacache.testing.conformance import AdapterConformance
from teacache_flux1 import ADAPTER

from .pipelines import MAKERS, arguments


class Conformance(AdapterConformance):
    adapter = ADAPTER
    steps = 6
    variation: ClassVar[dict[str, Any]] = {"height": 48, "guidance": 2.0}
    pipeline: ClassVar[str]

    @pytest.fixture(autouse=True)
    def _pictures(self, tmp_path: Path) -> None:
        self.arguments = arguments(self.pipeline, tmp_path)

    def make_model(self) -> Any:
        return MAKERS[self.pipeline]()


class TestFlux1(Conformance):
    pipeline = "Flux1"


class TestFlux1Kontext(Conformance):
    pipeline = "Flux1Kontext"


class TestFlux1Fill(Conformance):
    pipeline = "Flux1Fill"


class TestFlux1Depth(Conformance):
    pipeline = "Flux1Depth"


class TestFlux1Redux(Conformance):
    pipeline = "Flux1Redux"


class TestFlux1Controlnet(Conformance):
    pipeline = "Flux1Controlnet"


class TestFlux1InContextDev(Conformance):
    pipeline = "Flux1InContextDev"


class TestFlux1InContextFill(Conformance):
    pipeline = "Flux1InContextFill"
