"""The recovery matrix: what is to be done next for one operation (R18).

A function of state, terms and the instant; never of a model, and never of who asks. Retry means the same
effect under the same key. Reconcile means find out. Escalate means a person. (Compensation joins this
table as operations of its own.)
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from amends.core.model import Event, Operation
from amends.core.reconcile import repeat_harmless, replay_allowed
from amends.core.states import Kind, State
from amends.core.terms import Terms


class Do(StrEnum):
    """The next thing to do for an operation."""

    NOTHING = "nothing"
    WAIT = "wait"
    CLAIM = "claim"
    DECLARE_UNKNOWN = "declare_unknown"
    LOOK = "look"
    REPLAY = "replay"
    VERIFY = "verify"
    ESCALATE = "escalate"


@dataclass(frozen=True, slots=True)
class Step:
    """What to do, and for ``WAIT`` until when (wall-clock milliseconds)."""

    do: Do
    until: int | None = None
    reason: str = ""


def next_step(operation: Operation, terms: Terms, *, now: int, program: bool = False) -> Step:
    """What to do for ``operation`` at ``now``.

    ``program`` says that the program itself asks for this effect, here and now: only then does an
    operation start that nobody is working on.
    """
    match operation.state:
        case State.PROPOSED | State.AUTHORIZED | State.PREPARED:
            return _when_due(operation, now, Do.CLAIM, at_rest=Do.CLAIM if program else Do.NOTHING)
        case State.RETRYABLE:
            return _retry(operation, terms, now, program=program)
        case State.COMMITTING:
            if now <= operation.attempt_ends_at:
                return Step(Do.WAIT, operation.attempt_ends_at + 1)
            return Step(Do.DECLARE_UNKNOWN)
        case State.COMMITTED | State.VERIFYING | State.RECONCILED:
            if operation.verifications >= terms.verifications:
                return _when_due(operation, now, Do.ESCALATE, at_rest=Do.ESCALATE, reason="verifications_spent")
            return _when_due(operation, now, Do.VERIFY, at_rest=Do.VERIFY)
        case State.OUTCOME_UNKNOWN | State.RECONCILING:
            return _find_out(operation, terms, now)
        case (
            State.REJECTED
            | State.EXPIRED
            | State.CANCELLED
            | State.NOT_COMMITTED
            | State.VERIFIED
            | State.AWAITING_APPROVAL
            | State.HUMAN_REQUIRED
            | State.RECONCILIATION_REQUIRED
            | State.COMPENSATION_REQUIRED
            | State.COMPENSATING
            | State.COMPENSATED
            | State.COMPENSATION_FAILED
            | State.IRREVERSIBLE_EFFECT
        ):
            return Step(Do.NOTHING)
        case _:
            assert_never(operation.state)


def _when_due(operation: Operation, now: int, do: Do, *, at_rest: Do, reason: str = "") -> Step:
    if operation.wake_at is None:
        return Step(at_rest, reason=reason)
    return Step(do, reason=reason) if now >= operation.wake_at else Step(Do.WAIT, operation.wake_at)


def _retry(operation: Operation, terms: Terms, now: int, *, program: bool) -> Step:
    if operation.wake_at is None and not program:
        return Step(Do.NOTHING)
    if operation.effect_version != terms.version:
        return Step(Do.ESCALATE, reason="effect_changed")
    step = _when_due(operation, now, Do.CLAIM, at_rest=Do.CLAIM)
    if step.do is Do.CLAIM and not repeat_harmless(operation, terms, now=now):
        return Step(Do.ESCALATE, reason="fence_expired")
    return step


def _find_out(operation: Operation, terms: Terms, now: int) -> Step:
    if operation.wake_at is None:
        return Step(Do.NOTHING)
    if now < operation.wake_at:
        return Step(Do.WAIT, operation.wake_at)
    if terms.has_lookup:
        if operation.lookups >= terms.lookups:
            return Step(Do.ESCALATE, reason="lookups_spent")
        return Step(Do.LOOK)
    if operation.state is State.OUTCOME_UNKNOWN and replay_allowed(operation, terms, now=now):
        return Step(Do.REPLAY)
    return Step(Do.ESCALATE, reason="no_lookup")


def escalate(operation: Operation, terms: Terms, reason: str) -> list[Event]:
    """Put the operation before a person, with the owner it goes to."""
    facts = {"reason": reason, "to": terms.handed_to}
    return [Event(Kind.HUMAN_ESCALATED, operation.id, facts)]
