"""What a caller is told about one operation: its receipt, or the error that says where it stands."""

from amends import errors
from amends.core.acting import can_be_done
from amends.core.evidence import Receipt
from amends.core.model import Operation
from amends.core.standing import to_have_it_done, why
from amends.core.states import STANDS, State
from amends.core.wording import instant


def answer(run: str, operation: Operation, *, waiting_for: str = "") -> Receipt:
    """The receipt of an operation that stands; for every other state, the error that says so.

    ``waiting_for`` says in words what an operation that has not been sent waits for.
    """
    facts = {"run": run, "operation": operation.id, "key": operation.key, "state": operation.state.value}
    if operation.state in STANDS:
        if operation.receipt is None:
            raise errors.ReceiptErased(f"{operation.action} happened; what its receipt said was erased", **facts)
        return Receipt.from_json(operation.receipt)
    said = (
        f"{operation.action} is {operation.state.value} ({_because(operation) or waiting_for or 'no reason recorded'})"
    )
    match operation.state:
        case State.NOT_COMMITTED | State.EXPIRED:
            raise errors.NotCommitted(f"{said}: nothing happened; {to_have_it_done(operation)}", **facts)
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
            raise errors.VerificationFailed(
                f"{said}: see `amends why {operation.id}`. {can_be_done(operation)}", **facts
            )
        case State.HUMAN_REQUIRED:
            raise errors.OutcomeUnknown(
                f"{said}: nothing more is found out by itself (`amends why {operation.id}`). {can_be_done(operation)}",
                resumes_at_ms=None,
                **facts,
            )
        case _:
            raise errors.OutcomeUnknown(
                f"{said}: do not repeat it by hand; {_who_finds_out(operation)} (`amends why {operation.id}`)",
                resumes_at_ms=operation.wake_at,
                **facts,
            )


def _because(operation: Operation) -> str:
    """The recorded word, which programs and manuals know, and what it means here."""
    return f"{operation.reason}: {why(operation)}" if operation.reason else ""


def _who_finds_out(operation: Operation) -> str:
    return "a person finds out" if operation.wake_at is None else f"recovery goes on at {instant(operation.wake_at)}"
