"""Files: whatever is in one, reading it gives what it holds or its own error; writing loses nothing."""

from __future__ import annotations

import ast
import contextlib
import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import teacache
from teacache.calibration import load_calibration, load_calibrations, save_calibration
from teacache.calibration.files import LARGEST_FILE
from teacache.calibration.load import parse_calibration
from teacache.errors import CalibrationError, KernelError, RecordingWarning, StoreWarning, TeaCacheError, ToleranceError
from teacache.policies.kernel import Kernel
from teacache.policies.plan import plan_from_kernel
from teacache.store import LARGEST_FILE as LARGEST_RECORDING
from teacache.store import Key, Recording, Store
from teacache.testing.denoiser import ADAPTER, Denoiser, denoise
from teacache.testing.spies import expected_warnings, same
from teacache.tolerance import dump_tolerance, load_tolerance, parse_tolerance, save_tolerance

from .test_calibration import KNOWN, TEXT, WHOLE
from .test_tolerance import TOLERANCE

pytestmark = pytest.mark.unit

KEY = Key(checkpoint="c", level="exact", fingerprint="f", pipeline="P", guidance=True)
RECORDING = Recording(key=KEY, kernel=Kernel.of([1.0, 0.6, 0.2], np.eye(3)), evidence={"steps": 3, "guidance": 2.0})

LOADERS: dict[str, tuple[str, Callable[[str], Any], type[TeaCacheError]]] = {
    "calibration": (TEXT, lambda text: parse_calibration(text, name="f"), CalibrationError),
    "tolerance": (dump_tolerance(TOLERANCE), lambda text: parse_tolerance(text, name="f"), ToleranceError),
    "recording": (RECORDING.to_json(), Recording.from_json, KernelError),
}

edits = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 40), st.text(max_size=6) | st.sampled_from('[]{}",=.\n\\eE-+0nan')),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("kind", LOADERS)
@settings(max_examples=60)
@given(edits=edits)
def test_a_damaged_file_is_read_or_refused(kind: str, edits: list[tuple[float, int, str]]) -> None:
    """Red when a cut, overwritten or lengthened file ends in an error that is not the loader's own."""
    text, load, error = LOADERS[kind]
    for place, length, put in edits:
        start = int(place * len(text))
        text = text[:start] + put + text[start + length :]
    with contextlib.suppress(error):
        load(text)


@pytest.mark.parametrize("kind", LOADERS)
def test_a_truncated_file_is_refused(kind: str) -> None:
    """Red when half a file passes for a whole one."""
    text, load, error = LOADERS[kind]
    for end in range(0, len(text) - 2, max(1, len(text) // 80)):
        try:
            loaded = load(text[:end])
        except error:
            continue
        assert kind == "calibration" and loaded.checkpoint == WHOLE.checkpoint, f"{kind}, {end} characters"
        assert text[end - 1] != "[", "a table was lost in silence"


HUGE = "0x" + "f" * 6000

HOSTILE = {
    "deep lists": "x = " + "[" * 20000,
    "deep tables": "\n".join(f"[{'.'.join('a' * n)}]" for n in range(1, 400)),
    "a number of 6000 digits": "schema = " + "9" * 6000,
    "a hexadecimal one": f"schema = {HUGE}",
    "a date that is none": "schema = 2026-99-99",
    "a NUL": "schema = 1\0",
}


@pytest.mark.parametrize("attack", HOSTILE)
@pytest.mark.parametrize("kind", ["calibration", "tolerance"])
def test_text_made_to_hurt_is_refused(kind: str, attack: str) -> None:
    """Red when the parser's own limits, or writing the message, end in another error."""
    _, load, error = LOADERS[kind]
    with pytest.raises(error):
        load(HOSTILE[attack])


@pytest.mark.parametrize("key", ["schema", "distilled", "pipelines"])
def test_messages_show_values_of_any_size(key: str) -> None:
    """Red when a value that Python cannot write breaks the message about it, or fills the screen."""
    lines = [line for line in TEXT.splitlines() if not line.startswith(key)]
    with pytest.raises(CalibrationError, match=r"too large to be shown|expected") as raised:
        parse_calibration("\n".join([f"{key} = {HUGE}", *lines]), name="f")
    assert len(str(raised.value)) < 500
    with pytest.raises(CalibrationError) as raised:
        parse_calibration("\n".join([f"{key} = '{'x' * 10**5}'", *lines]), name="f")
    assert len(str(raised.value)) < 500


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([10**400, -(10**400)]) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=150)
@given(field=st.sampled_from(sorted(json.loads(RECORDING.to_json()))), value=values)
def test_a_recording_with_any_value_in_any_field(field: str, value: Any) -> None:
    """Red when a wrong type, a huge or an endless number is planned with, or raises anything else."""
    text = json.dumps({**json.loads(RECORDING.to_json()), field: value})
    try:
        loaded = Recording.from_json(text)
    except KernelError:
        return
    assert np.isfinite(loaded.kernel.products).all() and loaded.kernel.prompts >= 1
    plan_from_kernel(
        loaded.kernel.products, (*loaded.kernel.sigmas, min(0.0, loaded.kernel.sigmas[-1] - 1)), computed_steps=2
    )


def test_files_that_are_too_large_are_not_read(tmp_path: Path) -> None:
    """Red when a file of gigabytes is taken into memory."""
    large = tmp_path / "large.toml"
    with large.open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    with pytest.raises(CalibrationError, match="more than"):
        load_calibration(large)
    store = Store(tmp_path)
    with store.path(KEY).open("wb") as file:
        file.truncate(LARGEST_RECORDING + 1)
    with pytest.raises(KernelError, match="too large"):
        store.load(KEY)


@pytest.mark.parametrize("path", ["../secrets", "/etc", "calibrations/../../x", "..", "", "a\\..\\b", "\0"])
def test_references_stay_inside_their_package(path: str) -> None:
    """Red when an adapter's description, or a file's name, leads out of its package."""
    for load, error in ((load_calibrations, CalibrationError), (load_tolerance, ToleranceError)):
        with pytest.raises(error, match="expected 'package:"):
            load(f"teacache:{path}")


@pytest.mark.parametrize("name", ["../../x", "/etc/passwd", "a/b", "..", "C:\\x", "x\0y", "\n", "\ud800"])
def test_no_name_becomes_a_path(tmp_path: Path, name: str) -> None:
    """Red when a checkpoint's or a pipeline's name decides where a file is."""
    store = Store(tmp_path / "recordings")
    key = Key(checkpoint=name, level=name, fingerprint=name, pipeline=name, guidance=True)
    assert store.path(key).parent == tmp_path / "recordings"
    store.save(Recording(key=key, kernel=RECORDING.kernel))
    loaded = store.load(key)
    assert loaded is not None and loaded.key == key
    assert [path.parent for path in tmp_path.rglob("*.json")] == [tmp_path / "recordings"]


FAULTS = {
    "read-only folder": ("tempfile.mkstemp", OSError(errno.EROFS, "Read-only file system")),
    "no right to write": ("tempfile.mkstemp", PermissionError(errno.EACCES, "Permission denied")),
    "full disk": ("os.fdopen", OSError(errno.ENOSPC, "No space left on device")),
    "no right to replace": ("pathlib.Path.replace", PermissionError(errno.EPERM, "Operation not permitted")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_folder_that_takes_nothing_is_one_warning(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """Red when a picture fails with the disk, an older recording is lost, or half a file stays."""
    model, (name, error) = Denoiser(), FAULTS[fault]
    plain = denoise(model, None, seed=1, steps=12, guidance=1.0)

    def fails(*_: Any, **__: Any) -> Any:
        raise error

    with teacache.wrap(model, adapter=ADAPTER, speedup=2.0) as handle:
        with monkeypatch.context() as patched:
            patched.setattr(name, fails)
            with pytest.warns((StoreWarning, RecordingWarning)) as given_warnings:
                assert same(plain, denoise(model, handle, seed=1, steps=12, guidance=1.0))
        assert {type(w.message) for w in given_warnings} == {StoreWarning, RecordingWarning}
        assert list(Store().folder.glob("*.json")) == []
        with expected_warnings():
            denoise(model, handle, seed=1, steps=12, guidance=1.0)
        denoise(model, handle, seed=1, steps=12, guidance=1.0)
        assert handle.stats.last is not None and handle.stats.last.reused == 6


@pytest.mark.parametrize("save", [save_calibration, save_tolerance])
def test_a_full_disk_leaves_the_older_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Any) -> None:
    """Red when a file is emptied before the new one is whole."""
    path, value = tmp_path / "file.toml", KNOWN if save is save_calibration else TOLERANCE
    save(value, path)
    before = path.read_bytes()

    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        save(value, path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_what_is_no_file_is_listed_with_the_reason(tmp_path: Path) -> None:
    """Red when one entry that cannot be read hides all others."""
    store = Store(tmp_path)
    store.save(RECORDING)
    (tmp_path / "00folder.json").mkdir()
    (tmp_path / "11dangling.json").symlink_to(tmp_path / "nowhere")
    listed = {path.name: entry for path, entry in store.all()}
    assert isinstance(listed.pop(f"{KEY.name}.json"), Recording)
    assert len(listed) == 2 and all(isinstance(entry, KernelError) for entry in listed.values())


WRITER = """
import sys, numpy as np
from pathlib import Path
from teacache.policies.kernel import Kernel
from teacache.store import Key, Recording, Store
key = Key(checkpoint="c", level="exact", fingerprint="f", pipeline="P", guidance=True)
for turn in range(150):
    kernel = Kernel.of([1.0, 0.6, 0.2], np.eye(3), prompts=int(sys.argv[2]))
    Store(Path(sys.argv[1])).save(Recording(key=key, kernel=kernel, evidence={"text": sys.argv[2] * 5000}))
"""


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    """Red when a reader meets half a file, the two writers' parts in one, or a draft that nobody takes away."""
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), name]) for name in ("1", "2")]
    seen, store = set(), Store(tmp_path)
    while any(writer.poll() is None for writer in writers):
        recording = store.load(KEY)
        if recording is not None:
            assert recording.evidence["text"] == str(recording.kernel.prompts) * 5000
            seen.add(recording.kernel.prompts)
    assert [writer.returncode for writer in writers] == [0, 0] and seen <= {1, 2} and seen
    assert list(tmp_path.iterdir()) == [store.path(KEY)]


CODE = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
SOURCES = sorted(Path(teacache.__file__).parent.rglob("*.py"))


def test_no_code_comes_from_data() -> None:
    """Red when a file can bring code: pickle and its kin, `eval`, `exec`, or numpy with pickles allowed."""
    found = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if {name.split(".")[0] for name in names} & {
                "pickle",
                "marshal",
                "shelve",
                "dill",
                "cloudpickle",
                "joblib",
            }:
                found.append(f"{path.name}:{node.lineno}")
            if isinstance(node, ast.Call):
                called = node.func.id if isinstance(node.func, ast.Name) else ""
                allowed = any(keyword.arg == "allow_pickle" for keyword in node.keywords)
                if called in ("eval", "exec") or allowed:
                    found.append(f"{path.name}:{node.lineno}")
    assert len(SOURCES) > 50 and found == []
