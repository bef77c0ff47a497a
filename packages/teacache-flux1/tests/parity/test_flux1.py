"""What is special to FLUX.1's checkpoints and pipelines beside their tokens."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mflux.callbacks.instances.memory_saver import MemorySaver
from mflux.models.common.config.model_config import ModelConfig
from mflux.models.flux.variants.concept_attention.flux_concept import Flux1Concept
from mflux.models.flux.variants.concept_attention.flux_concept_from_image import Flux1ConceptFromImage
from mflux.models.flux.variants.concept_attention.transformer_concept import TransformerConcept
from mflux.models.flux.variants.fill.flux_fill import Flux1Fill
from mflux.models.flux.variants.txt2img.flux import Flux1
from mlx import nn
from mlx.utils import tree_map

import teacache
from teacache.errors import DistilledWarning, UnsupportedPipelineError
from teacache.stats import RunStats
from teacache.testing.conformance import ALTERNATE
from teacache.testing.spies import Latents, expected_warnings, record_latents, same, snapshot
from teacache_flux1 import ADAPTER

from .pipelines import MAKERS, arguments, controlnet, pipeline

STEPS = 6


def generate(model: Any, name: str, folder: Path, **overrides: Any) -> Latents:
    given = {"seed": 3, "num_inference_steps": STEPS, **arguments(name, folder), **overrides}
    return record_latents(model, **given)


def wrapped(model: Any, name: str, folder: Path, overrides: dict[str, Any], **options: Any) -> tuple[Latents, RunStats]:
    with expected_warnings(), teacache.wrap(model, **ALTERNATE, **options) as handle:
        latents = generate(model, name, folder, **overrides)
        stats = handle.stats.last
    assert stats is not None
    return latents, stats


@pytest.mark.parametrize("cls", [Flux1Concept, Flux1ConceptFromImage])
def test_concept_pipelines_are_refused_by_name(cls: type) -> None:
    """Red when a pipeline with another transformer is wrapped, refused without saying why, or changed on the way."""
    config = ModelConfig.schnell()
    transformer = TransformerConcept(config, num_transformer_blocks=1, num_single_transformer_blocks=1)
    model = pipeline(cls, config, transformer=transformer)
    before = snapshot(model, ADAPTER, ADAPTER.pipelines[0])
    with pytest.raises(UnsupportedPipelineError, match=rf"^{cls.__name__} .*TransformerConcept.*heatmap"):
        teacache.wrap(model, **ALTERNATE)
    assert snapshot(model, ADAPTER, ADAPTER.pipelines[0]) == before


@pytest.mark.parametrize("name", ["Flux1", "Flux1Kontext", "Flux1Fill", "Flux1Depth", "Flux1InContextDev"])
def test_runs_that_start_late(name: str, tmp_path: Path) -> None:
    """Red when a run that begins in the middle of the schedule (image-to-image) is counted from its start."""
    model = MAKERS[name]()
    arguments(name, tmp_path)  # draws the pictures
    late = {"image_path": tmp_path / "picture.png", "image_strength": 0.4, "num_inference_steps": 10}
    plain = generate(model, name, tmp_path, **late)
    shadow, stats = wrapped(model, name, tmp_path, late, mode="shadow")
    assert same(plain, shadow)
    assert [record.step for record in stats.records] == list(range(4, 10))
    assert all(record.branches == 1 for record in stats.records)
    assert all(record.signal_change is not None for record in stats.records[1:])
    _, stats = wrapped(model, name, tmp_path, late)
    assert stats.timeline == "#.#.##"


CHECKPOINTS: dict[str, tuple[str, Callable[[], Any]]] = {
    "schnell": ("Flux1", lambda: pipeline(Flux1, ModelConfig.schnell())),
    "krea-dev": ("Flux1", lambda: pipeline(Flux1, ModelConfig.krea_dev())),
    "dev-fill-catvton": ("Flux1Fill", lambda: pipeline(Flux1Fill, ModelConfig.dev_fill_catvton())),
    "schnell-controlnet-canny": ("Flux1Controlnet", lambda: controlnet(ModelConfig.schnell_controlnet_canny())),
    "dev-controlnet-upscaler": ("Flux1Controlnet", lambda: controlnet(ModelConfig.dev_controlnet_upscaler())),
}


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_other_checkpoints_of_a_pipeline(checkpoint: str, tmp_path: Path) -> None:
    """Red when a checkpoint without guidance embedding, or one with another ControlNet, does not run traced."""
    name, make = CHECKPOINTS[checkpoint]
    model = make()
    plain = generate(model, name, tmp_path)
    shadow, stats = wrapped(model, name, tmp_path, {}, mode="shadow")
    assert same(plain, shadow) and all(record.branches for record in stats.records)
    _, stats = wrapped(model, name, tmp_path, {})
    assert stats.timeline == "#.#.##"


@pytest.mark.parametrize("weights", ["bfloat16", "4 bits"])
@pytest.mark.parametrize("name", ["Flux1", "Flux1Controlnet"])
def test_other_weights(name: str, weights: str, tmp_path: Path) -> None:
    """Red when a residual is kept in another precision than the body's, or quantised layers are missed."""
    model = MAKERS[name]()
    for module in filter(None, (model.transformer, getattr(model, "transformer_controlnet", None))):
        if weights == "4 bits":
            nn.quantize(module, group_size=32, bits=4)
        else:
            module.update(tree_map(lambda value: value.astype(mx.bfloat16), module.parameters()))
    plain = generate(model, name, tmp_path)
    shadow, _ = wrapped(model, name, tmp_path, {}, mode="shadow")
    reused, stats = wrapped(model, name, tmp_path, {})
    assert same(plain, shadow) and not same(plain, reused)
    assert stats.timeline == "#.#.##" and {record.reason for record in stats.records} <= {"first", "gate", "last"}


@pytest.mark.parametrize("options", [ALTERNATE, {"plan": [0, 1, 3, 5]}], ids=["gate", "plan"])
def test_the_transformer_is_freed_after_the_loop(options: dict[str, Any], tmp_path: Path) -> None:
    """Red when the traced call keeps the transformer alive: in low-RAM mode it would stand beside the VAE."""
    model = MAKERS["Flux1"]()
    transformer = weakref.ref(model.transformer)
    alive: list[bool] = []

    class Looks:
        def call_after_loop(self, **_: Any) -> None:
            gc.collect()
            alive.append(transformer() is not None)

    with expected_warnings(), teacache.wrap(model, **options) as handle:
        model.callbacks.register(MemorySaver(model, keep_transformer=False, cache_limit_bytes=None))
        model.callbacks.register(Looks())
        generate(model, "Flux1", tmp_path)
        assert handle.stats.last is not None and handle.stats.last.reused
    assert alive == [False]


def test_schnell_warns_and_runs(tmp_path: Path) -> None:
    """Red when a checkpoint of four steps is wrapped in silence, or refused."""
    model = pipeline(Flux1, ModelConfig.schnell())
    with pytest.warns(DistilledWarning, match="schnell"):
        handle = teacache.wrap(model)
    with handle, expected_warnings():
        assert len(generate(model, "Flux1", tmp_path, num_inference_steps=4)) == 4
    assert handle.stats.last is not None and handle.stats.last.reused == 0
