"""Where an operation stands, and whom it waits for, told apart as an investigator needs it (R14).

The state says where in its life an operation is. The *situation* says what that means for the world:
whether the request failed, the response was lost, the remote commit succeeded, the verification or a
compensation failed, or nobody has looked yet.
"""

from enum import StrEnum
from typing import Final, assert_never

from amends.core.model import Operation
from amends.core.safe_text import quoted
from amends.core.states import State
from amends.core.wording import because


class Situation(StrEnum):
    """What is known about the world, one word per case."""

    NOT_STARTED = "not_started"
    IN_FLIGHT = "in_flight"
    REQUEST_FAILED = "request_failed"
    RESPONSE_LOST = "response_lost"
    RECONCILIATION_NEVER_RAN = "reconciliation_never_ran"
    REMOTE_COMMIT_SUCCEEDED = "remote_commit_succeeded"
    VERIFIED = "verified"
    VERIFICATION_FAILED = "verification_failed"
    CONTRADICTION_FOUND = "contradiction_found"
    COMPENSATING = "compensating"
    COMPENSATED = "compensated"
    COMPENSATION_FAILED = "compensation_failed"


class Waits(StrEnum):
    """Who has to act next."""

    NOBODY = "nobody"
    PROGRAM = "program"
    CALL = "call"
    RECOVERY = "recovery"
    PERSON = "person"


_VERIFICATION: Final = frozenset(
    {"postcondition", "receipt_incomplete", "receipt_mismatch", "verification_pending", "verification_unavailable"}
)
"""Reasons of ``reconciliation_required`` that mean: it is there, and its postcondition did not hold."""


def situation(operation: Operation) -> Situation:
    """What is known about ``operation`` in the world."""
    match operation.state:
        case State.PROPOSED | State.AWAITING_APPROVAL | State.AUTHORIZED | State.PREPARED:
            return Situation.NOT_STARTED
        case State.COMMITTING:
            return Situation.IN_FLIGHT
        case State.REJECTED | State.EXPIRED | State.CANCELLED | State.NOT_COMMITTED:
            return Situation.REQUEST_FAILED
        case State.RETRYABLE:
            certain = not operation.unknown_attempts
            return Situation.REQUEST_FAILED if certain else Situation.RESPONSE_LOST
        case State.OUTCOME_UNKNOWN | State.RECONCILING | State.HUMAN_REQUIRED:
            return _not_known(operation)
        case State.COMMITTED | State.VERIFYING | State.RECONCILED:
            return Situation.REMOTE_COMMIT_SUCCEEDED
        case State.VERIFIED | State.IRREVERSIBLE_EFFECT:
            return Situation.VERIFIED
        case State.RECONCILIATION_REQUIRED:
            failed = operation.reason in _VERIFICATION
            return Situation.VERIFICATION_FAILED if failed else Situation.CONTRADICTION_FOUND
        case State.COMPENSATION_REQUIRED | State.COMPENSATING:
            return Situation.COMPENSATING
        case State.COMPENSATED:
            return Situation.COMPENSATED
        case State.COMPENSATION_FAILED:
            return Situation.COMPENSATION_FAILED
        case _:
            assert_never(operation.state)


def _not_known(operation: Operation) -> Situation:
    if not operation.unknown_attempts and operation.state is State.HUMAN_REQUIRED:
        known = operation.receipt is not None
        return Situation.REMOTE_COMMIT_SUCCEEDED if known else Situation.REQUEST_FAILED
    return Situation.RESPONSE_LOST if operation.lookups else Situation.RECONCILIATION_NEVER_RAN


def waits_for(operation: Operation, *, now: int) -> Waits:
    """Who has to act next for ``operation`` at ``now`` (wall-clock milliseconds)."""
    match operation.state:
        case State.HUMAN_REQUIRED | State.RECONCILIATION_REQUIRED | State.COMPENSATION_FAILED | State.AWAITING_APPROVAL:
            return Waits.PERSON
        case State.COMMITTING:
            return Waits.CALL if now <= operation.attempt_ends_at else Waits.RECOVERY
        case State.OUTCOME_UNKNOWN | State.RECONCILING:
            return Waits.PERSON if operation.wake_at is None else Waits.RECOVERY
        case State.PROPOSED | State.AUTHORIZED | State.PREPARED | State.RETRYABLE:
            return Waits.PROGRAM if operation.wake_at is None else Waits.RECOVERY
        case State.COMMITTED | State.VERIFYING | State.RECONCILED | State.COMPENSATION_REQUIRED | State.COMPENSATING:
            return Waits.RECOVERY
        case _:
            return Waits.NOBODY


def outcome_unknown(operation: Operation, *, now: int) -> bool:
    """Nobody knows whether it happened, and no person has been asked yet."""
    if operation.state is State.COMMITTING:
        return now > operation.attempt_ends_at
    return operation.state in (State.OUTCOME_UNKNOWN, State.RECONCILING)


def why(operation: Operation) -> str:
    """The recorded reason of where ``operation`` stands, in words; empty where none was recorded.

    Attempts that are spent say nothing of what was wrong: the last one's own end does.
    """
    if not operation.reason:
        return ""
    if operation.reason == "attempts_spent" and operation.last_end:
        last = _with_text(because(operation.last_end), operation.last_detail)
        return f"{because(operation.reason)}; the last one ended so: {last}"
    return _with_text(because(operation.reason), operation.detail)


def _with_text(words: str, detail: str | None) -> str:
    return f"{words} ({quoted(detail)})" if detail else words


def to_have_it_done(operation: Operation) -> str:
    """What a program does to have an effect after all, of which it is certain that nothing happened."""
    if operation.may_be_asked_anew:
        return "ask again with the same event and arguments once the cause is gone"
    return "correct the request and ask again, or repeat it on purpose with again="


def owed(operation: Operation) -> list[str]:
    """What is still to be done for ``operation``, in words; empty when nothing is."""
    match operation.state:
        case State.PROPOSED | State.AUTHORIZED | State.PREPARED:
            return ["its first attempt"]
        case State.AWAITING_APPROVAL:
            return ["a person's decision"]
        case State.COMMITTING:
            return [f"the end of attempt {operation.attempts}"]
        case State.RETRYABLE:
            return [f"attempt {operation.attempts + 1}"]
        case State.OUTCOME_UNKNOWN | State.RECONCILING:
            return ["finding out whether it happened"]
        case State.COMMITTED | State.VERIFYING | State.RECONCILED:
            return ["its verification"]
        case State.HUMAN_REQUIRED:
            return ["a person's finding"]
        case State.RECONCILIATION_REQUIRED:
            return ["a person's reconciliation"]
        case State.COMPENSATION_REQUIRED | State.COMPENSATING:
            return ["its compensation"]
        case State.COMPENSATION_FAILED:
            return ["its compensation, which failed"]
        case _:
            return []
