"""What a receipt means: in time, late, or as evidence from outside."""

import pytest
from attempting import EXPECTED, KEY, NOW, RECEIPT, TERMS, after, operation
from hypothesis import given
from hypothesis import strategies as st

from amends.core.evidence import Receipt
from amends.core.model import Event, Operation
from amends.core.money import Money
from amends.core.response import COMPLETABLE, FINDABLE, found, responded
from amends.core.states import Kind, State


def respond(current: Operation, receipt: Receipt = RECEIPT, *, attempt: int = 1) -> list[Event]:
    return responded(current, TERMS, receipt, EXPECTED, attempt=attempt, now=NOW)


@pytest.mark.requirement("R13", "R19")
def test_a_response_in_time_is_committed_and_its_receipt_verified_in_one_append() -> None:
    events = respond(operation())
    assert [event.kind for event in events] == [Kind.RESPONSE_RECEIVED, Kind.POSTCONDITION_VERIFIED]
    assert events[0].content["receipt"] == RECEIPT.to_json()
    assert after(operation(), events).state is State.VERIFIED


@pytest.mark.requirement("R19")
def test_a_receipt_that_contradicts_the_intent_is_recorded_and_not_believed() -> None:
    events = respond(operation(), Receipt(resource="re_1", correlation=KEY, amount=Money(1, "USD")))
    assert [event.kind for event in events] == [Kind.RESPONSE_RECEIVED, Kind.POSTCONDITION_FAILED]
    found = after(operation(), events)
    assert found.state is State.RECONCILIATION_REQUIRED
    assert "amount" in (found.detail or "")


@pytest.mark.requirement("R19")
def test_an_incomplete_receipt_is_not_verified_by_itself() -> None:
    found = after(operation(), respond(operation(), Receipt(resource="", correlation=KEY)))
    assert found.state is State.COMMITTED


KNOWN = {State.COMMITTED, State.VERIFYING, State.VERIFIED, State.RECONCILED, State.IRREVERSIBLE_EFFECT}


@pytest.mark.requirement("R24", "F10")
@pytest.mark.parametrize("state", State)
def test_a_late_receipt_resolves_or_is_kept_in_every_state(state: State) -> None:
    current = operation(state, attempts=2, receipt=RECEIPT.to_json() if state in KNOWN else None, wake_at=NOW + 9)
    events = respond(current, attempt=1)
    found = after(current, events)
    assert events[0].content["receipt"] == RECEIPT.to_json()
    if state in FINDABLE:
        assert found.state is State.VERIFIED
        assert found.wake_at is None, "a planned retry is cancelled"
    else:
        assert found.state is state
        assert found.late_receipt == RECEIPT.to_json()
        assert found.wake_at == current.wake_at, "evidence beside changes no plan"


CONTRADICTIONS = [
    "duplicate",
    "several_matches",
    "found_not_as_expected",
    "receipt_mismatch",
    "partial",
    "key_conflict",
    "postcondition",
    "made_before_any_attempt",
]


@pytest.mark.requirement("R21", "R24", "R25", "G7")
@pytest.mark.parametrize("reason", CONTRADICTIONS)
@pytest.mark.parametrize("resource", ["re_1", "re_2"])
def test_a_contradiction_stays_for_a_person_whatever_receipt_comes_later(reason: str, resource: str) -> None:
    current = operation(State.RECONCILIATION_REQUIRED, attempts=2, reason=reason, receipt=RECEIPT.to_json())
    found = after(current, respond(current, Receipt(resource=resource, correlation=KEY), attempt=2))
    assert (found.state, found.reason) == (State.RECONCILIATION_REQUIRED, reason)
    assert found.late_receipt is not None, "what came is kept"


@pytest.mark.requirement("R20", "R24")
@pytest.mark.parametrize("reason", sorted(COMPLETABLE))
def test_what_lacked_only_proof_is_settled_by_a_late_receipt_of_the_same_record(reason: str) -> None:
    current = operation(State.RECONCILIATION_REQUIRED, attempts=1, reason=reason, receipt=RECEIPT.to_json())
    assert after(current, respond(current)).state is State.VERIFIED
    other = after(current, respond(current, Receipt(resource="re_2", correlation=KEY)))
    assert other.state is State.RECONCILIATION_REQUIRED


@pytest.mark.requirement("R24", "R21")
@pytest.mark.parametrize("state", sorted(KNOWN))
def test_a_late_receipt_of_another_record_is_a_duplicate(state: State) -> None:
    current = operation(state, attempts=2, receipt=RECEIPT.to_json())
    found = after(current, respond(current, Receipt(resource="re_2", correlation=KEY)))
    assert (found.state, found.reason) == (State.RECONCILIATION_REQUIRED, "duplicate")


@pytest.mark.requirement("R24", "R21", "B12")
def test_two_attempts_that_made_two_records_are_a_duplicate() -> None:
    second = operation(attempts=2, unknown_attempts=1)
    second = after(second, respond(second, attempt=1))
    assert second.state is State.COMMITTING
    found = after(second, respond(second, Receipt(resource="re_2", correlation=KEY), attempt=2))
    assert found.state is State.RECONCILIATION_REQUIRED


BEFORE_A_CLAIM = [
    State.PROPOSED,
    State.AWAITING_APPROVAL,
    State.AUTHORIZED,
    State.PREPARED,
    State.REJECTED,
    State.EXPIRED,
    State.CANCELLED,
    State.NOT_COMMITTED,
]


@pytest.mark.requirement("R24", "R21")
@pytest.mark.parametrize("state", BEFORE_A_CLAIM)
@pytest.mark.parametrize("records", [1, 2])
def test_a_record_of_what_was_never_sent_is_a_persons_and_stops_the_send(state: State, records: int) -> None:
    current = operation(state, attempts=0, wake_at=NOW)
    receipts = [Receipt(resource=f"re_{n}", correlation=KEY) for n in range(records)]
    now = after(current, found(current, TERMS, receipts, EXPECTED, now=NOW))
    assert (now.state, now.wake_at) == (State.RECONCILIATION_REQUIRED, None)
    again = after(now, found(now, TERMS, receipts, EXPECTED, now=NOW))
    assert (again.state, again.reason) == (State.RECONCILIATION_REQUIRED, now.reason)


@pytest.mark.requirement("R21", "R24", "R25")
def test_a_second_record_is_seen_beside_one_whose_verification_a_person_looks_into() -> None:
    current = operation(State.HUMAN_REQUIRED, reason="verifications_spent", receipt=RECEIPT.to_json())
    now = after(current, respond(current, Receipt(resource="re_2", correlation=KEY)))
    assert (now.state, now.reason) == (State.RECONCILIATION_REQUIRED, "duplicate")
    assert now.receipt == RECEIPT.to_json(), "the first record stays the known one"


@pytest.mark.requirement("R24", "R19", "G7")
@pytest.mark.parametrize("state", sorted({*KNOWN, State.COMMITTING}))
def test_contrary_evidence_of_a_known_effect_goes_to_a_person(state: State) -> None:
    current = operation(state, attempts=2, receipt=None if state is State.COMMITTING else RECEIPT.to_json())
    other = Receipt(resource="re_1", correlation=KEY, amount=Money(1, "USD"))
    now = after(current, respond(current, other, attempt=1))
    assert (now.state, now.reason) == (State.RECONCILIATION_REQUIRED, "receipt_mismatch")


@pytest.mark.requirement("R24")
@pytest.mark.parametrize("state", State)
def test_evidence_that_is_delivered_again_adds_nothing_for_ever(state: State) -> None:
    current = operation(state, attempts=2, receipt=RECEIPT.to_json() if state in KNOWN else None)
    sizes = []
    for _ in range(6):
        events = respond(current, Receipt(resource="re_1", correlation=KEY), attempt=1)
        current = after(current, events)
        sizes.append(len(events))
    assert sizes[3:] == [0, 0, 0]


RECORDS = st.sampled_from(
    [
        RECEIPT,
        Receipt(resource="re_1", correlation=KEY),
        Receipt(resource="re_2", correlation=KEY),
        Receipt(resource="re_1", correlation=KEY, amount=Money(1, "USD")),
    ]
)


@pytest.mark.requirement("R21", "R24", "R25", "G7")
@given(
    st.sampled_from(
        [State.COMMITTING, State.OUTCOME_UNKNOWN, State.RECONCILING, State.RETRYABLE, State.HUMAN_REQUIRED]
    ),
    st.lists(st.lists(RECORDS, min_size=1, max_size=2), min_size=1, max_size=6),
)
def test_in_whatever_order_evidence_comes_a_contradiction_is_never_called_verified(
    state: State, told: list[list[Receipt]]
) -> None:
    current = operation(state, attempts=2, unknown_attempts=1)
    for receipts in told:
        current = after(current, found(current, TERMS, receipts, EXPECTED, now=NOW))
    every = [receipt for receipts in told for receipt in receipts]
    several = any(len(receipts) > 1 for receipts in told) or len({receipt.resource for receipt in every}) > 1
    wrong = any(receipt.amount not in (None, EXPECTED.amount) for receipt in every)
    assert (current.state is State.VERIFIED) is not (several or wrong)
    assert (current.state is State.RECONCILIATION_REQUIRED) is (several or wrong)
