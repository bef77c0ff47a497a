"""The gate replayed on published traces of real models."""

import json
from pathlib import Path

import pytest

from teacache.policies import replay_gate

pytestmark = pytest.mark.unit

DATA = Path(__file__).parents[1] / "data" / "published_traces.json"
TRACES = json.loads(DATA.read_text(encoding="utf-8"))["traces"]


@pytest.mark.parametrize("name", TRACES)
def test_published_counts(name):
    """Red when a rule differs from the one that the published thresholds were chosen with."""
    trace = TRACES[name]
    options = {key: trace[key] for key in ("coefficients", "calibrated_range", "threshold")}
    assert sum(replay_gate(trace["signal_change"][0], **options)) == trace["reused"]


def test_counts_are_the_published_ones():
    """Red when the test data change: 33, 29, 15 and 10 reused steps were published."""
    assert {name: trace["reused"] for name, trace in TRACES.items()} == {
        "qwen-image": 33,
        "qwen-image-2512": 29,
        "z-image-base": 15,
        "flux1-krea-dev": 10,
    }
