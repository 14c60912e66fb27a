"""What a caller is told about one operation: its receipt, or the error that says where it stands."""

from amends import errors
from amends.core.evidence import Receipt
from amends.core.model import Operation
from amends.core.states import STANDS, State


def answer(run: str, operation: Operation, *, waiting_for: str = "") -> Receipt:
    """The receipt of an operation that stands; for every other state, the error that says so.

    ``waiting_for`` says in words what an operation that has not been sent waits for.
    """
    facts = {"run": run, "operation": operation.id, "key": operation.key, "state": operation.state.value}
    if operation.state in STANDS:
        if operation.receipt is None:
            raise errors.ReceiptErased(f"{operation.action} happened; what its receipt said was erased", **facts)
        return Receipt.from_json(operation.receipt)
    why = operation.reason or waiting_for or "no reason recorded"
    said = f"{operation.action} is {operation.state.value} ({why})"
    match operation.state:
        case State.NOT_COMMITTED | State.EXPIRED:
            raise errors.NotCommitted(f"{said}: nothing happened; {_what_next(operation)}", **facts)
        case State.PROPOSED | State.AUTHORIZED | State.PREPARED:
            raise errors.NotCommitted(f"{said}: nothing was sent; ask again, or leave it", **facts)
        case State.RETRYABLE if operation.wake_at is None and not operation.unknown_attempts:
            raise errors.NotCommitted(f"{said}: nothing left", **facts)
        case State.REJECTED:
            raise errors.Refused(f"{said}: policy refused it", **facts)
        case State.AWAITING_APPROVAL:
            raise errors.AwaitingApproval(f"{said}: a person has to decide", **facts)
        case State.CANCELLED:
            raise errors.Cancelled(said, **facts)
        case State.COMPENSATED:
            raise errors.Compensated(f"{said}: it happened and was offset again", **facts)
        case State.RECONCILIATION_REQUIRED:
            raise errors.VerificationFailed(f"{said}: look at it with `amends why {operation.id}`", **facts)
        case _:
            raise errors.OutcomeUnknown(
                f"{said}: do not repeat it by hand; recovery or a person finds out (`amends why {operation.id}`)",
                resumes_at_ms=operation.wake_at,
                **facts,
            )


def _what_next(operation: Operation) -> str:
    if operation.may_be_asked_anew:
        return "ask again once its cause is gone"
    return "correct the request and ask again, or repeat it on purpose with again="
