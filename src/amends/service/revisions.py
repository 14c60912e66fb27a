"""Revisions and what they revise: a corrected request rests on the proof that nothing came of the one before.

Late evidence may take that proof away. Before the revision is sent it is stopped by it; afterwards there
may be two effects of one wish, and a person is told. The operations may be in different runs of one intent.
"""

from amends.core.identity import idempotency_key, operation_id
from amends.core.model import Operation, RunState
from amends.core.states import NOTHING_HAPPENED, State
from amends.service.services import Services


def happened_before(services: Services, state: RunState, operation: Operation) -> str:
    """The id of an operation that ``operation`` revises, directly or not, and that happened after all; or nothing."""
    name = operation.previous
    while name:
        there = state.operations.get(name)
        if there is not None:
            stands, before = there.state not in NOTHING_HAPPENED, there.previous
        else:
            row = services.ledger.operation(name)
            stands, before = row is not None and State(row.state) not in NOTHING_HAPPENED, ""
        if stands:
            return name
        name = before
    return ""


def sent_after(services: Services, state: RunState, operation: Operation) -> bool:
    """Whether a revision of ``operation`` may have been sent, in this run or under the next key in another."""
    for other in state.operations.values():
        if other.previous == operation.id:
            return other.attempts > 0 or sent_after(services, state, other)
    row = services.ledger.operation(_next_id(state, operation)) if operation.target else None
    return row is not None and row.attempts > 0


def _next_id(state: RunState, operation: Operation) -> str:
    key = idempotency_key(
        tenant=state.tenant,
        action=operation.action,
        target=operation.target or "",
        lineage=state.intent,
        occurrence=operation.occurrence,
        revision=operation.revision + 1,
    )
    return operation_id(key)
