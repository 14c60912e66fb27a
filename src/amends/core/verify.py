"""Verification: the postcondition, read apart from the response (R20)."""

from collections.abc import Mapping
from typing import Any

from amends.core.backoff import backoff_ms
from amends.core.canonical import encode
from amends.core.evidence import Failed, Pending, Receipt, Unavailable, Verification, Verified, missing
from amends.core.failures import clip
from amends.core.limits import BACKOFF_MS_MAX
from amends.core.model import Event, Operation
from amends.core.states import Kind
from amends.core.terms import Terms


def started(operation: Operation, terms: Terms, *, now: int) -> Event:
    """Count the pass durably before user code runs: a read that kills its process cannot loop.

    Until its time is up nobody else reads: the wake is when the next one may.
    """
    facts = {"pass": operation.verifications + 1, "wake_at": now + terms.lookup_timeout_ms}
    return Event(Kind.VERIFICATION_STARTED, operation.id, facts)


def by_receipt(operation: Operation, terms: Terms) -> list[Event]:
    """Where no verifying read is registered, the receipt has to carry all that is required.

    It comes here only when it did not (see ``response.responded``): then nobody may call it verified.
    """
    lacking = (
        ["resource"] if operation.receipt is None else missing(Receipt.from_json(operation.receipt), terms.evidence)
    )
    if lacking:
        content = {"detail": f"the receipt carries no {', '.join(lacking)}"}
        return [Event(Kind.POSTCONDITION_FAILED, operation.id, {"reason": "receipt_incomplete"}, content)]
    return [Event(Kind.POSTCONDITION_VERIFIED, operation.id, {"by": "receipt"})]


def verified(operation: Operation, terms: Terms, verification: Verification, *, now: int, jitter: float) -> list[Event]:
    """What a verifying read leads to. *Pending* and *unavailable* are asked again until the deadline."""
    match verification:
        case Verified():
            read = _evidence(verification.evidence)
            return [Event(Kind.POSTCONDITION_VERIFIED, operation.id, {"by": "read"}, read)]
        case Failed():
            content = {"detail": clip(verification.reason), **_evidence(verification.evidence)}
            return [Event(Kind.POSTCONDITION_FAILED, operation.id, {"reason": "postcondition"}, content)]
        case Pending():
            return _wait(operation, terms, "pending", verification.retry_after_s, "", now=now, jitter=jitter)
        case Unavailable():
            return _wait(operation, terms, "unavailable", None, verification.reason, now=now, jitter=jitter)


def _evidence(read: Mapping[str, Any] | None) -> dict[str, Any]:
    return {} if read is None else {"evidence": encode(dict(read))}


def _wait(
    operation: Operation,
    terms: Terms,
    reason: str,
    retry_after_s: float | None,
    detail: str,
    *,
    now: int,
    jitter: float,
) -> list[Event]:
    content = {"detail": clip(detail)} if detail else {}
    deadline = operation.verify_since + terms.verify_within_ms
    if now >= deadline:
        facts: dict[str, Any] = {"reason": f"verification_{reason}"}
        return [Event(Kind.POSTCONDITION_FAILED, operation.id, facts, content)]
    pause = backoff_ms(operation.verifications, first_ms=terms.verify_delay_ms, most_ms=BACKOFF_MS_MAX, jitter=jitter)
    if retry_after_s is not None:
        pause = min(int(retry_after_s * 1000), BACKOFF_MS_MAX)
    facts = {"reason": reason, "wake_at": min(now + pause, deadline)}
    return [Event(Kind.VERIFICATION_PENDING, operation.id, facts, content)]
