"""Claims, and what the end of a call means."""

import pytest
from attempting import CHECKS, NOW, RECEIPT, TERMS, after, operation
from hypothesis import given
from hypothesis import strategies as st

from amends.core.attempt import backoff_ms, claim, ended, unknown
from amends.core.contract import Contract, Lookup, Mechanism
from amends.core.failures import Ambiguous, CallEnded, NotSent, Rejected
from amends.core.limits import BACKOFF_MS_MAX
from amends.core.matrix import Do, next_step
from amends.core.model import Operation
from amends.core.states import NOTHING_HAPPENED, Kind, State
from amends.core.terms import Recovery, Terms

ENDS = st.one_of(
    st.builds(CallEnded, st.text(max_size=20)),
    st.builds(Ambiguous, st.text(max_size=20)),
    st.builds(NotSent, st.text(max_size=20), code=st.sampled_from([None, "caller_cancelled", "connect"])),
    st.builds(Rejected, st.text(max_size=20), retryable=st.booleans(), status=st.sampled_from([None, 400, 429])),
    st.builds(Rejected, st.text(max_size=20), code=st.just("key_conflict"), status=st.just(422)),
)


def call_ended(current: Operation, end: CallEnded) -> Operation:
    return after(current, ended(current, TERMS, end, now=NOW, jitter=0.5))


@pytest.mark.requirement("R11", "B25")
@pytest.mark.parametrize("state", [State.AUTHORIZED, State.PREPARED, State.RETRYABLE])
def test_an_attempt_is_counted_when_it_is_claimed(state: State) -> None:
    current = operation(state, attempts=2 if state is State.RETRYABLE else 0)
    claimed = after(current, claim(current, checks=CHECKS, worker="w1", budget_ends_at=NOW + 20_000))
    assert claimed.state is State.COMMITTING
    assert claimed.attempts == current.attempts + 1
    assert claimed.claimed_by == "w1"
    assert claimed.wake_at == claimed.attempt_ends_at == NOW + 20_000


@pytest.mark.requirement("R10")
@pytest.mark.parametrize("state", [State.AUTHORIZED, State.PREPARED, State.RETRYABLE])
def test_a_failed_check_claims_nothing_and_is_named(state: State) -> None:
    current = operation(state, attempts=0)
    checks = {**CHECKS, "verifier": "no: not installed"}
    events = claim(current, checks=checks, worker="w1", budget_ends_at=NOW)
    assert [event.kind for event in events] == [Kind.PREPARATION_FAILED]
    assert events[0].facts["reason"] == "check:verifier"
    assert dict(events[0].facts["checks"]) == dict(checks), "each result is recorded"
    assert after(current, events).attempts == 0


@pytest.mark.requirement("R11", "R17", "G3")
@pytest.mark.parametrize("end", [CallEnded("?"), Ambiguous("reset by peer"), Ambiguous("500", status=500)])
def test_an_end_that_nobody_classified_is_unknown(end: CallEnded) -> None:
    found = call_ended(operation(), end)
    assert found.state is State.OUTCOME_UNKNOWN
    assert found.unknown_attempts == 1
    assert found.wake_at == NOW, "the first look is due at once"


@pytest.mark.requirement("R11", "G3", "A24", "C14")
def test_an_attempt_without_a_recorded_end_is_unknown_and_only_after_its_budget() -> None:
    current = operation(wake_at=NOW + 20_000)
    assert next_step(current, TERMS, now=NOW + 20_000).do is Do.WAIT
    assert next_step(current, TERMS, now=NOW + 20_001).do is Do.DECLARE_UNKNOWN
    found = after(current, unknown(current, TERMS, now=NOW + 20_001))
    assert (found.state, found.reason) == (State.OUTCOME_UNKNOWN, "no_result_recorded")


@pytest.mark.requirement("R17", "F14")
def test_a_refusal_is_not_committed_and_not_tried_again() -> None:
    found = call_ended(operation(), Rejected("bad amount", status=400))
    assert (found.state, found.wake_at) == (State.NOT_COMMITTED, None)


@pytest.mark.requirement("R17")
def test_a_refusal_for_now_is_tried_again_while_attempts_are_left() -> None:
    end = Rejected("slow down", status=429, retryable=True, retry_after_s=20.0)
    found = call_ended(operation(), end)
    assert (found.state, found.wake_at) == (State.RETRYABLE, NOW + 20_000)
    assert call_ended(operation(attempts=3), end).state is State.NOT_COMMITTED


@pytest.mark.requirement("R17", "C04")
def test_a_key_conflict_is_its_own_end_and_is_never_retried() -> None:
    found = call_ended(operation(), Rejected("key reused", status=422, code="key_conflict", retryable=True))
    assert (found.state, found.reason, found.wake_at) == (State.RECONCILIATION_REQUIRED, "key_conflict", None)


@pytest.mark.requirement("R17", "R18")
def test_a_call_that_never_left_is_retryable_until_its_attempts_are_spent() -> None:
    found = call_ended(operation(attempts=2), NotSent("connection refused"))
    assert found.state is State.RETRYABLE
    assert found.wake_at is not None
    assert found.wake_at > NOW
    spent = call_ended(operation(attempts=3), NotSent("connection refused"))
    assert (spent.state, spent.reason, spent.wake_at) == (State.NOT_COMMITTED, "attempts_spent", None)


def test_a_claim_whose_caller_was_cancelled_never_left_and_is_not_planned_again() -> None:
    found = call_ended(operation(), NotSent("cancelled in the queue", code="caller_cancelled"))
    assert (found.state, found.wake_at) == (State.RETRYABLE, None)


@pytest.mark.requirement("R11", "R18", "G3")
@given(ENDS, st.integers(1, 4))
def test_an_earlier_unknown_attempt_is_never_forgotten(end: CallEnded, attempts: int) -> None:
    """A later refusal or *never left* says nothing about the attempt before it."""
    current = operation(attempts=attempts, unknown_attempts=1)
    assert call_ended(current, end).state not in NOTHING_HAPPENED


@given(ENDS, st.integers(1, 4), st.integers(0, 2), st.booleans())
def test_every_end_leads_somewhere_legal(end: CallEnded, attempts: int, unknowns: int, late: bool) -> None:
    receipt = RECEIPT.to_json() if late else None
    found = call_ended(operation(attempts=attempts, unknown_attempts=unknowns, late_receipt=receipt), end)
    assert found.state is not State.COMMITTING
    if late:
        assert found.state not in NOTHING_HAPPENED


@pytest.mark.requirement("R18", "F13")
@given(
    st.integers(1, 10_000),
    st.integers(0, 10_000_000),
    st.integers(0, 10_000_000),
    st.floats(0, 1, exclude_max=True),
)
def test_backoff_stays_within_its_bounds(n: int, first: int, most: int, jitter: float) -> None:
    pause = backoff_ms(n, first_ms=first, most_ms=most, jitter=jitter)
    full = min(first * 2 ** min(n - 1, 30), most, BACKOFF_MS_MAX)
    assert 1 <= pause <= max(1, full)
    assert pause >= full // 2


@pytest.mark.requirement("F13")
def test_jitter_spreads_operations_that_failed_together() -> None:
    pauses = {backoff_ms(5, first_ms=1_000, most_ms=60_000, jitter=n / 1_000) for n in range(1_000)}
    assert len(pauses) == 1_000
    assert (min(pauses), max(pauses)) == (8_000, 15_992)


@pytest.mark.parametrize("jitter", [-0.1, 1.0, float("nan")])
def test_jitter_lies_in_its_interval(jitter: float) -> None:
    with pytest.raises(ValueError, match="jitter"):
        backoff_ms(1, first_ms=1, most_ms=1, jitter=jitter)


# --- known gaps: what G3 and R24 ask for and the core does not do yet --------------------------------


def test_evidence_of_an_earlier_attempt_stops_a_retry_after_never_left() -> None:
    current = operation(attempts=2, unknown_attempts=1, late_receipt=RECEIPT.to_json())
    found = call_ended(current, NotSent("connection refused"))
    assert next_step(found, TERMS, now=NOW + 10**6).do is not Do.CLAIM


def test_a_planned_repeat_whose_key_has_been_forgotten_meanwhile_is_not_sent() -> None:
    keyed = Contract(name="keyed", mechanism=Mechanism.IDEMPOTENCY_KEY, key_retention_s=86_400, lookup=Lookup.STRONG)
    sealed = Terms(
        action="refund",
        recovery=Recovery.COMPENSATABLE,
        version="v1",
        target_template="order:{id}",
        contract=keyed,
        has_lookup=True,
    )
    absent = operation(State.RETRYABLE, unknown_attempts=1, wake_at=NOW + 30_000, reason="fenced")
    assert next_step(absent, sealed, now=NOW + 2 * 86_400_000).do is not Do.CLAIM


def test_a_failed_check_before_a_fenced_repeat_is_not_proof_that_nothing_happened() -> None:
    absent = operation(State.RETRYABLE, unknown_attempts=1, wake_at=NOW, reason="fenced")
    events = claim(absent, checks={"intent_current": "no"}, worker="w1", budget_ends_at=NOW)
    assert after(absent, events).state not in NOTHING_HAPPENED


def test_a_failed_check_before_a_replay_leaves_it_unknown() -> None:
    lost = operation(State.OUTCOME_UNKNOWN, unknown_attempts=1, wake_at=NOW)
    events = claim(lost, checks={"intent_current": "no"}, worker="w1", budget_ends_at=NOW)
    assert after(lost, events).state not in NOTHING_HAPPENED | {State.COMMITTING}
