"""What an observation permits. The rule of G3 is written here a second time, on its own."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amends.core.contract import Contract, Lookup, Mechanism
from amends.core.evidence import Absent, Expectation, Found, Receipt, Unsure
from amends.core.model import Operation, RunState, apply
from amends.core.money import Money
from amends.core.reconcile import Absence, judge_absence, observed, replay_allowed, start_lookup
from amends.core.states import Kind, State
from amends.core.terms import Recovery, Retry, Terms

CLAIMED, ENDS = 1_000_000, 1_020_000
KEY = "am1_key"
EXPECTED = Expectation(correlation=KEY, amount=Money(8500, "USD"), creator="shop", states=("succeeded",))
RIGHT = Receipt(resource="re_1", correlation=KEY, amount=Money(8500, "USD"), creator="shop", state="succeeded")


def operation(**changes: Any) -> Operation:
    values: dict[str, Any] = {
        "id": "op_1",
        "key": KEY,
        "action": "refund",
        "recovery": "compensatable",
        "state": State.RECONCILING,
        "params_hash": "h",
        "effect_version": "v1",
        "identity": "refund.1",
        "attempts": 1,
        "unknown_attempts": 1,
        "first_claim_at": CLAIMED,
        "attempt_at": CLAIMED,
        "attempt_ends_at": ENDS,
        "lookups": 1,
    }
    return Operation(**{**values, **changes})


def terms(contract: Contract, **changes: Any) -> Terms:
    return Terms(
        **{
            "action": "refund",
            "recovery": Recovery.COMPENSATABLE,
            "version": "v1",
            "target_template": "order:{id}",
            "contract": contract,
            "has_lookup": True,
            **changes,
        }
    )


def contract(**changes: Any) -> Contract:
    return Contract(**{"name": "fake", "lookup": Lookup.STRONG, **changes})


KEYED = {"mechanism": Mechanism.IDEMPOTENCY_KEY, "key_retention_s": 86_400.0}
EVENTUAL = {"lookup": Lookup.EVENTUAL, "lookup_lag_s": 30.0}


@pytest.mark.requirement("R22", "G3", "E01", "E11")
@pytest.mark.parametrize(
    ("facts", "complete", "read_at", "absence"),
    [
        ({}, False, ENDS + 10**9, Absence.INCOMPLETE),
        ({**KEYED, "late_arrival_bound_s": 0.0}, False, ENDS + 10**9, Absence.INCOMPLETE),
        ({"lookup": Lookup.NONE, **KEYED}, True, ENDS + 10**9, Absence.NOT_AUTHORITATIVE),
        ({"lookup": Lookup.EVENTUAL, **KEYED}, True, ENDS + 10**9, Absence.NOT_AUTHORITATIVE),
        (KEYED, True, ENDS, Absence.TOO_EARLY),
        (KEYED, True, ENDS + 1, Absence.HARMLESS_TO_REPEAT),
        ({**EVENTUAL, **KEYED}, True, ENDS + 30_000, Absence.TOO_EARLY),
        ({**EVENTUAL, **KEYED}, True, ENDS + 30_001, Absence.HARMLESS_TO_REPEAT),
        (EVENTUAL, True, ENDS + 30_001, Absence.NOTHING_MAKES_IT_SAFE),
        ({}, True, ENDS + 1, Absence.NOTHING_MAKES_IT_SAFE),
        ({"late_arrival_bound_s": 60.0}, True, ENDS + 60_000, Absence.WAIT_FOR_BOUND),
        ({"late_arrival_bound_s": 60.0}, True, ENDS + 60_001, Absence.NEVER_HAPPENED),
        ({**EVENTUAL, "late_arrival_bound_s": 60.0}, True, ENDS + 90_000, Absence.WAIT_FOR_BOUND),
        ({**EVENTUAL, "late_arrival_bound_s": 60.0}, True, ENDS + 90_001, Absence.NEVER_HAPPENED),
        ({"mechanism": Mechanism.COMPARE_AND_SET}, True, ENDS + 1, Absence.HARMLESS_TO_REPEAT),
        ({"mechanism": Mechanism.CONDITIONAL_CREATE}, True, ENDS + 10**12, Absence.HARMLESS_TO_REPEAT),
        ({"mechanism": Mechanism.IDEMPOTENCY_KEY}, True, ENDS + 1, Absence.NOTHING_MAKES_IT_SAFE),
        (KEYED, True, CLAIMED + 86_400_000 - 20_000, Absence.HARMLESS_TO_REPEAT),
        (KEYED, True, CLAIMED + 86_400_000 - 19_999, Absence.NOTHING_MAKES_IT_SAFE),
    ],
)
def test_what_absent_means(facts: dict[str, Any], complete: bool, read_at: int, absence: Absence) -> None:
    sealed = terms(contract(**facts))
    judged = judge_absence(operation(), sealed, Absent(complete=complete), read_at=read_at, now=read_at)
    assert judged.absence is absence
    if absence in (Absence.TOO_EARLY, Absence.WAIT_FOR_BOUND):
        assert judged.look_at is not None
        assert judged.look_at > read_at, "looking again must be later than the look that was too early"
    else:
        assert judged.look_at is None


SECONDS = st.one_of(st.none(), st.integers(0, 100_000).map(float))
CONTRACTS = st.builds(
    Contract,
    name=st.just("any"),
    mechanism=st.sampled_from(Mechanism),
    key_retention_s=SECONDS,
    replays_success=st.booleans(),
    lookup=st.sampled_from(Lookup),
    lookup_lag_s=SECONDS,
    late_arrival_bound_s=SECONDS,
)
REPEATING = {Kind.ABSENT_CONFIRMED, Kind.NEVER_LEFT, Kind.COMMIT_STARTED}


def harmless(facts: Contract, timeout_ms: int, read_at: int, now: int) -> bool:
    """G3 (a), from its text and not from the code."""
    if facts.mechanism in (Mechanism.COMPARE_AND_SET, Mechanism.CONDITIONAL_CREATE):
        return True
    lag = facts.lookup_lag_s or 0
    if facts.late_arrival_bound_s is not None and read_at > ENDS + 1000 * (lag + facts.late_arrival_bound_s):
        return True
    if facts.mechanism is not Mechanism.IDEMPOTENCY_KEY or facts.key_retention_s is None:
        return False
    forgotten_at = CLAIMED + 1000 * facts.key_retention_s
    return now + timeout_ms + 1000 * (facts.late_arrival_bound_s or 0) <= forgotten_at


def counts(facts: Contract, complete: bool, read_at: int) -> bool:
    """R22, from its text and not from the code."""
    if not complete or facts.lookup is Lookup.NONE:
        return False
    lag = facts.lookup_lag_s
    if lag is None and facts.lookup is Lookup.EVENTUAL:
        return False
    return read_at > ENDS + 1000 * (lag or 0)


@pytest.mark.requirement("R22", "G3", "E01", "E04", "E11")
@given(CONTRACTS, st.booleans(), st.integers(-50_000, 200_000_000), st.integers(0, 10_000_000), st.integers(1, 4))
@example(contract(), True, 10**9, 0, 1)
def test_absent_permits_a_repeat_only_under_g3(
    facts: Contract, complete: bool, after_end: int, took: int, attempts: int
) -> None:
    read_at = ENDS + after_end
    now = read_at + took
    sealed = terms(facts, retry=Retry(attempts=3))
    events = observed(
        operation(attempts=attempts),
        sealed,
        Absent(complete=complete),
        EXPECTED,
        read_at=read_at,
        now=now,
        jitter=0.5,
    )
    allowed = counts(facts, complete, read_at) and harmless(facts, sealed.execution_timeout_ms, read_at, now)
    repeats = any(event.kind in REPEATING for event in events)
    assert repeats <= allowed, "a repeat without a fence and without a passed bound"
    assert repeats == (allowed and attempts < 3)
    said_never = any(event.kind is Kind.RETRIES_EXHAUSTED for event in events)
    assert said_never <= (counts(facts, complete, read_at) and facts.late_arrival_bound_s is not None)


@pytest.mark.requirement("G3", "C01", "C02")
@given(CONTRACTS, st.booleans(), st.integers(0, 200_000_000), st.integers(0, 6))
def test_without_a_lookup_a_replay_needs_contract_retention_bound_and_policy(
    facts: Contract, policy: bool, after_claim: int, attempts: int
) -> None:
    now = CLAIMED + after_claim
    sealed = terms(facts, replay_without_lookup=policy, retry=Retry(attempts=3), has_lookup=False)
    safe = (
        policy
        and attempts < 3
        and facts.mechanism is Mechanism.IDEMPOTENCY_KEY
        and facts.replays_success
        and facts.key_retention_s is not None
        and facts.late_arrival_bound_s is not None
        and CLAIMED + 1000 * facts.key_retention_s
        >= now + sealed.execution_timeout_ms + 1000 * facts.late_arrival_bound_s
    )
    assert replay_allowed(operation(attempts=attempts), sealed, now=now) is safe


@pytest.mark.requirement("G3")
def test_replay_without_a_lookup_is_off_by_default() -> None:
    facts = contract(**KEYED, replays_success=True, late_arrival_bound_s=0.0)
    assert not replay_allowed(operation(), terms(facts), now=ENDS)


def look(observation: Any, **changes: Any) -> list[Any]:
    sealed = terms(contract(**KEYED), **changes)
    return observed(operation(), sealed, observation, EXPECTED, read_at=ENDS + 1, now=ENDS + 50, jitter=0.0)


@pytest.mark.requirement("R21", "E07", "E15")
def test_one_record_that_is_ours_is_adopted() -> None:
    events = look(Found(RIGHT))
    assert [event.kind for event in events] == [Kind.RECONCILIATION_COMPLETED, Kind.POSTCONDITION_VERIFIED]
    assert events[0].content["receipt"] == RIGHT.to_json()
    verifying = look(Found(RIGHT), has_verify=True)
    assert [event.kind for event in verifying] == [Kind.RECONCILIATION_COMPLETED, Kind.VERIFICATION_STARTED]


@pytest.mark.requirement("R21", "C03")
@given(st.integers(2, 100))
def test_several_matches_are_a_duplicate_and_none_is_adopted(matches: int) -> None:
    events = look(Found(*[RIGHT] * matches))
    assert [event.kind for event in events] == [Kind.DUPLICATE_FOUND]
    assert len(events[0].content["evidence"]) == matches, "all of them are kept, not the first"


@pytest.mark.requirement("R21", "R19")
@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"correlation": None}, "correlation"),
        ({"correlation": ""}, "correlation"),
        ({"correlation": "am1_other"}, "correlation"),
        ({"amount": Money(8501, "USD")}, "amount"),
        ({"amount": Money(8500, "EUR")}, "amount"),
        ({"creator": "someone"}, "creator"),
        ({"state": "failed"}, "state"),
        ({"resource": ""}, "resource"),
    ],
)
def test_a_record_that_is_not_ours_or_not_as_intended_is_not_adopted(change: dict[str, Any], word: str) -> None:
    values = {name: getattr(RIGHT, name) for name in ("resource", "correlation", "amount", "creator", "state")}
    events = look(Found(Receipt(**{**values, **change})))
    assert [event.kind for event in events] == [Kind.MISMATCH_FOUND]
    assert word in events[0].content["detail"]
    assert events[0].facts["exists"] is True
    assert events[0].facts["as_expected"] is False


@pytest.mark.requirement("R22", "E13")
@given(CONTRACTS, st.integers(0, 10**9))
def test_a_capped_read_is_could_not_tell_and_never_absent(facts: Contract, after_end: int) -> None:
    read_at = ENDS + after_end
    events = observed(
        operation(), terms(facts), Absent(complete=False), EXPECTED, read_at=read_at, now=read_at, jitter=0.0
    )
    assert [event.kind for event in events] == [Kind.RECONCILIATION_UNSURE]
    assert events[0].facts["reason"] == "incomplete_read"


@pytest.mark.requirement("R21", "R25")
@pytest.mark.parametrize("observation", [Unsure("503"), Absent(complete=False)])
def test_when_the_lookups_are_spent_a_person_is_asked(observation: Any) -> None:
    sealed = terms(contract(**KEYED), lookups=3)
    spent = observed(operation(lookups=3), sealed, observation, EXPECTED, read_at=ENDS + 1, now=ENDS + 1, jitter=0.0)
    assert [event.kind for event in spent] == [Kind.HUMAN_ESCALATED]
    assert "wake_at" not in spent[0].facts


@pytest.mark.requirement("R21", "R25")
def test_absent_with_neither_fence_nor_bound_goes_to_a_person_at_once() -> None:
    events = observed(
        operation(), terms(contract()), Absent(complete=True), EXPECTED, read_at=ENDS + 1, now=ENDS + 1, jitter=0.0
    )
    assert [(event.kind, event.facts["reason"]) for event in events] == [
        (Kind.HUMAN_ESCALATED, "no_fence_and_no_bound")
    ]


def test_the_destination_may_ask_for_a_longer_pause() -> None:
    events = look(Unsure("busy", retry_after_s=90.0))
    assert events[0].facts["wake_at"] == ENDS + 50 + 90_000


@pytest.mark.requirement("R11")
def test_a_lookup_is_counted_before_it_runs() -> None:
    waiting = operation(state=State.OUTCOME_UNKNOWN, lookups=0)
    events = start_lookup(waiting, terms(contract()), now=ENDS)
    run = RunState(id="run_1", operations={"op_1": waiting})
    for event in events:
        run = apply(run, event, ENDS)
    assert run.operations["op_1"].lookups == 1
    assert run.operations["op_1"].wake_at == ENDS + 10_000, "a lookup that kills its process is found again"


@given(
    CONTRACTS,
    st.sampled_from([Found(RIGHT), Found(RIGHT, RIGHT), Unsure("x"), Absent(complete=True), Absent(complete=False)]),
    st.integers(0, 10**8),
    st.integers(1, 5),
    st.integers(1, 13),
)
def test_whatever_is_observed_the_events_are_legal(
    facts: Contract, observation: Any, after_end: int, attempts: int, lookups: int
) -> None:
    current = operation(attempts=attempts, lookups=lookups)
    run = RunState(id="run_1", operations={"op_1": current})
    read_at = ENDS + after_end
    events = observed(current, terms(facts), observation, EXPECTED, read_at=read_at, now=read_at, jitter=0.3)
    for event in events:
        run = apply(run, event, read_at)
    assert run.operations["op_1"].state is not State.RECONCILING


@pytest.mark.requirement("R25")
@pytest.mark.parametrize(
    ("facts", "said", "changes", "reason"),
    [
        ({}, Absent(complete=True), {}, "no_fence_and_no_bound"),
        (KEYED, Absent(complete=True), {"attempts": Retry().attempts}, "attempts_spent"),
        (KEYED, Unsure("no"), {"lookups": 12}, "lookups_spent"),
    ],
)
def test_whatever_is_handed_over_names_whom_it_is_handed_to(
    facts: dict[str, Any], said: Absent | Unsure, changes: dict[str, Any], reason: str
) -> None:
    owned = terms(contract(**facts), owner="billing", escalate_to="billing-oncall")
    [event] = observed(operation(**changes), owned, said, EXPECTED, read_at=ENDS + 1, now=ENDS + 1, jitter=0.5)
    assert (event.kind, event.facts["reason"]) == (Kind.HUMAN_ESCALATED, reason)
    assert event.facts["to"] == "billing-oncall"
