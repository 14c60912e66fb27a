"""How a run has ended: a function of its facts, the least settled counts, never clean over something open."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends.core.end_state import EndState
from amends.core.endings import UNSETTLED, Ending, ending_of, settle
from amends.core.model import Operation, RunState, apply
from amends.core.states import NOTHING_HAPPENED, UNRESOLVED, Kind, State

CLEAN = {Ending.COMPLETED, Ending.FAILED_CLEAN, Ending.FAILED_COMPENSATED}
HOW = st.sampled_from([None, "returned", "raised"])


def operation(state: State, *, recovery: str = "compensatable", wake_at: int | None = None) -> Operation:
    return Operation(
        id="op",
        key="k",
        action="a",
        recovery=recovery,
        state=state,
        params_hash="h",
        effect_version="v",
        identity="i",
        wake_at=wake_at,
    )


OPERATIONS = st.lists(
    st.builds(
        operation,
        st.sampled_from(State),
        recovery=st.sampled_from(["reversible", "compensatable", "irreversible", "unknown"]),
        wake_at=st.sampled_from([None, 5]),
    ),
    max_size=4,
)


def run_of(operations: list[Operation], closed: str | None, **changes: object) -> RunState:
    named = {f"op_{n}": op._replace(id=f"op_{n}") for n, op in enumerate(operations)}
    return RunState(id="run_1", operations=named, closed=closed)._replace(**changes)


@pytest.mark.requirement("R36", "G7")
@given(OPERATIONS, HOW)
def test_the_order_of_operations_does_not_matter(operations: list[Operation], closed: str | None) -> None:
    endings = {ending_of(run_of(list(order), closed)) for order in itertools.permutations(operations)}
    assert len(endings) == 1


@pytest.mark.requirement("R36", "G7")
@given(OPERATIONS, HOW)
def test_a_run_is_never_clean_over_an_unresolved_operation(operations: list[Operation], closed: str | None) -> None:
    ending = ending_of(run_of(operations, closed))
    if any(op.state in UNRESOLVED for op in operations):
        assert ending not in CLEAN
        assert ending is None or ending in UNSETTLED


@pytest.mark.requirement("R36", "G7")
@given(OPERATIONS, HOW)
def test_a_run_that_something_is_going_on_in_has_no_ending(operations: list[Operation], closed: str | None) -> None:
    moving = {State.COMMITTING, State.COMMITTED, State.VERIFYING, State.RECONCILED}
    if any(op.state in moving or (op.wake_at and op.state in UNRESOLVED) for op in operations):
        assert ending_of(run_of(operations, closed)) is None


@pytest.mark.requirement("R36", "R25")
@pytest.mark.parametrize("closed", [None, "returned", "raised"])
@pytest.mark.parametrize(
    ("state", "ending"),
    [
        (State.OUTCOME_UNKNOWN, Ending.UNKNOWN),
        (State.RECONCILING, Ending.UNKNOWN),
        (State.HUMAN_REQUIRED, Ending.UNKNOWN),
        (State.RECONCILIATION_REQUIRED, Ending.FAILED_RECONCILIATION_REQUIRED),
        (State.COMPENSATION_FAILED, Ending.FAILED_RECONCILIATION_REQUIRED),
    ],
)
def test_an_unresolved_operation_at_rest_decides_the_ending(state: State, ending: Ending, closed: str | None) -> None:
    others = [operation(State.VERIFIED), operation(State.NOT_COMMITTED), operation(State.COMPENSATED)]
    assert ending_of(run_of([*others, operation(state)], closed)) is ending


@pytest.mark.requirement("R36")
def test_the_least_settled_wins() -> None:
    states = [State.RECONCILIATION_REQUIRED, State.OUTCOME_UNKNOWN, State.VERIFIED]
    for order in itertools.permutations(states):
        assert ending_of(run_of([operation(state) for state in order], "returned")) is Ending.UNKNOWN


@pytest.mark.requirement("R36")
@pytest.mark.parametrize(
    ("operations", "closed", "ending"),
    [
        ([], "returned", Ending.COMPLETED),
        ([], "raised", Ending.FAILED_CLEAN),
        ([], None, None),
        ([operation(State.VERIFIED)], "returned", Ending.COMPLETED),
        ([operation(State.VERIFIED)], None, None),
        ([operation(State.NOT_COMMITTED), operation(State.REJECTED)], "raised", Ending.FAILED_CLEAN),
        ([operation(State.PROPOSED)], "raised", Ending.FAILED_CLEAN),
        ([operation(State.COMPENSATED)], "raised", Ending.FAILED_COMPENSATED),
        ([operation(State.VERIFIED)], "raised", Ending.FAILED_RECONCILIATION_REQUIRED),
        (
            [operation(State.VERIFIED, recovery="irreversible")],
            "raised",
            Ending.FAILED_WITH_IRREVERSIBLE_EFFECT,
        ),
        ([operation(State.VERIFIED, recovery="unknown")], "raised", Ending.FAILED_WITH_IRREVERSIBLE_EFFECT),
    ],
)
def test_endings_by_facts(operations: list[Operation], closed: str | None, ending: Ending | None) -> None:
    assert ending_of(run_of(operations, closed)) is ending


@pytest.mark.requirement("R36", "G7")
@given(OPERATIONS)
def test_failed_clean_means_that_nothing_happened(operations: list[Operation]) -> None:
    if ending_of(run_of(operations, "raised")) is Ending.FAILED_CLEAN:
        before = {State.PROPOSED, State.AUTHORIZED, State.PREPARED, State.RETRYABLE}
        assert all(op.state in NOTHING_HAPPENED | before for op in operations)


@pytest.mark.requirement("R36")
def test_an_end_state_that_does_not_hold_is_never_completed() -> None:
    run = run_of([operation(State.VERIFIED)], "returned", end_state=EndState("failed"))
    assert ending_of(run) is Ending.FAILED_RECONCILIATION_REQUIRED


@pytest.mark.requirement("R36", "G7")
@given(OPERATIONS, HOW, st.sampled_from([None, *(ending.value for ending in Ending)]))
def test_the_recorded_ending_follows_the_facts_and_is_then_left_alone(
    operations: list[Operation], closed: str | None, recorded: str | None
) -> None:
    run = run_of(operations, closed, ending=recorded)
    events = settle(run)
    for event in events:
        run = apply(run, event, 9)
    assert run.ending == ending_of(run)
    assert settle(run) == []
    assert len(events) <= 1


@pytest.mark.requirement("R36", "G7", "R24")
def test_later_evidence_reopens() -> None:
    run = run_of([operation(State.COMMITTED)], "raised", ending=Ending.FAILED_CLEAN.value)
    (event,) = settle(run)
    assert event.kind is Kind.RUN_REOPENED
    reopened = apply(run, event, 9)
    assert reopened.ending is None
    assert reopened.closed == "raised", "the program is done; only the facts are open again"
