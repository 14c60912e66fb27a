"""Attempts: the claim before the call, and what the call's end means.

The claim is durable before anything leaves, and it counts the attempt. So an attempt with no recorded
end is *unknown*, whoever died; and a call that kills its process is counted all the same.
"""

from collections.abc import Mapping
from typing import Any

from amends.core import verify
from amends.core.backoff import backoff_ms
from amends.core.evidence import Expectation, Receipt, mismatches, missing
from amends.core.failures import CallEnded, NotSent, Outcome, Rejected, clip
from amends.core.limits import BACKOFF_MS_MAX
from amends.core.model import Event, Operation
from amends.core.proposal import failed_checks
from amends.core.states import STANDS, Kind, State
from amends.core.terms import Terms

FINDABLE = frozenset(
    {
        State.OUTCOME_UNKNOWN,
        State.RECONCILING,
        State.RETRYABLE,
        State.NOT_COMMITTED,
        State.CANCELLED,
        State.EXPIRED,
        State.HUMAN_REQUIRED,
    }
)
"""States in which a receipt that comes late tells us whether it happened."""

NOTHING_CLAIMED = frozenset({State.PROPOSED, State.AWAITING_APPROVAL, State.AUTHORIZED, State.PREPARED})
"""States before the first claim: whoever made a record now, no attempt of ours did."""

REQUEST_REFUSED = "request_refused"
"""The code of a request that the client itself refuses to make: a repeat would be the same request."""

COMPLETABLE = frozenset({"receipt_incomplete", "verification_pending", "verification_unavailable"})
"""Reasons of ``reconciliation_required`` that say only that proof was lacking. Every other one is a
contradiction (a second record, another amount, a part of it), which one more receipt does not take away:
those stay for a person."""


def claim(
    operation: Operation,
    *,
    checks: Mapping[str, str],
    worker: str,
    budget_ends_at: int,
    resource_version: str | None = None,
    read_age_ms: int | None = None,
    pre_state: Mapping[str, Any] | None = None,
) -> list[Event]:
    """Prepare and claim the next attempt; or say which check failed.

    ``budget_ends_at`` is in wall-clock milliseconds, for whoever comes after us; the live call is held
    to a monotonic budget.
    """
    prepared: dict[str, Any] = {"checks": checks}
    content: dict[str, Any] = {} if pre_state is None else {"pre_state": pre_state}
    if resource_version is not None:
        content["resource_version"] = resource_version
        prepared["read_age_ms"] = read_age_ms
    failed = failed_checks(checks)
    if failed:
        prepared["reason"] = "check:" + ",".join(failed)
        # An earlier attempt may still arrive: then a failed check proves nothing about the world.
        kind = Kind.HUMAN_ESCALATED if operation.in_doubt else Kind.PREPARATION_FAILED
        return [Event(kind, operation.id, prepared, content)]
    events = []
    first = operation.state in (State.AUTHORIZED, State.PREPARED)
    if first:
        events.append(Event(Kind.PREPARED, operation.id, prepared, content))
    facts = {
        "attempt": operation.attempts + 1,
        "worker": worker,
        "budget_ends_at": budget_ends_at,
        "wake_at": budget_ends_at,
    }
    if not first:
        facts["checks"] = checks
    events.append(Event(Kind.COMMIT_STARTED, operation.id, facts))
    return events


def responded(
    operation: Operation, terms: Terms, receipt: Receipt, expected: Expectation, *, attempt: int, now: int
) -> list[Event]:
    """A response came with ``receipt``, in time or late.

    It is recorded whatever it says. Where no verifying read is registered and the receipt carries all
    that is required, the postcondition is verified by it in the same append; where one is registered, its
    first pass is counted in it, so whoever made the append reads at once.
    """
    content: dict[str, Any] = {"receipt": receipt.to_json()}
    late = not (operation.state is State.COMMITTING and operation.attempts == attempt)
    if operation.state in NOTHING_CLAIMED:
        return _made_by_nobody(operation, receipt)
    if late and not _tells(operation, receipt):
        return _beside(operation, receipt, attempt)
    facts: dict[str, Any] = {"attempt": attempt}
    if late:
        facts["late"] = True
    other = _other_resource(operation.late_receipt, receipt)
    wrong = mismatches(receipt, expected)
    if other or wrong:
        kind = Kind.DUPLICATE_FOUND if other else Kind.MISMATCH_FOUND
        reason = "duplicate" if other else "receipt_mismatch"
        content["detail"] = clip("; ".join(wrong) or "another record was made under this key")
        recorded = Event(Kind.RESPONSE_RECEIVED, operation.id, facts, {"receipt": receipt.to_json()})
        if kind is Kind.MISMATCH_FOUND:
            failed = Event(Kind.POSTCONDITION_FAILED, operation.id, {"reason": reason}, content)
            return [recorded, failed]
        return [recorded, Event(kind, operation.id, {"reason": reason}, content)]
    lacking = missing(receipt, terms.evidence)
    if lacking:
        facts["lacking"] = lacking
    if terms.has_verify:
        next_event = verify.started(operation, terms, now=now)
    elif lacking:
        facts["wake_at"] = now
        return [Event(Kind.RESPONSE_RECEIVED, operation.id, facts, content)]
    else:
        next_event = Event(Kind.POSTCONDITION_VERIFIED, operation.id, {"by": "receipt"})
    return [Event(Kind.RESPONSE_RECEIVED, operation.id, facts, content), next_event]


def _tells(operation: Operation, receipt: Receipt) -> bool:
    """Whether a late receipt decides something; otherwise it is kept beside what is known."""
    if operation.state is State.RECONCILIATION_REQUIRED:
        return operation.reason in COMPLETABLE and not _other_resource(operation.receipt, receipt)
    return operation.state in FINDABLE


def _made_by_nobody(operation: Operation, receipt: Receipt) -> list[Event]:
    """There is a record under the key, and no attempt was ever claimed here: a person finds out who made it."""
    detail = "there is a record under this key, and nothing was sent from here"
    content = {"detail": detail, "receipt": receipt.to_json()}
    return [Event(Kind.MISMATCH_FOUND, operation.id, {"reason": "made_before_any_attempt"}, content)]


def _beside(operation: Operation, receipt: Receipt, attempt: int) -> list[Event]:
    """A receipt that comes while another attempt runs, or after the effect is known."""
    content = {"receipt": receipt.to_json()}
    known = operation.state in STANDS | {State.COMMITTED, State.VERIFYING, State.RECONCILED}
    if known and _other_resource(operation.receipt, receipt):
        facts = {"reason": "duplicate", "attempt": attempt, "late": True}
        return [Event(Kind.DUPLICATE_FOUND, operation.id, facts, content)]
    return [Event(Kind.EVIDENCE_RECORDED, operation.id, {"attempt": attempt, "late": True}, content)]


def _other_resource(known: Any, receipt: Receipt) -> bool:
    return known is not None and known.get("resource") != receipt.resource


def ended(operation: Operation, terms: Terms, end: CallEnded, *, now: int, jitter: float) -> list[Event]:
    """The attempt in flight ended without a receipt: refused, never left, or nobody knows."""
    content = {"detail": end.reason}
    conflict = (end.status, end.code) if end.code == "key_conflict" else None
    if conflict is not None:
        facts = {**end.facts(), "reason": "key_conflict"}
        return [Event(Kind.MISMATCH_FOUND, operation.id, facts, content)]
    certain = operation.unknown_attempts == 0 and operation.late_receipt is None
    if isinstance(end, Rejected):
        if not certain:
            return unknown(operation, terms, now=now, end=end)
        if end.retryable and operation.attempts < terms.retry.attempts:
            facts = {
                **end.facts(),
                "reason": "rejected_for_now",
                "wake_at": _retry_at(operation, terms, end, now, jitter),
            }
            return [Event(Kind.NEVER_LEFT, operation.id, facts, content)]
        facts = {**end.facts(), "reason": end.code or "rejected"}
        return [Event(Kind.DESTINATION_REJECTED, operation.id, facts, content)]
    if operation.late_receipt is not None:
        return unknown(operation, terms, now=now, end=end)
    if isinstance(end, NotSent):
        return _never_left(operation, terms, end, now=now, jitter=jitter, certain=certain)
    if end.outcome is Outcome.PARTIAL:
        facts = {**end.facts(), "reason": "partial"}
        return [Event(Kind.PARTIALLY_COMPLETED, operation.id, facts, content)]
    return unknown(operation, terms, now=now, end=end)


def _never_left(
    operation: Operation, terms: Terms, end: NotSent, *, now: int, jitter: float, certain: bool
) -> list[Event]:
    content = {"detail": end.reason}
    facts: dict[str, Any] = {**end.facts(), "reason": end.code or "never_left"}
    refused = end.code == REQUEST_REFUSED
    if operation.attempts < terms.retry.attempts and not refused:
        if end.code != "caller_cancelled":
            facts["wake_at"] = _retry_at(operation, terms, end, now, jitter)
        return [Event(Kind.NEVER_LEFT, operation.id, facts, content)]
    last = {"reason": REQUEST_REFUSED if refused else "attempts_spent"}
    if certain:
        final = Event(Kind.RETRIES_EXHAUSTED, operation.id, last, content)
    else:
        final = Event(Kind.HUMAN_ESCALATED, operation.id, {**last, "to": terms.handed_to}, content)
    return [Event(Kind.NEVER_LEFT, operation.id, facts, content), final]


def _retry_at(operation: Operation, terms: Terms, end: CallEnded, now: int, jitter: float) -> int:
    pause = backoff_ms(
        operation.attempts,
        first_ms=int(terms.retry.first_delay_s * 1000),
        most_ms=int(terms.retry.delay_s_max * 1000),
        jitter=jitter,
    )
    asked = int((end.retry_after_s or 0) * 1000)
    return now + max(pause, min(asked, BACKOFF_MS_MAX))


def unknown(operation: Operation, terms: Terms, *, now: int, end: CallEnded | None = None) -> list[Event]:
    """The attempt's end is not known: its response was lost, or its worker was.

    With a lookup the first look is due at once: *found* may be believed immediately. Without one, the
    matrix decides whether a replay is allowed; the pass is due all the same.
    """
    facts: dict[str, Any] = {"attempt": operation.attempts, "wake_at": now}
    content: dict[str, Any] = {}
    if end is None:
        facts["reason"] = "no_result_recorded"
    else:
        facts |= {**end.facts(), "reason": end.code or "response_lost"}
        content["detail"] = end.reason
    return [Event(Kind.OUTCOME_UNKNOWN, operation.id, facts, content)]
