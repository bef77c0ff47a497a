"""The ControlNet of a reused step: ignored, and never paid for."""

from __future__ import annotations

import io
import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mflux.models.common.config.model_config import ModelConfig

import teacache
from teacache.testing.conformance import ALTERNATE
from teacache.testing.spies import Latents, expected_warnings, record_latents, same

from .pipelines import arguments, controlnet

STEPS = 6
CONFIGS = {
    "canny": ModelConfig.dev_controlnet_canny,
    "schnell canny": ModelConfig.schnell_controlnet_canny,
    "upscaler": ModelConfig.dev_controlnet_upscaler,
}


class Net:
    """Stands before the ControlNet: keeps the samples of every step, and multiplies those of some."""

    def __init__(self, net: Any, steps: Collection[int] = (), factor: float = 1.0) -> None:
        self.samples: list[list[mx.array]] = []
        self._net = net
        self._steps = steps
        self._factor = factor

    def __call__(self, t: int, **arguments: Any) -> tuple[list[mx.array], list[mx.array]]:
        joint, single = self._net(t=t, **arguments)
        if t in self._steps:
            joint, single = ([sample * self._factor for sample in samples] for samples in (joint, single))
        self.samples.append([*joint, *single])
        return joint, single


def generate(model: Any, folder: Path) -> Latents:
    return record_latents(model, seed=3, num_inference_steps=STEPS, **arguments("Flux1Controlnet", folder))


def waits(array: mx.array) -> bool:
    """Tells whether an array is still to be computed: an evaluated one has no operations behind it."""
    graph = io.StringIO()
    mx.export_to_dot(graph, array)
    return "shape=rectangle" in graph.getvalue()


def test_waits_sees_evaluation() -> None:
    """Red when the instrument of the test below tells nothing."""
    array = mx.ones((2, 2)) @ mx.ones((2, 2))
    assert waits(array)
    mx.eval(array + 1)
    assert not waits(array)


@pytest.mark.parametrize("options", [ALTERNATE, {"plan": [0, 1, 3, 5]}], ids=["gate", "plan"])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_samples_of_a_reused_step_stay_unevaluated(config: Any, options: dict[str, Any], tmp_path: Path) -> None:
    """Red when a reused step still computes the ControlNet, by handing its samples on or by evaluating them."""
    model = controlnet(config())
    model.transformer_controlnet = net = Net(model.transformer_controlnet)
    with expected_warnings(), teacache.wrap(model, **options) as handle:
        generate(model, tmp_path)
        actions = [record.action for record in handle.stats.last.records]
    assert {"compute", "reuse"} <= set(actions)
    assert all(samples for samples in net.samples)
    assert [["reuse" if waits(sample) else "compute" for sample in samples] for samples in net.samples] == [
        [action] * len(samples) for action, samples in zip(actions, net.samples, strict=True)
    ]


def test_samples_of_a_reused_step_are_ignored(tmp_path: Path) -> None:
    """Red when the samples are added on top of a residual that has them already: twice the control."""
    model = controlnet(ModelConfig.dev_controlnet_canny())
    net = model.transformer_controlnet
    with expected_warnings(), teacache.wrap(model, **ALTERNATE) as handle:
        clean = generate(model, tmp_path)
        reused = [record.step for record in handle.stats.last.records if record.action == "reuse"]
        model.transformer_controlnet = Net(net, reused, math.nan)
        changed = generate(model, tmp_path)
    assert reused and same(clean, changed)


def test_samples_of_a_computed_step_count(tmp_path: Path) -> None:
    """Red when the traced path loses the samples on a computed step: the picture would not follow its edges."""
    model = controlnet(ModelConfig.dev_controlnet_canny())
    net = model.transformer_controlnet
    with expected_warnings(), teacache.wrap(model, mode="shadow", **ALTERNATE):
        followed = generate(model, tmp_path)
        model.transformer_controlnet = Net(net, range(STEPS), 2.0)
        changed = generate(model, tmp_path)
    assert not same(followed, changed)
