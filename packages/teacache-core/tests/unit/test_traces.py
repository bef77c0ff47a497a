"""Plans against the published polynomials on published traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from teacache.bench.traces import Model, compare_all, drift, load_traces, main, markdown

pytestmark = pytest.mark.unit

MODELS = compare_all()
PAGE = Path(__file__).parents[4] / "docs" / "traces.md"


def test_drift_is_the_largest_sum_since_a_computed_step() -> None:
    """Red when a computed step does not end a sum, its own change counts, or the sum of the run is taken."""
    assert drift([1.0, 2.0, 4.0, 8.0, 3.0], [False, True, True, False, True, False]) == 8.0
    assert drift([1.0, 2.0], [False, False, False]) == 0.0


@pytest.mark.parametrize("model", MODELS, ids=[model.name for model in MODELS])
def test_the_plan_drifts_no_further_than_the_polynomial(model: Model) -> None:
    """Red when planning from one prompt serves the others worse than the published polynomial, at equal reuse."""
    reused, polynomial, plan = model.means
    assert reused > 0 and 0 < plan <= polynomial


def test_all_models_and_prompts_are_compared() -> None:
    """Red when a model or a prompt falls out, or the prompt that the plan was made from is counted."""
    counts = {name: len(trace["body_change"]) for name, trace in load_traces().items()}
    assert len(counts) == 5
    assert {model.name: len(model.rows) + 1 for model in MODELS} == counts
    worse = {model.name: [row.prompt for row in model.rows if row.plan > row.polynomial] for model in MODELS}
    assert {name: prompts for name, prompts in worse.items() if prompts} == {"FLUX.2-klein-base-4B": [3, 7]}


def test_the_page_is_what_the_command_writes(tmp_path: Path) -> None:
    """Red when docs/traces.md was edited by hand, or not generated again."""
    assert main(["--out", str(tmp_path / "page.md")]) == 0
    written = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert written == markdown(MODELS)
    if not PAGE.parent.is_dir():
        pytest.skip("the documentation is not part of this copy")
    assert written == PAGE.read_text(encoding="utf-8")
