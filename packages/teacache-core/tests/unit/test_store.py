"""Recordings on disk: nothing lost, nothing believed that is damaged, and no picture stopped."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import teacache
from teacache.errors import KernelError, RecordingWarning, SpeedupWarning, StoreWarning
from teacache.policies.kernel import Kernel
from teacache.store import Key, Recording, Store
from teacache.testing.denoiser import ADAPTER, Denoiser, denoise
from teacache.testing.spies import expected_warnings, same

pytestmark = pytest.mark.unit

KEY = Key(checkpoint="../../etc/passwd", level="exact", fingerprint="f", pipeline="P", guidance=True)


def recording(key: Key = KEY) -> Recording:
    return Recording(key=key, kernel=Kernel.of([1.0, 0.5], np.eye(2)), evidence={"steps": 2})


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder for this test alone."""
    monkeypatch.setenv("TEACACHE_DATA", str(tmp_path / "data"))
    return tmp_path / "data" / "recordings"


def test_what_is_kept_is_found_again(data: Path) -> None:
    """Red when a recording changes on its way through the file, or a file name follows the checkpoint's."""
    path = Store().save(recording())
    assert path.parent == data and path.name == f"{KEY.name}.json"
    loaded = Store().load(KEY)
    assert loaded is not None and loaded.key == KEY and loaded.evidence == {"steps": 2}
    assert loaded.kernel.sigmas == (1.0, 0.5) and np.array_equal(loaded.kernel.products, np.eye(2))
    assert Store().load(Key(checkpoint=None, level="exact", fingerprint="f", pipeline="P", guidance=True)) is None
    assert Store().forget(KEY) and not Store().forget(KEY)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": 2}',
        '{"format": 1}',
        '{"format": 1, "key": {"checkpoint": 1}}',
        json.dumps({**json.loads(recording().to_json()), "products": [[1, float("nan")], [0, 1]]}),
        json.dumps({**json.loads(recording().to_json()), "sigmas": [1.0]}),
        json.dumps({**json.loads(recording().to_json()), "prompts": "many"}),
    ],
)
def test_damaged_files_are_no_recordings(data: Path, text: str) -> None:
    """Red when half a file, another format or impossible numbers are planned with."""
    data.mkdir(parents=True)
    Store().path(KEY).write_text(text)
    with pytest.raises(KernelError):
        Store().load(KEY)
    assert [type(entry) for _, entry in Store().all()] == [KernelError]


@settings(max_examples=50)
@given(st.text())
def test_any_text_is_a_recording_or_an_error(text: str) -> None:
    """Red when reading a file raises anything but its own error."""
    with pytest.raises(KernelError):
        Recording.from_json(text)


def test_a_file_under_another_key_is_not_taken(data: Path) -> None:
    """Red when a copied file lends one model's kernel to another."""
    other = Key(checkpoint="other", level="exact", fingerprint="f", pipeline="P", guidance=True)
    Store().save(recording()).rename(Store().path(other))
    with pytest.raises(KernelError, match="another model"):
        Store().load(other)


def test_first_recorded_then_planned_then_planned_at_once() -> None:
    """Red when the recording moves the picture, is not found by a new handle, or serves other weights or guidance."""
    model = Denoiser()
    plain = denoise(model, None, seed=1, steps=12, guidance=1.0)
    with teacache.wrap(model, adapter=ADAPTER, speedup=2.0) as handle:
        with pytest.warns(RecordingWarning, match=r"Later ones compute 6 of 12 steps \(2.0x\)"):
            assert same(plain, denoise(model, handle, seed=1, steps=12, guidance=1.0))
        denoise(model, handle, seed=2, steps=12, guidance=1.0)
        assert [run.reused for run in handle.stats.runs] == [0, 6]
        assert "plan from the recording of this model (12 steps, guidance 1" in str(handle)
    model = Denoiser()
    with teacache.wrap(model, adapter=ADAPTER, computed_steps=5) as handle:
        denoise(model, handle, seed=1, steps=12, guidance=1.0)
        denoise(model, handle, seed=1, steps=20, guidance=1.0)
        assert [run.computed for run in handle.stats.runs] == [5, 5]
        with pytest.warns(RecordingWarning):
            denoise(model, handle, seed=1, steps=12, guidance=3.0)
    model.head.weight = model.head.weight * 1.01
    with teacache.wrap(model, adapter=ADAPTER, speedup=2.0) as handle, pytest.warns(RecordingWarning):
        denoise(model, handle, seed=1, steps=12, guidance=1.0)


def test_an_impossible_speed_is_the_largest_possible_one() -> None:
    """Red when a wish that cannot be had is refused or silently changed."""
    model = Denoiser()
    with teacache.wrap(model, adapter=ADAPTER, speedup=50) as handle:
        with (
            pytest.warns(RecordingWarning),
            pytest.warns(SpeedupWarning, match=r"12x and more was asked of 12 steps.*3 are computed"),
        ):
            denoise(model, handle, seed=1, steps=12, guidance=1.0)
        denoise(model, handle, seed=1, steps=12, guidance=1.0)
        assert handle.stats.last is not None and handle.stats.last.computed == 3


def test_a_damaged_recording_is_one_warning_and_made_anew(data: Path) -> None:
    """Red when a damaged file stops a picture, or is never replaced."""
    model = Denoiser()
    with expected_warnings(), teacache.wrap(model, adapter=ADAPTER, speedup=2.0) as handle:
        denoise(model, handle, seed=1, steps=12, guidance=1.0)
        [path] = data.glob("*.json")
        path.write_text("{")
    with teacache.wrap(model, adapter=ADAPTER, speedup=2.0) as handle:
        with pytest.warns((StoreWarning, RecordingWarning)) as given_warnings:
            denoise(model, handle, seed=1, steps=12, guidance=1.0)
        assert {type(w.message) for w in given_warnings} == {StoreWarning, RecordingWarning}
        denoise(model, handle, seed=1, steps=12, guidance=1.0)
        assert handle.stats.last is not None and handle.stats.last.reused == 6


def test_a_folder_that_cannot_be_written_is_one_warning(data: Path) -> None:
    """Red when a full disk or a read-only folder stops a picture."""
    data.parent.mkdir(parents=True)
    data.write_text("a file where the folder should be")
    model = Denoiser()
    with teacache.wrap(model, adapter=ADAPTER, speedup=2.0) as handle:
        with pytest.warns((StoreWarning, RecordingWarning)) as given_warnings:
            denoise(model, handle, seed=1, steps=12, guidance=1.0)
        assert {type(w.message) for w in given_warnings} == {StoreWarning, RecordingWarning}
        assert len(handle.stats.runs) == 1
    assert data.read_text().startswith("a file")


def test_a_broken_recording_is_thrown_away(data: Path) -> None:
    """Red when a run that broke off leaves half a kernel."""
    model = Denoiser()
    with expected_warnings(), teacache.wrap(model, adapter=ADAPTER, speedup=2.0) as handle:
        with handle.run(np.linspace(1, 0, 13).tolist()) as run:
            for _ in run:
                break
        assert not list(data.glob("*"))
