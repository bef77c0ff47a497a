"""What the shipped suites have in common: a model, a run of it, a wrapped run. Needs pytest; never imports mflux."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import teacache
from teacache.adapter import Adapter, Pipeline
from teacache.stats import RunStats
from teacache.testing.spies import Latents, expected_warnings, record_latents
from teacache.wrapping import Handle

ALTERNATE: dict[str, Any] = {"coefficients": [0.0, 0.0, 0.0, 0.0, 1.0], "threshold": 1.5}
"""Gate options that reuse every other step whatever the signal: each step predicts a change of 1."""


class AdapterSuite:
    """The base of `AdapterConformance` and `AdapterReliability`.

    Attributes:
        adapter: the adapter under test.
        installed: the adapter's package is installed, so that `wrap` finds it by itself.
        steps: steps of a run; at least 6.
        arguments: keyword arguments of `generate_image`, beside seed and number of steps.
        variation: arguments of a second run that differs as far as the pipeline allows.
    """

    adapter: ClassVar[Adapter]
    installed: ClassVar[bool] = True
    steps: ClassVar[int] = 8
    arguments: ClassVar[dict[str, Any]] = {}
    variation: ClassVar[dict[str, Any]] = {}

    def make_model(self) -> Any:
        """Builds a small model, with the same weights every time."""
        raise NotImplementedError

    def generate(self, model: Any, handle: Handle | None = None, **overrides: Any) -> Latents:
        """Makes one picture and returns the latents after each step, as float32.

        The default drives mflux's `generate_image`. A model with a loop of your own overrides it; there `handle` is
        the handle where the model is wrapped, to open the run with (`handle.run(sigmas)`).
        """
        return record_latents(model, **{"seed": 3, "num_inference_steps": self.steps, **self.arguments, **overrides})

    # What the tests share.

    @pytest.fixture(autouse=True)
    def recordings_of_this_test_only(self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Keeps recordings out of the user's data folder."""
        monkeypatch.setenv("TEACACHE_DATA", str(tmp_path / "data"))

    @pytest.fixture
    def model(self) -> Any:
        """A fresh model."""
        return self.make_model()

    def pipeline_of(self, model: Any) -> Pipeline:
        """Returns the adapter's description of the model's class."""
        pipeline = self.adapter.pipeline_for(type(model))
        assert pipeline is not None, f"{self.adapter.name} does not list {type(model).__name__}"
        return pipeline

    def wrap(self, model: Any, **options: Any) -> Handle:
        """Wraps as a user does; an adapter that is not installed is handed in."""
        if not self.installed:
            options["adapter"] = self.adapter
        return teacache.wrap(model, **options)

    def wrapped(
        self, model: Any, *, overrides: dict[str, Any] | None = None, **options: Any
    ) -> tuple[Latents, RunStats]:
        """Makes one picture with a wrapped model and restores it."""
        with expected_warnings(), self.wrap(model, **options) as handle:
            latents = self.generate(model, handle, **(overrides or {}))
            stats = handle.stats.last
        assert stats is not None, "the run was not counted"
        return latents, stats

    def eager(self, model: Any) -> dict[str, Any]:
        """The option that makes this model run eagerly: pipelines with a predict function can be told to."""
        return {"compile": False} if self.pipeline_of(model).factories else {}
