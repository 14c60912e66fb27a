"""A fold makes of several events what one event after another makes, and keeps what is unfinished at hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends.core.endings import ending_of
from amends.core.model import Event, IllegalTransition, RunState, advance, apply, fold
from amends.core.states import RECORDING, TRANSITIONS, Kind, State

PROPOSED = {
    "key": "am1_k",
    "action": "refund",
    "recovery": "compensatable",
    "params_hash": "h",
    "effect_version": "v1",
    "identity": "refund.1",
    "arguments": 0,
}
FACTS = {"attempt": 1, "budget_ends_at": 20_000, "worker": "w1"}


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Legal events of up to three operations of one run, in any order between them."""
    states: dict[str, State] = {}
    events: list[Event] = []
    for _ in range(draw(st.integers(0, 20))):
        name = draw(st.sampled_from(["op_1", "op_2", "op_3", ""]))
        if not name:
            how = draw(st.sampled_from(["returned", "raised"]))
            events.append(Event(Kind.RUN_CLOSED, "", {"how": how}))
        elif name not in states:
            states[name] = State.PROPOSED
            events.append(Event(Kind.PROPOSED, name, PROPOSED))
        else:
            kind = draw(st.sampled_from([*TRANSITIONS[states[name]], *RECORDING]))
            states[name] = TRANSITIONS[states[name]].get(kind, states[name])
            wake = draw(st.sampled_from([{}, {"wake_at": 7}]))
            events.append(Event(kind, name, {**FACTS, **wake}))
    return events


def by_scan(state: RunState) -> RunState:
    return state._replace(gathered=None)


@pytest.mark.requirement("G9")
@given(histories())
def test_events_folded_together_make_what_they_make_one_by_one(events: list[Event]) -> None:
    one_by_one = RunState("run_1")
    for event in events:
        one_by_one = apply(one_by_one, event, 1_000)
    assert advance(RunState("run_1"), events, 1_000) == (one_by_one if events else one_by_one._replace(gathered={}))
    assert fold(RunState("run_1"), events, 1_000).version == 1


@given(histories())
def test_what_is_gathered_is_what_a_search_finds_and_decides_the_same(events: list[Event]) -> None:
    state = RunState("run_1")
    for event in events:
        state = apply(state, event, 1_000)
        assert state.unfinished == by_scan(state).unfinished
        assert state.wake_at == by_scan(state).wake_at
        assert ending_of(state) == ending_of(by_scan(state))


@pytest.mark.requirement("R9")
@given(histories())
def test_a_refused_event_among_others_leaves_the_state_as_it_was(events: list[Event]) -> None:
    state = advance(RunState("run_1"), events, 1_000)
    kept = (dict(state.operations), dict(state.unfinished))
    with pytest.raises(IllegalTransition):
        advance(state, [Event(Kind.PROPOSED, "op_9", PROPOSED), Event(Kind.PROPOSED, "op_9", PROPOSED)], 2_000)
    assert (state.operations, state.unfinished) == kept
