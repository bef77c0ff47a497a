"""The gate on vectors made by hand, and its properties on any vector."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teacache.errors import CoefficientsError, OptionError, ThresholdError
from teacache.policies import Decision, Gate, replay_gate

pytestmark = pytest.mark.unit

IDENTITY = (0.0, 0.0, 0.0, 1.0, 0.0)


def actions(changes, *, coefficients=IDENTITY, calibrated_range=None, threshold=1.0, **options):
    """Returns one letter per step: R reused, c computed."""
    reused = replay_gate(
        changes, coefficients=coefficients, calibrated_range=calibrated_range, threshold=threshold, **options
    )
    return "".join("R" if step else "c" for step in reused)


def decisions(changes, **options):
    """Returns the decisions of a gate over a whole run."""
    options = {"coefficients": IDENTITY, "calibrated_range": None, "threshold": 1.0} | options
    gate = Gate(len(changes) + 1, **options)
    return [gate.decide(step, change) for step, change in enumerate([None, *changes])]


def test_sum_of_predictions_is_compared_and_reset():
    """Red when the sum is not carried over reused steps, or not set to 0 by a computed one."""
    assert actions([0.5, 0.25, 0.25, 0.5, 0.5, 0.125, 0.5]) == "cRRcRcRc"


def test_sum_equal_to_the_threshold_computes():
    """Red when the comparison is <=."""
    assert actions([0.5, 0.5, 0.5], threshold=0.5) == "cccc"


def test_computed_steps_of_the_warmup_leave_no_sum():
    """Red when changes of forced steps are carried into the first free one."""
    assert actions([0.9, 0.9, 0.9, 0.1], warmup=3) == "cccRc"


def test_coefficients_are_highest_power_first():
    """Red when the polynomial is read lowest power first: 2 x^4 + 1 at 0.5 is 1.125, the reverse is 2.0625."""
    (_, decision, _) = decisions([0.5, 0.0], coefficients=(2, 0, 0, 0, 1), threshold=2)
    assert decision == Decision(True, "gate", 1.125, 1.125)


def test_change_below_the_range_counts_as_its_low_end():
    """Red when the low clamp is missing: 0.01 would be summed up instead of 0.25."""
    (_, second, third, _) = decisions([0.01, 0.01, 0.0], calibrated_range=(0.25, 0.5), threshold=0.4)
    assert second == Decision(True, "gate", 0.25, 0.25)
    assert third == Decision(False, "gate", 0.25, 0.5)


def test_change_above_the_range_computes_and_resets():
    """Red when the change is clamped from above, or when the sum survives the computed step."""
    run = decisions([0.3, 0.6, 0.3, 0.0], calibrated_range=(0.0, 0.5), coefficients=(0, 0, 0, 0, 0.1), threshold=0.15)
    assert [(decision.reuse, decision.reason) for decision in run] == [
        (False, "first"),
        (True, "gate"),
        (False, "range"),
        (True, "gate"),
        (False, "last"),
    ]
    assert run[2].predicted is None


def test_the_ends_of_the_range_belong_to_it():
    """Red when the upper comparison is >=."""
    assert actions([0.5, 0.25, 0.5], calibrated_range=(0.25, 0.5)) == "cRRc"


def test_without_a_range_nothing_is_clamped():
    """Red when an unknown range is taken for (0, something)."""
    assert actions([0.001, 40.0, 0.0], coefficients=(0, 0, 0, 0.001, 0)) == "cRRc"


def test_negative_prediction_counts_zero():
    """Red when a negative value lowers the sum: 0.9 - 5 + 0.2 would reuse the third step."""
    changes = [0.9, -5.0, 0.2, 0.0]
    assert actions(changes) == "cRRcc"
    assert decisions(changes)[2].predicted == 0.0


def test_at_most_max_reuse_in_a_row():
    """Red when the cap is off by one, or is not counted anew after the computed step."""
    assert actions([0.0] * 11) == "c" + "R" * 8 + "cR" + "c"
    assert actions([0.0] * 6, max_reuse=2) == "cRRcRRc"
    assert actions([0.0] * 3, max_reuse=0) == "cccc"
    assert decisions([0.0] * 4, max_reuse=2)[3].reason == "max_reuse"


def test_reasons_of_forced_steps():
    """Red when a forced step is booked as a decision of the gate."""
    reasons = [decision.reason for decision in decisions([0.0] * 6, warmup=2, cooldown=3)]
    assert reasons == ["first", "warmup", "gate", "gate", "cooldown", "cooldown", "last"]


def test_blocked_step_computes_and_resets():
    """Red when a step without a residual is reused, or when its sum lives on."""
    gate = Gate(6, coefficients=IDENTITY, calibrated_range=None, threshold=1.0)
    gate.decide(0, None)
    assert gate.decide(1, 0.75).reuse
    assert gate.decide(2, 0.125, blocked="shape") == Decision(False, "shape", 0.125, 0.875)
    assert gate.decide(3, 0.75).reuse


def test_overruled_reuse_resets():
    """Red when the gate goes on as if the step had been reused."""
    gate = Gate(9, coefficients=IDENTITY, calibrated_range=None, threshold=1.0, max_reuse=1)
    gate.decide(0, None)
    assert gate.decide(1, 0.75).reuse
    gate.overrule()
    assert gate.decide(2, 0.75) == Decision(True, "gate", 0.75, 0.75)


def test_missing_change_computes():
    """Red when a step whose signal is missing counts as unchanged."""
    gate = Gate(4, coefficients=IDENTITY, calibrated_range=None, threshold=1.0)
    gate.decide(0, None)
    assert gate.decide(1, None) == Decision(False, "no signal", None, 0.0)


@pytest.mark.parametrize("change", [math.nan, math.inf, -math.inf, 1e200])
@pytest.mark.parametrize("calibrated_range", [None, (0.0, 1e300)])
def test_non_finite_change_or_prediction_computes(change, calibrated_range):
    """Red when NaN passes `max`, -inf is clamped into the range, or a polynomial that overflows counts as small."""
    coefficients = (-1.0, 0.0, 0.0, 1.0, 0.0)
    run = decisions([change, 0.5, 0.0], coefficients=coefficients, calibrated_range=calibrated_range)
    assert (run[1].reason, run[1].predicted) == ("non-finite", None)
    assert run[2].reuse


@pytest.mark.parametrize("length", [0, 1])
def test_shortest_runs_are_computed(length):
    """Red when a run of one or two steps reuses its last step or fails."""
    assert actions([0.0] * length) == "c" * (length + 1)


@pytest.mark.parametrize("threshold", [-0.1, math.nan, math.inf, -math.inf, True, "0.2", None, [0.2], 10**400, 1j])
def test_wrong_threshold(threshold):
    """Red when a threshold that is no finite number from 0 up is taken."""
    with pytest.raises(ThresholdError, match=r"expected a finite number from 0 up .* Try threshold=0\.1"):
        actions([0.1], threshold=threshold)


@pytest.mark.parametrize(
    "coefficients",
    [None, 1.0, "12345", [1, 2, 3, 4], [1] * 6, [1, 2, 3, 4, math.nan], [math.inf, 0, 0, 0, 0], [True, 0, 0, 0, 0]],
)
def test_wrong_coefficients(coefficients):
    """Red when anything but five finite numbers is taken for a polynomial."""
    with pytest.raises(CoefficientsError, match="expected five finite numbers, highest power first"):
        actions([0.1], coefficients=coefficients)


@pytest.mark.parametrize("calibrated_range", [(0.5, 0.1), (0.1,), (0.1, math.nan), (0.1, 0.1), 0.3, "ab"])
def test_wrong_range(calibrated_range):
    """Red when a range that holds no change is taken."""
    with pytest.raises(OptionError, match=r"calibrated_range=.*low below high"):
        actions([0.1], calibrated_range=calibrated_range)


@pytest.mark.parametrize("name", ["warmup", "cooldown", "max_reuse"])
@pytest.mark.parametrize("value", [-1, True, 1.0, "1", None, math.nan])
def test_wrong_counts(name, value):
    """Red when an option is taken that is no count of steps; the message must name it and what was given."""
    with pytest.raises(OptionError, match=f"{name}={value!r}: expected a whole number from 0 up"):
        actions([0.1], **{name: value})


def test_numpy_numbers_are_taken():
    """Red when a scalar of numpy is refused as no number."""
    assert (
        actions(
            np.array([0.5, 0.25, 0.5], np.float32),
            coefficients=np.array(IDENTITY),
            calibrated_range=np.array([0.0, 1.0]),
            threshold=np.float32(1.0),
            warmup=np.int64(1),
        )
        == "cRRc"
    )


def test_several_prompts_at_once_are_refused():
    """Red when a table of prompts is read as one run."""
    with pytest.raises(OptionError, match="Replay several prompts one by one"):
        actions([[0.1, 0.2], [0.1, 0.2]])


changes = st.lists(st.floats(0, 2) | st.sampled_from([math.nan, math.inf]), max_size=40)
gates = st.fixed_dictionaries(
    {
        "coefficients": st.lists(st.floats(-50, 50), min_size=5, max_size=5),
        "calibrated_range": st.none()
        | st.tuples(st.floats(0, 0.5), st.floats(0, 1)).map(lambda ends: (ends[0], ends[0] + ends[1] + 0.01)),
        "threshold": st.floats(0, 5),
        "warmup": st.integers(0, 5),
        "cooldown": st.integers(0, 5),
        "max_reuse": st.integers(0, 10),
    }
)


@given(changes=changes, options=gates)
def test_rules_hold_on_any_run(changes, options):
    """Red when a forced step, a change that is no number or one above the range is reused, or the cap is passed."""
    reused = replay_gate(changes, **options)
    assert len(reused) == len(changes) + 1
    assert not any(reused[: max(options["warmup"], 1)])
    assert not any(reused[-max(options["cooldown"], 1) :])
    high = math.inf if options["calibrated_range"] is None else options["calibrated_range"][1]
    assert all(
        math.isfinite(change) and change <= high for reuse, change in zip(reused[1:], changes, strict=True) if reuse
    )
    longest = max(map(len, "".join("R" if reuse else "c" for reuse in reused).split("c")))
    assert longest <= options["max_reuse"]


@given(changes=changes, options=gates)
def test_threshold_zero_reuses_never(changes, options):
    """Red when threshold 0, which promises the plain picture, reuses a step."""
    assert not any(replay_gate(changes, **options | {"threshold": 0.0}))


@given(changes=changes, options=gates)
def test_gate_asked_step_by_step_equals_the_replay(changes, options):
    """Red when the replay, on which thresholds are chosen, follows other rules than the run; the sum explains it."""
    run = decisions(changes, **options)
    assert [decision.reuse for decision in run] == replay_gate(changes, **options)
    for decision in run:
        assert decision.accumulated >= 0
        assert not decision.reuse or decision.accumulated < options["threshold"]
        assert decision.reason != "gate" or decision.reuse == (decision.accumulated < options["threshold"])


@given(changes=changes, options=gates, higher=st.floats(0, 5))
def test_a_higher_threshold_never_shortens_the_first_reuse(changes, options, higher):
    """Red when the sum is compared the wrong way round. (Later steps may swap: the sums start anew elsewhere.)"""
    low, high = sorted([options["threshold"], higher])
    lower, upper = (replay_gate(changes, **options | {"threshold": threshold}) for threshold in (low, high))
    first = next((step for step, pair in enumerate(zip(lower, upper, strict=True)) if pair[0] != pair[1]), None)
    assert first is None or upper[first]
