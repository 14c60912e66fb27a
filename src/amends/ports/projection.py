"""From the folded state of a run to the rows that stand beside its entries.

The rows are a convenience for finding things; they hold nothing that the entries do not. This is the one
function that makes them, so what the service writes and what a rebuild finds can be compared byte by byte.
"""

from collections.abc import Iterable, Sequence

from amends.core.model import Event, Operation, RunState
from amends.core.states import BETWEEN_RUNS, Kind
from amends.ports.ledger import OperationRow, RunRow


def changed(events: Iterable[Event]) -> tuple[str, ...]:
    """The operations of the run that ``events`` touch, in order of first touch."""
    touched = (e.operation for e in events if e.operation and e.kind not in BETWEEN_RUNS)
    return tuple(dict.fromkeys(touched))


def rows(state: RunState, head: bytes, changed: Iterable[str]) -> tuple[RunRow, tuple[OperationRow, ...]]:
    """The run's row and those of the ``changed`` operations.

    ``head`` is the hash of the run's last entry, the one ``state`` was folded up to.
    """
    run = RunRow(
        id=state.id,
        version=state.version,
        head=head,
        tenant=state.tenant,
        type=state.type,
        intent=state.intent,
        principal=state.principal,
        closed=state.closed,
        ending=state.ending,
        opened_at=state.opened_at,
        updated_at=state.updated_at,
        wake_at=state.wake_at,
        event=state.event,
    )
    return run, tuple(_row(state, state.operations[name]) for name in changed)


def locks(state: RunState, events: Sequence[Event]) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """The locks that ``events`` take, as ``(lock, operation)``, and the operations that give theirs back.

    A lock is taken with a claim, and only with one (evidence must never be refused), and held until the
    operation is settled, however long that takes: while nobody knows what the first one did to a scarce
    resource, nobody else may use it.
    """
    held = [state.operations[name] for name in changed(events) if state.operations[name].lock]
    if not held:
        return (), ()
    claimed = [event.operation for event in events if event.kind is Kind.COMMIT_STARTED]
    acquire = tuple((operation.lock, operation.id) for operation in held if operation.id in claimed)
    return acquire, tuple(operation.id for operation in held if operation.settled)


def _row(state: RunState, operation: Operation) -> OperationRow:
    resource = operation.receipt.get("resource") if operation.receipt else None
    return OperationRow(
        id=operation.id,
        run=state.id,
        key=operation.key,
        action=operation.action,
        target=operation.target,
        state=operation.state.value,
        params_hash=operation.params_hash,
        attempts=operation.attempts,
        proposed_at=operation.proposed_at,
        updated_at=state.updated_at,
        wake_at=operation.wake_at,
        reason=operation.reason,
        resource=resource,
    )
