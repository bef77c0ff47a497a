"""Which numbers a model gets: exact, declared, unknown, changed by a LoRA, or by the user's word."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from mflux.models.common.config.model_config import ModelConfig
from mflux.models.flux.variants.controlnet.flux_controlnet import Flux1Controlnet
from mflux.models.flux.variants.txt2img.flux import Flux1

import teacache
from teacache.errors import DistilledWarning, NoCalibrationWarning, OptionError
from teacache.testing import toy_pipeline

pytestmark = pytest.mark.parity

DEV = "black-forest-labs/FLUX.1-dev"


def model(config: Any, **attributes: Any) -> Any:
    """A small Flux1 that says it holds these weights."""
    made = toy_pipeline("flux1", weights=False)
    made.model_config = config
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def renamed(config: Any, name: str, base: str | None) -> Any:
    """A config as mflux makes one for a custom checkpoint."""
    own = copy.copy(config)
    own.model_name, own.base_model = name, base
    return own


def test_the_checkpoint_itself_is_exact_in_any_case_of_letters() -> None:
    """Red when the original weights do not get their own numbers."""
    for name in (DEV, DEV.lower(), "dev"):
        with teacache.wrap(model(renamed(ModelConfig.dev(), name, None))) as handle:
            assert (handle.identity.checkpoint, handle.identity.level) == (DEV, "exact")


def test_a_base_only_declares(recwarn: pytest.WarningsRecorder) -> None:
    """Red when a fine-tune, or a name that mflux guessed a base from, gets the original's numbers unasked."""
    tuned = renamed(ModelConfig.dev(), "someone/my-dev-tune", DEV)
    with (
        pytest.warns(NoCalibrationWarning, match=rf"declared to derive.*checkpoint='{DEV}'"),
        teacache.wrap(model(tuned)) as handle,
    ):
        assert (handle.identity.checkpoint, handle.identity.level) == (DEV, "declared")
    with teacache.wrap(model(tuned), checkpoint="dev") as handle:
        assert (handle.identity.checkpoint, handle.identity.level) == (DEV, "exact")
    assert not recwarn.list


def test_a_lora_lowers_exact_to_declared() -> None:
    """Red when weights that a LoRA changes count as the original's."""
    with (
        pytest.warns(NoCalibrationWarning, match="declared"),
        teacache.wrap(model(ModelConfig.dev(), lora_paths=["style.safetensors"])) as handle,
    ):
        assert handle.identity.level == "declared"


def test_the_name_is_tested_before_the_base() -> None:
    """Red when Krea, whose base could be read as dev, gets dev's polynomial."""
    krea = renamed(ModelConfig.krea_dev(), ModelConfig.krea_dev().model_name, DEV)
    with teacache.wrap(model(krea)) as handle:
        assert handle.identity.checkpoint == "black-forest-labs/FLUX.1-Krea-dev"


def test_unknown_weights_and_unknown_words() -> None:
    """Red when unknown weights borrow numbers, or a mistyped checkpoint is taken."""
    unknown = renamed(ModelConfig.dev(), "someone/else", None)
    with teacache.wrap(model(unknown)) as handle:
        assert (handle.identity.checkpoint, handle.identity.level) == ("someone/else", "unknown")
    with pytest.raises(OptionError, match=r"FLUX\.1-dev"):
        teacache.wrap(model(unknown), checkpoint="devv")


def test_distilled_weights_warn_once_and_run() -> None:
    """Red when schnell is refused, or silently reuses nothing."""
    with pytest.warns(DistilledWarning, match="few steps"), teacache.wrap(model(ModelConfig.schnell())):
        pass


def test_support_is_told_without_weights() -> None:
    """Red when text-to-image numbers are promised to a pipeline whose config names the same checkpoint."""
    plain = teacache.supports(ModelConfig.dev(), Flux1)
    assert plain is not None and plain.calibrated and plain.identity == "exact" and plain.adapter == "teacache-flux1"
    canny = teacache.supports(ModelConfig.dev_controlnet_canny(), Flux1Controlnet)
    assert canny is not None and canny.checkpoint == DEV and not canny.calibrated
    schnell = teacache.supports(ModelConfig.schnell(), Flux1)
    assert schnell is not None and schnell.distilled and not schnell.calibrated
    assert teacache.supports(ModelConfig.dev(), dict) is None
