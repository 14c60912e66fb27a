"""What is withdrawn, and what must not be: an attempt whose outcome was never known did not "not happen"."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends.core.expiry import WITHDRAWABLE, expire
from amends.core.model import NEVER_HAPPENED, Event, IllegalTransition, Operation, RunState, apply
from amends.core.reconcile import Absence
from amends.core.states import NOTHING_HAPPENED, Kind, State


def operation(state: State, *, unknown: int = 0, reason: str = "") -> Operation:
    return Operation(
        id="op",
        key="k",
        action="charge",
        recovery="compensatable",
        state=state,
        params_hash="h",
        effect_version="v",
        identity="i",
        attempts=unknown,
        unknown_attempts=unknown,
        reason=reason,
    )


def run_of(one: Operation) -> RunState:
    return RunState(id="run_1", operations={"op": one}, deadline_at=5)


@pytest.mark.requirement("R18", "R25", "G3", "G10")
@pytest.mark.parametrize("kind", [Kind.CANCELLED, Kind.EXPIRED])
@pytest.mark.parametrize("reason", [Absence.HARMLESS_TO_REPEAT.value, "never_left", ""])
def test_what_may_still_arrive_late_can_be_neither_cancelled_nor_expired(kind: Kind, reason: str) -> None:
    run = run_of(operation(State.RETRYABLE, unknown=1, reason=reason))
    with pytest.raises(IllegalTransition):
        apply(run, Event(kind, "op"), 9)


@pytest.mark.requirement("R18", "G3")
@pytest.mark.parametrize("kind", [Kind.CANCELLED, Kind.EXPIRED])
@pytest.mark.parametrize(("unknown", "reason"), [(0, "never_left"), (1, NEVER_HAPPENED)])
def test_what_surely_did_not_happen_can(kind: Kind, unknown: int, reason: str) -> None:
    run = apply(run_of(operation(State.RETRYABLE, unknown=unknown, reason=reason)), Event(kind, "op"), 9)
    assert run.operations["op"].state in NOTHING_HAPPENED


@pytest.mark.requirement("R18", "R36", "G10")
@given(st.sampled_from(State), st.integers(0, 2), st.sampled_from(["", "fenced", NEVER_HAPPENED, "never_left"]))
def test_a_deadline_withdraws_what_is_not_on_its_way_and_hands_over_what_is_in_doubt(
    state: State, unknown: int, reason: str
) -> None:
    before = operation(state, unknown=unknown if state not in WITHDRAWABLE - {State.RETRYABLE} else 0, reason=reason)
    run = run_of(before)
    for event in expire(run, lambda action: f"owner of {action}"):
        run = apply(run, event, 9)
    after = run.operations["op"]
    if state not in WITHDRAWABLE:
        assert after == before
    elif before.in_doubt:
        assert after.state is State.HUMAN_REQUIRED
    else:
        assert after.state is State.EXPIRED
    assert expire(run, str) == [], "once is enough"
