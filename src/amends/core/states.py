"""The life of one operation, as data.

Theory. An operation is one consequential action. It moves along three stretches:

* before the call  — ``proposed`` → ``authorized`` → ``prepared`` → ``committing``. Nothing has left.
  A refusal here ends in ``rejected``, ``expired`` or ``cancelled``.
* the call         — ``committing`` is entered by the durable claim of an attempt, *before* the call
  leaves. It ends in exactly one of: a response (``committed``), proof that nothing happened
  (``retryable`` or ``not_committed``), or neither: ``outcome_unknown``. Silence is never failure.
* finding out      — ``committed`` is evidence and not proof: ``verifying`` → ``verified``. From
  ``outcome_unknown`` only an observation leads on: ``reconciling`` → ``reconciled`` (found and
  adopted), ``retryable`` (absent, and a repeat is harmless under G3), or a person.

``reconciled`` means found by observation; the postcondition then makes it ``verified`` like any other.
States that settle nothing stay visible: ``outcome_unknown``, ``human_required`` and
``reconciliation_required`` are legal resting places, never silent ones.

Late evidence may arrive in any state after a claim; that is why ``not_committed`` and ``cancelled``
have a way to ``committed``: what the world says last wins over what we concluded first.

``TRANSITIONS`` is the whole machine. Everything else — ``apply``, the diagram in the docs, the
property test over every (state, event) pair — reads it.
"""

from enum import StrEnum
from types import MappingProxyType
from typing import Final


class State(StrEnum):
    """Where one operation stands (R9). Never folded into a boolean."""

    PROPOSED = "proposed"
    REJECTED = "rejected"
    AWAITING_APPROVAL = "awaiting_approval"
    EXPIRED = "expired"
    AUTHORIZED = "authorized"
    PREPARED = "prepared"
    COMMITTING = "committing"
    RETRYABLE = "retryable"
    COMMITTED = "committed"
    VERIFYING = "verifying"
    VERIFIED = "verified"
    OUTCOME_UNKNOWN = "outcome_unknown"
    RECONCILING = "reconciling"
    RECONCILED = "reconciled"
    RECONCILIATION_REQUIRED = "reconciliation_required"
    HUMAN_REQUIRED = "human_required"
    COMPENSATION_REQUIRED = "compensation_required"
    COMPENSATING = "compensating"
    COMPENSATED = "compensated"
    COMPENSATION_FAILED = "compensation_failed"
    IRREVERSIBLE_EFFECT = "irreversible_effect"
    NOT_COMMITTED = "not_committed"
    CANCELLED = "cancelled"


class Kind(StrEnum):
    """What can happen. Operation events move the table below; run events do not."""

    RUN_OPENED = "run.opened"
    RUN_READ = "run.read_recorded"
    RUN_CLOSED = "run.closed"
    RUN_ENDED = "run.ended"
    RUN_REOPENED = "run.reopened"
    RUN_JOINED = "run.operation_joined"
    RUN_JOINED_BY = "run.joined_by"
    END_STATE_POSTPONED = "run.end_state_postponed"
    END_STATE_STARTED = "run.end_state_started"
    END_STATE_ASKED = "run.end_state_asked"
    EFFECTS_SEALED = "effects.sealed"

    PROPOSED = "operation.proposed"
    APPROVAL_REQUESTED = "operation.approval_requested"
    AUTHORIZED = "operation.authorized"
    REJECTED = "operation.rejected"
    EXPIRED = "operation.expired"
    CANCELLED = "operation.cancelled"
    PREPARED = "operation.prepared"
    PREPARATION_FAILED = "operation.preparation_failed"
    COMMIT_STARTED = "operation.commit_started"
    NEVER_LEFT = "operation.never_left"
    DESTINATION_REJECTED = "operation.destination_rejected"
    RETRIES_EXHAUSTED = "operation.retries_exhausted"
    RESPONSE_RECEIVED = "operation.response_received"
    PARTIALLY_COMPLETED = "operation.partially_completed"
    OUTCOME_UNKNOWN = "operation.outcome_unknown"
    VERIFICATION_STARTED = "operation.verification_started"
    VERIFICATION_PENDING = "operation.verification_pending"
    POSTCONDITION_VERIFIED = "operation.postcondition_verified"
    POSTCONDITION_FAILED = "operation.postcondition_failed"
    RECONCILIATION_STARTED = "operation.reconciliation_started"
    RECONCILIATION_COMPLETED = "operation.reconciliation_completed"
    RECONCILIATION_UNSURE = "operation.reconciliation_unsure"
    ABSENT_CONFIRMED = "operation.absent_confirmed"
    DUPLICATE_FOUND = "operation.duplicate_effect_found"
    MISMATCH_FOUND = "operation.mismatch_found"
    HUMAN_ESCALATED = "operation.human_escalated"
    EVIDENCE_RECORDED = "operation.evidence_recorded"
    COMPENSATION_REQUESTED = "operation.compensation_requested"
    COMPENSATION_STARTED = "operation.compensation_started"
    COMPENSATION_VERIFIED = "operation.compensation_verified"
    COMPENSATION_FAILED = "operation.compensation_failed"
    IRREVERSIBLE_EFFECT_RECORDED = "operation.irreversible_effect_recorded"


S, K = State, Kind

_BEFORE_CALL: Final = {
    K.REJECTED: S.REJECTED,
    K.EXPIRED: S.EXPIRED,
    K.CANCELLED: S.CANCELLED,
    K.MISMATCH_FOUND: S.RECONCILIATION_REQUIRED,  # a record under the key, and nothing was sent from here
}
"""What may end an operation of which nothing has left."""

_FOUND: Final = {
    K.RESPONSE_RECEIVED: S.COMMITTED,
    K.RECONCILIATION_COMPLETED: S.RECONCILED,
    K.DUPLICATE_FOUND: S.RECONCILIATION_REQUIRED,
    K.MISMATCH_FOUND: S.RECONCILIATION_REQUIRED,
}
"""What evidence of an effect does, in every state where an attempt may have left."""

_FINDING_OUT: Final = {
    **_FOUND,
    K.RECONCILIATION_STARTED: S.RECONCILING,
    K.HUMAN_ESCALATED: S.HUMAN_REQUIRED,
    K.DESTINATION_REJECTED: S.NOT_COMMITTED,
    K.NEVER_LEFT: S.RETRYABLE,
}

_SETTLING: Final = {
    K.POSTCONDITION_VERIFIED: S.VERIFIED,
    K.POSTCONDITION_FAILED: S.RECONCILIATION_REQUIRED,
    K.VERIFICATION_STARTED: S.VERIFYING,
    K.VERIFICATION_PENDING: S.VERIFYING,
    K.HUMAN_ESCALATED: S.HUMAN_REQUIRED,
    K.DUPLICATE_FOUND: S.RECONCILIATION_REQUIRED,
    K.COMPENSATION_REQUESTED: S.COMPENSATION_REQUIRED,
}

TRANSITIONS: Final = MappingProxyType(
    {
        S.PROPOSED: {
            **_BEFORE_CALL,
            K.AUTHORIZED: S.AUTHORIZED,
            K.APPROVAL_REQUESTED: S.AWAITING_APPROVAL,
        },
        S.AWAITING_APPROVAL: {**_BEFORE_CALL, K.AUTHORIZED: S.AUTHORIZED},
        S.AUTHORIZED: {
            **_BEFORE_CALL,
            K.PREPARED: S.PREPARED,
            K.PREPARATION_FAILED: S.NOT_COMMITTED,
        },
        S.PREPARED: {
            **_BEFORE_CALL,
            K.PREPARED: S.PREPARED,
            K.PREPARATION_FAILED: S.NOT_COMMITTED,
            K.COMMIT_STARTED: S.COMMITTING,
        },
        S.COMMITTING: {
            K.RESPONSE_RECEIVED: S.COMMITTED,
            K.PARTIALLY_COMPLETED: S.RECONCILIATION_REQUIRED,
            K.DESTINATION_REJECTED: S.NOT_COMMITTED,
            K.NEVER_LEFT: S.RETRYABLE,
            K.OUTCOME_UNKNOWN: S.OUTCOME_UNKNOWN,
            K.MISMATCH_FOUND: S.RECONCILIATION_REQUIRED,
        },
        S.RETRYABLE: {
            **_FOUND,
            K.COMMIT_STARTED: S.COMMITTING,
            K.RETRIES_EXHAUSTED: S.NOT_COMMITTED,
            K.PREPARATION_FAILED: S.NOT_COMMITTED,
            K.CANCELLED: S.CANCELLED,
            K.EXPIRED: S.EXPIRED,
            K.HUMAN_ESCALATED: S.HUMAN_REQUIRED,
        },
        S.COMMITTED: _SETTLING,
        S.VERIFYING: _SETTLING,
        S.VERIFIED: {
            K.POSTCONDITION_FAILED: S.RECONCILIATION_REQUIRED,
            K.DUPLICATE_FOUND: S.RECONCILIATION_REQUIRED,
            K.COMPENSATION_REQUESTED: S.COMPENSATION_REQUIRED,
            K.IRREVERSIBLE_EFFECT_RECORDED: S.IRREVERSIBLE_EFFECT,
        },
        S.OUTCOME_UNKNOWN: {**_FINDING_OUT, K.COMMIT_STARTED: S.COMMITTING},  # G3 (b) alone
        S.RECONCILING: {
            **_FINDING_OUT,
            K.RECONCILIATION_UNSURE: S.OUTCOME_UNKNOWN,
            K.ABSENT_CONFIRMED: S.RETRYABLE,
            K.RETRIES_EXHAUSTED: S.NOT_COMMITTED,
        },
        S.RECONCILED: _SETTLING,
        S.RECONCILIATION_REQUIRED: {
            **_FINDING_OUT,
            **_SETTLING,
            K.RETRIES_EXHAUSTED: S.NOT_COMMITTED,
        },
        S.HUMAN_REQUIRED: {**_FINDING_OUT, K.RETRIES_EXHAUSTED: S.NOT_COMMITTED},
        S.COMPENSATION_REQUIRED: {
            K.COMPENSATION_STARTED: S.COMPENSATING,
            K.COMPENSATION_FAILED: S.COMPENSATION_FAILED,
            K.HUMAN_ESCALATED: S.HUMAN_REQUIRED,
            K.POSTCONDITION_VERIFIED: S.VERIFIED,
        },
        S.COMPENSATING: {
            K.COMPENSATION_VERIFIED: S.COMPENSATED,
            K.COMPENSATION_FAILED: S.COMPENSATION_FAILED,
        },
        S.COMPENSATED: {K.COMPENSATION_FAILED: S.COMPENSATION_FAILED},
        S.COMPENSATION_FAILED: {
            K.COMPENSATION_STARTED: S.COMPENSATING,
            K.COMPENSATION_VERIFIED: S.COMPENSATED,
            K.HUMAN_ESCALATED: S.HUMAN_REQUIRED,
        },
        S.IRREVERSIBLE_EFFECT: {
            K.DUPLICATE_FOUND: S.RECONCILIATION_REQUIRED,
            K.POSTCONDITION_FAILED: S.RECONCILIATION_REQUIRED,
        },
        S.NOT_COMMITTED: _FOUND,
        S.CANCELLED: _FOUND,
        S.REJECTED: {K.MISMATCH_FOUND: S.RECONCILIATION_REQUIRED},
        S.EXPIRED: _FOUND,
    }
)
"""state → event → next state. A pair that is not here is refused and changes nothing."""

BETWEEN_RUNS: Final = frozenset({K.RUN_JOINED, K.RUN_JOINED_BY})
"""Events of a run that name an operation and do not move it: who shares it, and how it stood when that was told."""

RECORDING: Final = frozenset({K.EVIDENCE_RECORDED})
"""Events that are kept with an operation in any state and move nothing."""

NOTHING_HAPPENED: Final = frozenset({S.REJECTED, S.EXPIRED, S.CANCELLED, S.NOT_COMMITTED})
"""Settled, and the world is as before."""

STANDS: Final = frozenset({S.VERIFIED, S.IRREVERSIBLE_EFFECT})
"""Settled, and the effect is there as intended."""

UNRESOLVED: Final = frozenset(
    {S.OUTCOME_UNKNOWN, S.RECONCILING, S.RECONCILIATION_REQUIRED, S.HUMAN_REQUIRED, S.COMPENSATION_FAILED}
)
"""Nobody may call the run clean while an operation is here."""

SETTLED: Final = NOTHING_HAPPENED | STANDS | {S.COMPENSATED}
"""No work is owed for the operation itself."""


def next_state(state: State, kind: Kind) -> State | None:
    """The state after ``kind`` in ``state``; ``None`` when the table does not allow it."""
    if kind in RECORDING:
        return state
    return TRANSITIONS[state].get(kind)


def mermaid() -> str:
    """The table as a Mermaid state diagram; ``docs/explanation/states.md`` is generated from it."""
    lines = ["stateDiagram-v2", "    [*] --> proposed"]
    for state, row in TRANSITIONS.items():
        for kind, target in row.items():
            lines.append(f"    {state.value} --> {target.value}: {kind.value.removeprefix('operation.')}")
    return "\n".join(lines)
