"""Finding out: what an observation of the destination permits (R21, R22, G3).

*Found* may be believed at once, if it is exactly one record and that record is ours. *Absent* is the
dangerous answer. It counts only if the read was authoritative and complete and was started after the
attempt could no longer be on its way to being sent (its budget) and after the destination's declared
lag. And even then "not there yet" is not "never": a repeat needs something that makes a late original
harmless — a fence at the destination, or a declared bound on late arrival that has passed before the
read began. Without either, a person.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from amends.core import verify
from amends.core.backoff import backoff_ms
from amends.core.contract import Lookup, Mechanism
from amends.core.evidence import Absent, Expectation, Found, Observation, Unsure, mismatches, missing
from amends.core.failures import clip
from amends.core.limits import BACKOFF_MS_MAX
from amends.core.model import NEVER_HAPPENED, Event, Operation
from amends.core.states import Kind
from amends.core.terms import Terms


class Absence(StrEnum):
    """What "the lookup did not find it" means, in order of precedence."""

    INCOMPLETE = "incomplete_read"
    NOT_AUTHORITATIVE = "lookup_consistency_undeclared"
    TOO_EARLY = "read_before_settled"
    HARMLESS_TO_REPEAT = "fenced"
    NEVER_HAPPENED = NEVER_HAPPENED
    WAIT_FOR_BOUND = "late_arrival_bound_open"
    NOTHING_MAKES_IT_SAFE = "no_fence_and_no_bound"


@dataclass(frozen=True, slots=True)
class Judgement:
    """``absence`` and, where waiting helps, the instant after which to look again."""

    absence: Absence
    look_at: int | None = None


def judge_absence(operation: Operation, terms: Terms, absent: Absent, *, read_at: int, now: int) -> Judgement:
    """What a lookup that began at ``read_at`` and found nothing allows at ``now``."""
    contract = terms.contract
    if not absent.complete:
        return Judgement(Absence.INCOMPLETE)
    lag = contract.lookup_lag_ms
    if contract.lookup is Lookup.NONE or lag is None:
        return Judgement(Absence.NOT_AUTHORITATIVE)
    settled_at = operation.attempt_ends_at + lag
    if read_at <= settled_at:
        return Judgement(Absence.TOO_EARLY, settled_at + 1)
    bound = contract.late_arrival_bound_ms
    if bound is not None and read_at > settled_at + bound:
        return Judgement(Absence.NEVER_HAPPENED)
    if fenced(operation, terms, now=now):
        return Judgement(Absence.HARMLESS_TO_REPEAT)
    if bound is not None:
        return Judgement(Absence.WAIT_FOR_BOUND, settled_at + bound + 1)
    return Judgement(Absence.NOTHING_MAKES_IT_SAFE)


def fenced(operation: Operation, terms: Terms, *, now: int) -> bool:
    """The destination itself would refuse or absorb a second effect of this operation, sent now."""
    if terms.fenced_by_state:
        return True
    if terms.contract.mechanism is not Mechanism.IDEMPOTENCY_KEY:
        return False
    return _key_still_held(operation, terms, now=now, late_ms=terms.contract.late_arrival_bound_ms or 0)


def _key_still_held(operation: Operation, terms: Terms, *, now: int, late_ms: int) -> bool:
    retention = terms.contract.key_retention_ms
    if retention is None:
        return False
    return operation.first_claim_at + retention >= now + terms.execution_timeout_ms + late_ms


def repeat_harmless(operation: Operation, terms: Terms, *, now: int) -> bool:
    """Judged again at each claim: an absence allowed a repeat then; does what made it harmless still hold?"""
    return not operation.in_doubt or fenced(operation, terms, now=now)


def replay_allowed(operation: Operation, terms: Terms, *, now: int) -> bool:
    """G3 (b): may the same key be sent again without looking?

    Only where the contract makes that safe, the key is surely still held when a late original could
    arrive, and the policy of the action type allows it (by default it does not).
    """
    contract = terms.contract
    late = contract.late_arrival_bound_ms
    return (
        terms.replay_without_lookup
        and contract.mechanism is Mechanism.IDEMPOTENCY_KEY
        and contract.replays_success
        and late is not None
        and operation.attempts < terms.retry.attempts
        and _key_still_held(operation, terms, now=now, late_ms=late)
    )


def start_lookup(operation: Operation, terms: Terms, *, now: int) -> list[Event]:
    """Count the pass durably before user code runs: a lookup that kills its process cannot loop."""
    facts = {"pass": operation.lookups + 1, "wake_at": now + terms.lookup_timeout_ms}
    return [Event(Kind.RECONCILIATION_STARTED, operation.id, facts)]


def observed(
    operation: Operation,
    terms: Terms,
    observation: Observation,
    expected: Expectation,
    *,
    read_at: int,
    now: int,
    jitter: float,
) -> list[Event]:
    """What a lookup that began at ``read_at`` leads to."""
    match observation:
        case Found():
            return _found(operation, terms, observation, expected, now=now)
        case Unsure():
            return _look_again(
                operation,
                terms,
                "unsure",
                observation.reason,
                now=now,
                jitter=jitter,
                retry_after_s=observation.retry_after_s,
            )
        case Absent():
            return _absent(operation, terms, observation, read_at=read_at, now=now, jitter=jitter)


def _found(operation: Operation, terms: Terms, found: Found, expected: Expectation, *, now: int) -> list[Event]:
    evidence = [match.to_json() for match in found.matches]
    if len(found.matches) > 1:
        several = {"reason": "several_matches", "matches": len(found.matches)}
        content = {"detail": f"{len(evidence)} records match", "evidence": evidence}
        return [Event(Kind.DUPLICATE_FOUND, operation.id, several, content)]
    receipt = found.matches[0]
    lacking = missing(receipt, terms.adopt_on)
    wrong = mismatches(receipt, expected)
    if lacking or wrong:
        wrongly = {"reason": "found_not_as_expected", "exists": True, "as_expected": False}
        said = wrong + [f"the record carries no {name}" for name in lacking]
        return [
            Event(
                Kind.MISMATCH_FOUND,
                operation.id,
                wrongly,
                {"detail": clip("; ".join(said)), "evidence": evidence},
            )
        ]
    facts: dict[str, Any] = {"exists": True, "as_expected": True, "pass": operation.lookups}
    adopted = Event(Kind.RECONCILIATION_COMPLETED, operation.id, facts, {"receipt": receipt.to_json()})
    if terms.has_verify:
        return [adopted, verify.started(operation, terms, now=now)]
    return [adopted, Event(Kind.POSTCONDITION_VERIFIED, operation.id, {"by": "observation"})]


def _absent(
    operation: Operation, terms: Terms, absent: Absent, *, read_at: int, now: int, jitter: float
) -> list[Event]:
    judgement = judge_absence(operation, terms, absent, read_at=read_at, now=now)
    reason = judgement.absence.value
    match judgement.absence:
        case Absence.HARMLESS_TO_REPEAT | Absence.NEVER_HAPPENED:
            return _may_repeat(operation, terms, judgement.absence, now=now, jitter=jitter)
        case Absence.TOO_EARLY | Absence.WAIT_FOR_BOUND:
            facts = {"reason": reason, "wake_at": judgement.look_at}
            return [Event(Kind.RECONCILIATION_UNSURE, operation.id, facts, {"detail": absent.read})]
        case Absence.NOTHING_MAKES_IT_SAFE:
            handed = {"reason": reason, "to": terms.handed_to}
            return [Event(Kind.HUMAN_ESCALATED, operation.id, handed, {"detail": absent.read})]
        case Absence.INCOMPLETE | Absence.NOT_AUTHORITATIVE:
            return _look_again(operation, terms, reason, absent.read, now=now, jitter=jitter)


def _may_repeat(operation: Operation, terms: Terms, absence: Absence, *, now: int, jitter: float) -> list[Event]:
    facts: dict[str, Any] = {"reason": absence.value, "exists": False}
    if operation.attempts < terms.retry.attempts:
        pause = backoff_ms(
            operation.attempts,
            first_ms=int(terms.retry.first_delay_s * 1000),
            most_ms=int(terms.retry.delay_s_max * 1000),
            jitter=jitter,
        )
        return [Event(Kind.ABSENT_CONFIRMED, operation.id, {**facts, "wake_at": now + pause})]
    if absence is Absence.NEVER_HAPPENED:
        return [Event(Kind.RETRIES_EXHAUSTED, operation.id, {**facts, "reason": "attempts_spent"})]
    return [Event(Kind.HUMAN_ESCALATED, operation.id, {**facts, "reason": "attempts_spent", "to": terms.handed_to})]


def _look_again(
    operation: Operation,
    terms: Terms,
    reason: str,
    detail: str,
    *,
    now: int,
    jitter: float,
    retry_after_s: float | None = None,
) -> list[Event]:
    content = {"detail": clip(detail)}
    if operation.lookups >= terms.lookups:
        facts: dict[str, Any] = {"reason": "lookups_spent", "last": reason, "to": terms.handed_to}
        return [Event(Kind.HUMAN_ESCALATED, operation.id, facts, content)]
    pause = backoff_ms(operation.lookups, first_ms=terms.lookup_delay_ms, most_ms=BACKOFF_MS_MAX, jitter=jitter)
    asked = min(int((retry_after_s or 0) * 1000), BACKOFF_MS_MAX)
    facts = {"reason": reason, "wake_at": now + max(pause, asked)}
    return [Event(Kind.RECONCILIATION_UNSURE, operation.id, facts, content)]
