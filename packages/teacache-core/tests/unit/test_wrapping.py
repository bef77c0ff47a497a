"""`wrap` and its options: every mistake has an error of its own, and a failure leaves the model untouched."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx import nn

import teacache
from teacache.changes import Changes
from teacache.errors import (
    AdapterDescriptionError,
    AlreadyWrappedError,
    CoefficientsError,
    CompileOptionError,
    ForeignWrapperError,
    NoCalibrationWarning,
    OptionError,
    PlanError,
    RestoreError,
    ThresholdError,
    UnknownModelError,
)
from teacache.testing.denoiser import ADAPTER, Denoiser, call_each_step
from teacache.testing.spies import snapshot

pytestmark = pytest.mark.unit


def wrap(model: Any, **options: Any) -> teacache.Handle:
    return teacache.wrap(model, **{"adapter": ADAPTER, **options})


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"threshold": -0.1}, ThresholdError, "threshold=-0.1"),
        ({"threshold": float("nan")}, ThresholdError, "finite number from 0"),
        ({"threshold": True}, ThresholdError, "threshold=True"),
        ({"threshold": "0.2"}, ThresholdError, "threshold='0.2'"),
        ({"coefficients": [1, 2, 3], "threshold": 0.2}, CoefficientsError, "five finite numbers"),
        ({"coefficients": [1, 2, 3, 4, float("inf")], "threshold": 0.2}, CoefficientsError, "five finite numbers"),
        ({"coefficients": [0, 0, 0, 1, 0]}, CoefficientsError, "without threshold="),
        ({"threshold": 0.2, "warmup": -1}, OptionError, "warmup=-1"),
        ({"threshold": 0.2, "cooldown": 1.5}, OptionError, "cooldown=1.5"),
        ({"threshold": 0.2, "max_reuse": True}, OptionError, "max_reuse=True"),
        ({"mode": "fast"}, OptionError, "mode='fast'"),
        ({"speedup": 0.5}, PlanError, "speedup=0.5"),
        ({"speedup": float("nan")}, PlanError, "speedup=nan"),
        ({"speedup": True}, PlanError, "speedup=True"),
        ({"computed_steps": 1}, PlanError, "computed_steps=1"),
        ({"computed_steps": 2.0}, PlanError, "computed_steps=2.0"),
        ({"plan": [0, 1.5]}, PlanError, "plan="),
        ({"speedup": 2.0, "threshold": 0.2}, OptionError, "different ways"),
        ({"speedup": 2.0, "plan": [0]}, OptionError, "different ways"),
        ({"speedup": 2.0, "mode": "shadow"}, OptionError, "different ways"),
        ({"compile": True, "threshold": 0.0}, CompileOptionError, "calls its transformer directly"),
        ({"compile": 1, "threshold": 0.0}, CompileOptionError, "None, True or False"),
        ({"threshold": 0.2, "checkpoint": "nobody/nothing"}, OptionError, "nobody/nothing"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], error: type[Exception], says: str) -> None:
    """Red when a wrong value is taken, raises something else, or leaves the model changed."""
    model = Denoiser()
    before = snapshot(model, ADAPTER, ADAPTER.pipelines[0])
    with pytest.raises(error, match=says.replace("(", r"\(")) as raised:
        wrap(model, **options)
    assert type(raised.value) is error
    assert snapshot(model, ADAPTER, ADAPTER.pipelines[0]) == before


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (None, r"wrap\(None\) was given"),
        ("flux2-klein-4b", "was given a name"),
        (Path("weights"), "was given a name"),
        ([Denoiser], "one at a time"),
        (Denoiser, "was given the class"),
    ],
    ids=["nothing", "a name", "a path", "a list", "a class"],
)
def test_what_is_no_pipeline_is_named(given: object, says: str) -> None:
    """Red when a common mistake is answered with a list of adapters, or with an AttributeError."""
    with pytest.raises(UnknownModelError, match=says):
        teacache.wrap(given)


def test_a_transformer_is_told_from_its_pipeline() -> None:
    """Red when the transformer is wrapped in the pipeline's place, or one that an adapter lists itself is refused."""
    inner = dataclasses.replace(
        ADAPTER, pipelines=(teacache.Pipeline(cls="teacache.testing.denoiser:Holder", transformer="model"),)
    )
    with pytest.raises(UnknownModelError, match=r"not its transformer.*Holder|Holder.*not its transformer"):
        teacache.wrap(Denoiser(), adapter=inner)
    teacache.wrap(Denoiser(), adapter=ADAPTER).restore()


def test_an_object_that_nobody_describes_is_named() -> None:
    """Red when a foreign object is wrapped, or refused without saying what it is."""
    with pytest.raises(UnknownModelError, match="dict"):
        teacache.wrap({})


def test_a_class_is_not_a_model() -> None:
    """Red when the class in place of an object is told a story about freed weights."""
    with pytest.raises(UnknownModelError, match="was given the class"):
        teacache.wrap(Denoiser)


def test_a_subclass_of_ours_is_wrapped_once() -> None:
    """Red when a second wrap hides the first one's class."""
    model = Denoiser()
    with wrap(model, threshold=0.0), pytest.raises(AlreadyWrappedError, match=r"restore\(\)"):
        wrap(model, threshold=0.0)
    with wrap(model, threshold=0.0):
        pass


def test_a_replaced_transformer_is_refused_by_name() -> None:
    """Red when a proxy of another tool is wrapped as if it were the model."""

    class Pipeline:
        def __init__(self, transformer: Any) -> None:
            self.transformer = transformer

    described = dataclasses.replace(ADAPTER, pipelines=(teacache.Pipeline(cls=f"{__name__}:{Pipeline.__qualname__}"),))
    with pytest.raises(ForeignWrapperError, match=r"Linear.*another tool"):
        teacache.wrap(Pipeline(nn.Linear(2, 2)), adapter=described, threshold=0.0)
    with pytest.raises(OptionError, match="were freed"):
        teacache.wrap(Pipeline(None), adapter=described, threshold=0.0)


def test_an_adapter_that_names_missing_blocks_is_refused() -> None:
    """Red when a description that does not fit the installed model is found out only in the middle of a picture."""
    body = dataclasses.replace(ADAPTER.body, blocks=("layers",))
    with pytest.raises(AdapterDescriptionError, match=r"no list of blocks named 'layers'.*\['blocks'\]"):
        teacache.wrap(Denoiser(), adapter=dataclasses.replace(ADAPTER, body=body), threshold=0.0)


def test_a_threshold_without_a_polynomial_measures_and_says_so() -> None:
    """Red when numbers of another model are borrowed, or when nothing is said."""
    model = Denoiser()
    with pytest.warns(NoCalibrationWarning, match="no polynomial for this model"):
        handle = wrap(model, threshold=0.2)
    with handle, warnings.catch_warnings():
        warnings.simplefilter("ignore", NoCalibrationWarning)
        call_each_step(model, handle, [1.0, 0.6, 0.3, 0.0])
    assert handle.stats.last is not None and handle.stats.last.reused == 0
    assert all(record.reason == "no calibration" for record in handle.stats.last.records)
    assert handle.stats.last.records[1].body_change is not None


def test_a_warning_made_an_error_leaves_the_model_untouched() -> None:
    """Red when `wrap` warns between two changes: under -W error the model would stay half wrapped."""
    model = Denoiser()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(NoCalibrationWarning):
            wrap(model, threshold=0.2)
    assert type(model) is Denoiser


@pytest.mark.parametrize("fails", ["set_class"])
def test_a_failure_while_wrapping_undoes_the_rest(fails: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a failing change leaves those before it behind."""
    model = Denoiser()
    original = getattr(Changes, fails)

    def failing(self: Changes, *args: Any) -> None:
        original(self, *args)
        raise OSError("planted")

    monkeypatch.setattr(Changes, fails, failing)
    with pytest.raises(OSError, match="planted"):
        wrap(model, threshold=0.0)
    assert type(model) is Denoiser


def test_restore_reports_what_stands_on_top_and_can_be_retried() -> None:
    """Red when restore takes away another tool's class, or cannot finish once that tool is gone."""
    model = Denoiser()
    handle = wrap(model, threshold=0.0)
    ours = type(model)

    class OnTop(ours):  # type: ignore[misc, valid-type]
        pass

    model.__class__ = OnTop
    with pytest.raises(RestoreError, match="Undo that change first"):
        handle.restore()
    assert type(model) is OnTop
    model.__class__ = ours
    handle.restore()
    handle.restore()
    assert type(model) is Denoiser


def test_changes_are_undone_in_reverse_and_by_identity() -> None:
    """Red when undoing removes an equal item of somebody else, or an attribute that stood there before."""

    class Thing:
        pass

    thing, items = Thing(), [1.0, 2.0]
    thing.own = "before"  # type: ignore[attr-defined]
    changes = Changes()
    changes.set_attribute(thing, "own", "after")
    changes.set_attribute(thing, "new", "after")
    ours = float("2.0")
    changes.append(items, ours)
    items.append(2.5)
    changes.undo()
    assert vars(thing) == {"own": "before"} and items == [1.0, 2.0, 2.5]


def test_the_handle_keeps_no_model_alive() -> None:
    """Red when a forgotten handle holds gigabytes of weights."""
    model = Denoiser()
    handle = wrap(model, threshold=0.0)
    assert "0 runs" in repr(handle)
    del model
    handle.restore()
    assert "restored" in repr(handle)
    assert handle._model() is None


def test_arrays_of_a_run_die_with_it() -> None:
    """Red when residuals or signals outlive their run: memory would grow from picture to picture."""
    model = Denoiser()
    with wrap(model, coefficients=[0, 0, 0, 0, 1], threshold=1.5) as handle:
        call_each_step(model, handle, [1.0, 0.8, 0.6, 0.4, 0.2, 0.0])
        mx.clear_cache()
        before = mx.get_active_memory()
        for _ in range(5):
            call_each_step(model, handle, [1.0, 0.8, 0.6, 0.4, 0.2, 0.0])
        assert mx.get_active_memory() <= before


def test_a_run_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Red when somebody who looks for the reason of a picture finds nothing in the log, or mflux shows it unasked."""
    caplog.set_level("DEBUG", logger="teacache")
    model = Denoiser()
    with wrap(model, coefficients=[0, 0, 0, 1, 0], threshold=5.0) as handle:
        call_each_step(model, handle, [1.0, 0.8, 0.6, 0.4, 0.2, 0.1, 0.0])
    lines = [(record.name, record.getMessage()) for record in caplog.records]
    assert any(name == "teacache.wrapping" and "Denoiser" in text for name, text in lines)
    assert any(name == "teacache.session" and "run of 6 steps: gate at threshold 5" in text for name, text in lines)
    assert any("4 of 6 steps reused" in text for _, text in lines)
    assert {record.levelname for record in caplog.records} == {"DEBUG"}
