"""What a receipt means, whenever it comes: as the answer of a call, late, or as evidence from outside (R24).

Theory. The first receipt of an operation tells that it happened. Every further one either says the same
again, and is kept beside it, or contradicts what is known: another record, another amount, a record where
nothing was sent. A contradiction is a person's, and no later receipt takes it away. What is known
already is never replaced by what comes later.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from amends.core import verify
from amends.core.evidence import Expectation, Receipt, mismatches, missing
from amends.core.failures import clip
from amends.core.model import Event, Operation
from amends.core.states import STANDS, Kind, State, next_state
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

COMPLETABLE = frozenset({"receipt_incomplete", "verification_pending", "verification_unavailable"})
"""Reasons of ``reconciliation_required`` that say only that proof was lacking. Every other one is a
contradiction (a second record, another amount, a part of it), which one more receipt does not take away:
those stay for a person."""

KNOWN = STANDS | {State.COMMITTED, State.VERIFYING, State.RECONCILED}
"""States in which it is known that it happened, and by which record."""

MADE_BY_NOBODY = "there is a record under this key, and nothing was sent from here"


def responded(
    operation: Operation, terms: Terms, receipt: Receipt, expected: Expectation, *, attempt: int, now: int
) -> list[Event]:
    """A response came with ``receipt``, in time or late.

    It is recorded whatever it says. Where no verifying read is registered and the receipt carries all
    that is required, the postcondition is verified by it in the same append; where one is registered, its
    first pass is counted in it, so whoever made the append reads at once.
    """
    if not operation.attempts:
        return _made_by_nobody(operation, receipt, expected)
    late = not (operation.state is State.COMMITTING and operation.attempts == attempt)
    if late and not _tells(operation, receipt):
        return _beside(operation, receipt, expected, attempt)
    facts: dict[str, Any] = {"attempt": attempt}
    if late:
        facts["late"] = True
    content: dict[str, Any] = {"receipt": receipt.to_json()}
    contradicts = _contradiction(operation, receipt, expected)
    if contradicts is not None:
        return [Event(Kind.RESPONSE_RECEIVED, operation.id, facts, content), contradicts]
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


def found(
    operation: Operation, terms: Terms, receipts: Sequence[Receipt], expected: Expectation, *, now: int
) -> list[Event]:
    """Somebody found ``receipts``, all that there are: a program, or a lookup that something else overtook.

    Several are judged together, so that no moment believes the first of them.
    """
    if len(receipts) == 1:
        return responded(operation, terms, receipts[0], expected, attempt=operation.attempts, now=now)
    kind = next((kind for kind in _SEVERAL if next_state(operation.state, kind)), None)
    if kind is None or (operation.state is State.RECONCILIATION_REQUIRED and operation.reason not in COMPLETABLE):
        kept = [_beside(operation, receipt, expected, operation.attempts) for receipt in receipts]
        return [event for events in kept for event in events]
    facts = {"reason": "several_matches", "matches": len(receipts)}
    content = {
        "detail": f"{len(receipts)} records match",
        "evidence": [receipt.to_json() for receipt in receipts],
    }
    return [Event(kind, operation.id, facts, content)]


def revised_already(operation: Operation, receipt: Receipt) -> list[Event]:
    """A record of ``operation`` appears after all, and a revision of it has been sent since: both may be there."""
    if next_state(operation.state, Kind.DUPLICATE_FOUND) is None:
        return []
    content = {"receipt": receipt.to_json(), "detail": "its revision was sent, because nothing had come of it"}
    return [Event(Kind.DUPLICATE_FOUND, operation.id, {"reason": "revised_already"}, content)]


_SEVERAL = (Kind.DUPLICATE_FOUND, Kind.MISMATCH_FOUND)
"""What several records mean; before the first claim and in a call, the second word is the one allowed."""


def _tells(operation: Operation, receipt: Receipt) -> bool:
    """Whether a late receipt decides something; otherwise it is kept beside what is known."""
    if _other_resource(operation.receipt, receipt):
        return False
    if operation.state is State.RECONCILIATION_REQUIRED:
        return operation.reason in COMPLETABLE
    return operation.state in FINDABLE


def _made_by_nobody(operation: Operation, receipt: Receipt, expected: Expectation) -> list[Event]:
    """There is a record under the key, and no attempt was ever claimed here: a person finds out who made it."""
    if operation.state is State.RECONCILIATION_REQUIRED:
        return _beside(operation, receipt, expected, 0)
    content = {"detail": MADE_BY_NOBODY, "receipt": receipt.to_json()}
    return [Event(Kind.MISMATCH_FOUND, operation.id, {"reason": "made_before_any_attempt"}, content)]


def _contradiction(operation: Operation, receipt: Receipt, expected: Expectation) -> Event | None:
    if _other_resource(operation.late_receipt, receipt):
        another: dict[str, Any] = {"detail": "another record was made under this key"}
        return Event(Kind.DUPLICATE_FOUND, operation.id, {"reason": "duplicate"}, another)
    if wrong := mismatches(receipt, expected):
        content: dict[str, Any] = {"receipt": receipt.to_json(), "detail": clip("; ".join(wrong))}
        return Event(Kind.POSTCONDITION_FAILED, operation.id, {"reason": "receipt_mismatch"}, content)
    return None


def _beside(operation: Operation, receipt: Receipt, expected: Expectation, attempt: int) -> list[Event]:
    """A receipt that comes while another attempt runs, or after the effect is known, or to a person's case.

    The same evidence twice is one: a webhook that is delivered again adds nothing.
    """
    content: dict[str, Any] = {"receipt": receipt.to_json()}
    facts: dict[str, Any] = {"attempt": attempt, "late": True}
    if content["receipt"] == operation.late_receipt:
        return []
    resting = operation.state is State.RECONCILIATION_REQUIRED and operation.reason not in COMPLETABLE
    if not resting and _other_resource(operation.receipt, receipt):
        if next_state(operation.state, Kind.DUPLICATE_FOUND):
            return [Event(Kind.DUPLICATE_FOUND, operation.id, {**facts, "reason": "duplicate"}, content)]
    elif not resting and (wrong := mismatches(receipt, expected)):
        kind = Kind.MISMATCH_FOUND if operation.state is State.COMMITTING else Kind.POSTCONDITION_FAILED
        if next_state(operation.state, kind):
            content["detail"] = clip("; ".join(wrong))
            return [Event(kind, operation.id, {**facts, "reason": "receipt_mismatch"}, content)]
    return [Event(Kind.EVIDENCE_RECORDED, operation.id, facts, content)]


def _other_resource(known: Mapping[str, Any] | None, receipt: Receipt) -> bool:
    return known is not None and known.get("resource") != receipt.resource
