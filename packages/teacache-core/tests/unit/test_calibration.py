"""Calibration files: read, checked, written, and used only where they belong."""

import dataclasses
import re
import sys
import tomllib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teacache.calibration import (
    BODY_OUTPUT_CHANGE,
    Calibration,
    ChangeCurve,
    GateNumbers,
    Recipe,
    SignalSource,
    load_calibration,
    load_calibrations,
    save_calibration,
)
from teacache.calibration.load import parse_calibration
from teacache.calibration.save import dump_calibration
from teacache.errors import CalibrationError

pytestmark = pytest.mark.unit

TEXT = """\
schema = 1
checkpoint = "example/Model-Base"
aliases = ["model-base"]
pipelines = ["Pipe"]
distilled = false
status = "published"

[signal]
tensor = "input of block 0"
tokens = "target"
branch = 0

[change]
kind = "relative L1 of the body output, worst branch"

[gate]
coefficients = [1.5, -2.0, 3.0, 4.0, 0.0]
range = [0.01, 0.5]
threshold = 0.17

[recipe]
steps = 50
guidance = 4.0
height = 512
width = 512
quantize = 4

[curve]
body_change = [0.5, 0.25, 0.125]
steps = 4
guidance = 1.0
sigmas = [1.0, 0.75, 0.5, 0.25]

[evidence]
source = "a paper"
prompts = 5
r2 = 0.85
sweep = [[0.1, 3], [0.2, 8]]
paired = true
"""

WHOLE = Calibration(
    checkpoint="example/Model-Base",
    aliases=("model-base",),
    pipelines=("Pipe",),
    status="published",
    signal=SignalSource(tensor="input of block 0"),
    change=BODY_OUTPUT_CHANGE,
    gate=GateNumbers(coefficients=(1.5, -2.0, 3.0, 4.0, 0.0), range=(0.01, 0.5), threshold=0.17),
    recipe=Recipe(steps=50, guidance=4.0, height=512, width=512, quantize=4),
    curve=ChangeCurve(body_change=(0.5, 0.25, 0.125), steps=4, guidance=1.0, sigmas=(1.0, 0.75, 0.5, 0.25)),
    evidence={"source": "a paper", "prompts": 5, "r2": 0.85, "sweep": ((0.1, 3), (0.2, 8)), "paired": True},
)
KNOWN = Calibration(
    checkpoint="example/Model-Edit", pipelines=("Edit",), status="provisional", evidence={"source": "none"}
)


def parse(text):
    return parse_calibration(text, name="file.toml")


def test_a_file_with_everything_is_read():
    """Red when a key is read into the wrong field, or lost."""
    assert parse(TEXT) == WHOLE


def test_writing_is_the_reverse_of_reading():
    """Red when a field is left out of the file, or two writes of one calibration differ."""
    assert dump_calibration(WHOLE) == TEXT
    assert parse(dump_calibration(KNOWN)) == KNOWN


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("schema = 1", "schema = 2", r"schema = 2; this teacache reads up to 1\. Run: pip install --upgrade"),
        ("schema = 1\n", "", "schema is missing"),
        ("schema = 1", "schema = true", "schema = True; expected a whole number"),
        ('checkpoint = "example/Model-Base"', "checkpoint = 3", "checkpoint = 3; expected a text"),
        ('checkpoint = "example/Model-Base"', 'checkpoint = " "', "checkpoint = ' '; expected a text"),
        ('pipelines = ["Pipe"]', "pipelines = []", r"pipelines = \[\]; expected a list of texts"),
        ('pipelines = ["Pipe"]', 'pipelines = "Pipe"', "pipelines = 'Pipe'; expected a list of texts"),
        ("distilled = false", "distilled = 0", "distilled = 0; expected true or false"),
        ('"published"', '"measured"', "status = 'measured'; expected one of published, calibrated, provisional"),
        ('tokens = "target"', 'tokens = "text"', r"signal\.tokens = 'text'; expected 'target' or 'all'"),
        ("branch = 0", "branch = -1", r"signal\.branch = -1; expected a whole number"),
        ("1.5, -2.0, 3.0, 4.0, 0.0", "1.5, -2.0, 3.0, 4.0", r"gate\.coefficients = .*; expected five finite numbers"),
        ("-2.0", "nan", r"gate\.coefficients = .*nan.*; expected a list of finite numbers"),
        ("-2.0", "true", r"gate\.coefficients = .*True.*; expected a list of finite numbers"),
        ("-2.0", "1" + "0" * 400, r"gate\.coefficients = .*; expected a list of finite numbers"),
        ("range = [0.01, 0.5]", "range = [0.5, 0.01]", r"gate\.range = .*; expected two finite numbers"),
        ("threshold = 0.17", "threshold = inf", r"gate\.threshold = inf; expected a finite number from 0 up"),
        ("threshold = 0.17", "threshhold = 0.17", r"gate\.threshhold = 0\.17 is unknown; expected coefficients, range"),
        ("steps = 50", "steps = 50.0", r"recipe\.steps = 50\.0; expected a whole number from 1 up"),
        ("guidance = 4.0", 'guidance = "4"', r"recipe\.guidance = '4'; expected a finite number"),
        ("0.5, 0.25, 0.125", "0.5, 0.25", r"curve\.body_change = .*; expected 3 numbers from 0 up"),
        ("0.5, 0.25, 0.125", "0.5, -0.25, 0.125", r"curve\.body_change = .*; expected 3 numbers from 0 up"),
        ("1.0, 0.75, 0.5", "1.0, 0.5, 0.5", r"curve\.sigmas = .*; expected 4 falling numbers"),
        ('source = "a paper"\n', "", r"evidence\.source is missing"),
        ("r2 = 0.85", "r2 = nan", r"evidence\.r2 = nan; expected texts, finite numbers"),
        ("r2 = 0.85", "r2 = 2025-01-01", r"evidence\.r2 = .*; expected texts, finite numbers"),
        ("[recipe]", "[recipes]", "recipe is missing"),
        ("[signal]", "[signals]", "signal is missing"),
        ("[evidence]", "[kernel]\nsize = 3\n[evidence]", r"kernel = .* is unknown; expected schema, gate"),
        ("[gate]", "[gate", "expected TOML"),
    ],
)
def test_a_wrong_file_is_refused(before, after, message):
    """Red when a damaged file is taken; the message must name file, key, what was given and what was expected."""
    text = TEXT.replace(before, after)
    assert text != TEXT
    with pytest.raises(CalibrationError, match=r"file\.toml: .*" + message):
        parse(text)


def test_a_curve_needs_its_kind_of_change():
    """Red when a curve without a gate is taken without saying what it measures."""
    curve = dataclasses.replace(KNOWN, curve=WHOLE.curve, change=BODY_OUTPUT_CHANGE)
    assert parse(dump_calibration(curve)) == curve
    with pytest.raises(CalibrationError, match="change is missing"):
        parse(dump_calibration(dataclasses.replace(curve, change=None)))


def test_unreadable_files_are_named(tmp_path):
    """Red when a missing or binary file ends in an untyped error."""
    with pytest.raises(CalibrationError, match=r"none\.toml: cannot be read"):
        load_calibration(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(CalibrationError, match=r"binary\.toml: cannot be read"):
        load_calibration(str(tmp_path / "binary.toml"))


def test_saving_replaces_whole_or_not_at_all(tmp_path):
    """Red when a failed save leaves half a file, a draft, or touches the older file."""
    path = tmp_path / "model.toml"
    save_calibration(KNOWN, path)
    save_calibration(WHOLE, path)
    assert load_calibration(path) == WHOLE
    damaged = dataclasses.replace(WHOLE, gate=GateNumbers(coefficients=(1.0,)))
    for wrong in (damaged, dataclasses.replace(WHOLE, evidence={"source": "x", "when": object()})):
        with pytest.raises(CalibrationError):
            save_calibration(wrong, path)
    assert path.read_text(encoding="utf-8") == TEXT
    assert list(tmp_path.iterdir()) == [path]


def test_numpy_numbers_are_written_as_numbers():
    """Red when numpy's repr gets into a file."""
    gate = GateNumbers(coefficients=tuple(np.arange(5.0)), threshold=np.float32(0.5))
    evidence = {"source": "x", "prompts": np.int64(3)}
    written = parse(dump_calibration(dataclasses.replace(WHOLE, gate=gate, evidence=evidence)))
    assert written.gate == GateNumbers(coefficients=(0.0, 1.0, 2.0, 3.0, 4.0), threshold=0.5)
    assert written.evidence["prompts"] == 3


facts = st.recursive(
    st.text() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=12).map(tuple),
    max_leaves=20,
)


@settings(max_examples=25)
@given(st.dictionaries(st.text(), facts, max_size=5))
def test_any_evidence_survives(evidence):
    """Red when a text is escaped wrongly, a key is not quoted, or a number loses digits."""
    calibration = dataclasses.replace(KNOWN, evidence={**evidence, "source": "x"})
    text = dump_calibration(calibration)
    assert parse(text) == calibration
    assert tomllib.loads(text)["evidence"].keys() == calibration.evidence.keys()


def test_names_match_whole_and_in_any_case():
    """Red when a part of a name matches: a fine-tune would get the base's numbers."""
    assert WHOLE.matches("EXAMPLE/model-base")
    assert WHOLE.matches("Model-Base")
    for other in ("example/Model-Base-Turbo", "model", "someone/Model-Base", ""):
        assert not WHOLE.matches(other)


def mismatch(calibration=WHOLE, **changed):
    here = {"pipeline": "Pipe", "signal_tensor": "input of block 0", "signal_tokens": "target", "steps": 50}
    return calibration.mismatch(**{**here, "guidance": 3.0, **changed})


@pytest.mark.parametrize("changed", [{}, {"steps": 40}, {"steps": 60}, {"guidance": 1.1}])
def test_numbers_are_used_inside_their_recipe(changed):
    """Red when the recipe is taken too narrowly: 20 % of the steps, and any strength of guidance above 1."""
    assert mismatch(**changed) is None


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"pipeline": "PipeControlnet"}, "holds for Pipe, not for PipeControlnet"),
        ({"signal_tensor": "residual of layer 0"}, "the adapter reads 'residual of layer 0'"),
        ({"signal_tokens": "all"}, r"\(all tokens, branch 0\)"),
        ({"signal_branch": 1}, r"\(target tokens, branch 1\)"),
        ({"change": "cosine"}, "measured is 'cosine'"),
        ({"steps": 39}, "measured at 50 steps; 39 are more than 20 % away"),
        ({"steps": 61}, "61 are more than 20 % away"),
        ({"guidance": 1.0}, r"measured at guidance 4; this run has 1\.0"),
        ({"guidance": None}, "this run has None"),
        ({"calibration": KNOWN}, "No polynomial is known for example/Model-Edit"),
    ],
)
def test_numbers_are_not_lent(changed, sentence):
    """Red when numbers are used for another pipeline, tensor, tokens, branch, kind of change or recipe."""
    reason = mismatch(**changed)
    assert reason is not None
    assert "\n" not in reason
    assert re.search(sentence, reason)


def test_numbers_measured_without_guidance():
    """Red when guidance that is off as measured counts as a mismatch."""
    off = dataclasses.replace(WHOLE, recipe=Recipe(steps=50, guidance=1.0))
    assert mismatch(off, guidance=None) is None
    assert mismatch(off, guidance=0.0) is None
    assert mismatch(off, guidance=2.0) is not None


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Returns the calibration folder of an importable package."""
    folder = tmp_path / "example_adapter" / "calibrations"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    sys.modules.pop("example_adapter", None)


def test_a_folder_is_read_in_order(package):
    """Red when other files are taken for calibrations, or the order depends on the file system."""
    (package / "b.toml").write_text(TEXT, encoding="utf-8")
    save_calibration(KNOWN, package / "a.toml")
    (package / "README.md").write_text("notes", encoding="utf-8")
    assert load_calibrations("example_adapter:calibrations") == (KNOWN, WHOLE)


def test_two_files_may_not_claim_one_name(package):
    """Red when the file that comes first wins silently."""
    save_calibration(WHOLE, package / "a.toml")
    save_calibration(dataclasses.replace(KNOWN, aliases=("MODEL-base",)), package / "b.toml")
    with pytest.raises(CalibrationError, match=r"example/Model-Base and example/Model-Edit both claim .*'model-base'"):
        load_calibrations("example_adapter:calibrations")


@pytest.mark.parametrize("reference", ["no_such_package:calibrations", "example_adapter:none", "", ":calibrations"])
def test_a_wrong_reference_is_refused(package, reference):
    """Red when an adapter's wrong reference ends in an untyped error or in no calibrations."""
    with pytest.raises(CalibrationError, match="expected 'package:folder'"):
        load_calibrations(reference)
