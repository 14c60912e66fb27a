"""Attempts: the claim before the call, and what the call's end means.

The claim is durable before anything leaves, and it counts the attempt. So an attempt with no recorded
end is *unknown*, whoever died; and a call that kills its process is counted all the same. What a receipt means
is in ``response``.
"""

from collections.abc import Mapping
from typing import Any

from amends.core.backoff import backoff_ms
from amends.core.failures import CallEnded, NotSent, Outcome, Rejected
from amends.core.limits import BACKOFF_MS_MAX
from amends.core.model import Event, Operation
from amends.core.proposal import failed_checks
from amends.core.states import Kind, State
from amends.core.terms import Terms

REQUEST_REFUSED = "request_refused"
"""The code of a request that the client itself refuses to make: a repeat would be the same request."""


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
        if end.retryable:
            return _refused_for_now(operation, terms, end, now=now, jitter=jitter)
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


def _refused_for_now(operation: Operation, terms: Terms, end: Rejected, *, now: int, jitter: float) -> list[Event]:
    """A refusal that a later try may not meet. After the last try nothing stands against asking anew."""
    facts: dict[str, Any] = {**end.facts(), "reason": "rejected_for_now"}
    content = {"detail": end.reason}
    if operation.attempts < terms.retry.attempts:
        facts["wake_at"] = _retry_at(operation, terms, end, now, jitter)
        return [Event(Kind.NEVER_LEFT, operation.id, facts, content)]
    spent = Event(Kind.RETRIES_EXHAUSTED, operation.id, {"reason": "attempts_spent"}, content)
    return [Event(Kind.NEVER_LEFT, operation.id, facts, content), spent]


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
