"""The transition table and what must be true of it, whatever it says."""

from pathlib import Path

import pytest

from amends.core.model import Event, IllegalTransition, Operation, RunState, apply
from amends.core.states import (
    BETWEEN_RUNS,
    NOTHING_HAPPENED,
    RECORDING,
    SETTLED,
    STANDS,
    TRANSITIONS,
    UNRESOLVED,
    Kind,
    State,
    mermaid,
    next_state,
)

DOC = Path(__file__).parents[2] / "docs/explanation/states.md"
FACTS = {"attempt": 1, "budget_ends_at": 20_000, "worker": "w1"}
OPERATION_KINDS = [kind for kind in Kind if kind.value.startswith("operation.") and kind is not Kind.PROPOSED]
RUN_KINDS = [kind for kind in Kind if not kind.value.startswith("operation.")]


def run_with(state: State) -> RunState:
    operation = Operation(
        id="op_1",
        key="am1_k",
        action="refund",
        recovery="compensatable",
        state=state,
        params_hash="h",
        effect_version="v1",
        identity="refund.1",
    )
    return RunState(id="run_1", version=3, operations={"op_1": operation})


def reachable(start: State) -> set[State]:
    seen, todo = {start}, [start]
    while todo:
        for target in TRANSITIONS[todo.pop()].values():
            if target not in seen:
                seen.add(target)
                todo.append(target)
    return seen


@pytest.mark.requirement("R9")
@pytest.mark.parametrize("kind", OPERATION_KINDS)
@pytest.mark.parametrize("state", State)
def test_every_pair_is_legal_by_the_table_or_refused_with_the_state_unchanged(state: State, kind: Kind) -> None:
    run = run_with(state)
    before = (run, dict(run.operations))
    event = Event(kind, "op_1", FACTS)
    expected = state if kind in RECORDING else TRANSITIONS[state].get(kind)
    if expected is None:
        with pytest.raises(IllegalTransition) as refused:
            apply(run, event, 5_000)
        assert (refused.value.state, refused.value.kind) == (state, kind)
    else:
        assert apply(run, event, 5_000).operations["op_1"].state is expected
    assert (run, dict(run.operations)) == before


@pytest.mark.requirement("R9")
@pytest.mark.parametrize("kind", RUN_KINDS)
@pytest.mark.parametrize("state", State)
def test_events_of_a_run_never_move_an_operation(state: State, kind: Kind) -> None:
    assert next_state(state, kind) is None
    run = run_with(state)
    if kind in BETWEEN_RUNS:
        moved = apply(run, Event(kind, "op_1", {"run": "run_2", "state": "committing"}), 5_000)
        assert moved.operations == run.operations
    else:
        with pytest.raises(IllegalTransition):
            apply(run, Event(kind, "op_1", FACTS), 5_000)


@pytest.mark.requirement("R9")
@pytest.mark.parametrize("state", State)
def test_an_operation_is_proposed_once(state: State) -> None:
    run = run_with(state)
    with pytest.raises(IllegalTransition):
        apply(run, Event(Kind.PROPOSED, "op_1", {}), 5_000)


@pytest.mark.requirement("R9")
def test_every_state_is_reachable_from_proposed() -> None:
    assert reachable(State.PROPOSED) == set(State)


@pytest.mark.requirement("R9")
def test_every_state_has_a_row_and_a_place() -> None:
    assert set(TRANSITIONS) == set(State)
    assert not SETTLED & UNRESOLVED
    assert NOTHING_HAPPENED | STANDS <= SETTLED
    assert not NOTHING_HAPPENED & STANDS


@pytest.mark.requirement("R11", "G3")
def test_only_a_claim_enters_committing() -> None:
    ways = {(state, kind) for state, row in TRANSITIONS.items() for kind, to in row.items() if to is State.COMMITTING}
    replay = State.OUTCOME_UNKNOWN  # G3 (b): without a lookup, where contract, retention and policy allow it
    assert ways == {(state, Kind.COMMIT_STARTED) for state in (State.PREPARED, State.RETRYABLE, replay)}


@pytest.mark.requirement("R11", "R22", "G3")
def test_after_a_claim_nothing_happened_is_said_only_on_confirmation() -> None:
    after_claim = reachable(State.COMMITTING)
    for state in after_claim - NOTHING_HAPPENED:
        for kind, target in TRANSITIONS[state].items():
            if target not in NOTHING_HAPPENED:
                continue
            if state is State.RETRYABLE:  # confirmed on the way in, see the next test
                assert kind in {Kind.RETRIES_EXHAUSTED, Kind.PREPARATION_FAILED, Kind.CANCELLED, Kind.EXPIRED}
            else:
                assert kind in {Kind.DESTINATION_REJECTED, Kind.RETRIES_EXHAUSTED}, (state, kind)
    assert not set(TRANSITIONS[State.OUTCOME_UNKNOWN].values()) & (NOTHING_HAPPENED - {State.NOT_COMMITTED})
    assert Kind.RETRIES_EXHAUSTED not in TRANSITIONS[State.COMMITTING]
    assert Kind.RETRIES_EXHAUSTED not in TRANSITIONS[State.OUTCOME_UNKNOWN]


@pytest.mark.requirement("R11", "R22", "G3")
def test_retryable_is_entered_only_by_proof() -> None:
    kinds = {kind for row in TRANSITIONS.values() for kind, target in row.items() if target is State.RETRYABLE}
    assert kinds == {Kind.NEVER_LEFT, Kind.ABSENT_CONFIRMED}
    from_lookup = {state for state, row in TRANSITIONS.items() if Kind.ABSENT_CONFIRMED in row}
    assert from_lookup == {State.RECONCILING}


@pytest.mark.requirement("R24")
@pytest.mark.parametrize("state", [State.RETRYABLE, State.NOT_COMMITTED, State.CANCELLED, State.EXPIRED])
def test_late_evidence_has_a_way_out_of_every_conclusion_that_nothing_happened(state: State) -> None:
    assert TRANSITIONS[state][Kind.RESPONSE_RECEIVED] is State.COMMITTED
    assert TRANSITIONS[state][Kind.RECONCILIATION_COMPLETED] is State.RECONCILED


@pytest.mark.requirement("R9")
def test_the_diagram_in_the_docs_is_the_generated_one() -> None:
    text = DOC.read_text(encoding="utf-8")
    assert f"<!-- generated: states -->\n```mermaid\n{mermaid()}\n```\n<!-- end: states -->" in text
