"""What a run's deadline does to its operations.

What has not left does not leave any more: it expires. What has left is found out, deadline or not: a call
that is on its way is let end, an unknown outcome is looked up. In between stands an operation that was
looked up, not found, and allowed to be sent again. Its first attempt may still arrive late. So it neither
expires, which would say that nothing happened, nor is it sent again: a person has it.
"""

from collections.abc import Callable
from typing import Any, Final

from amends.core.model import Event, Operation, RunState
from amends.core.states import Kind, State

WITHDRAWABLE: Final = frozenset(
    {State.PROPOSED, State.AWAITING_APPROVAL, State.AUTHORIZED, State.PREPARED, State.RETRYABLE}
)
"""States in which nothing is on its way."""


def passed(state: RunState, *, now: int) -> bool:
    """Whether the run's deadline is over at ``now`` (wall-clock milliseconds)."""
    return state.deadline_at is not None and now >= state.deadline_at


def expire(state: RunState, owner: Callable[[str], str]) -> list[Event]:
    """End what is not on its way; ``owner`` says to whom what may have happened goes, by action."""
    waiting = [operation for operation in state.unfinished.values() if operation.state in WITHDRAWABLE]
    return [_expired(operation, owner) for operation in waiting]


def _expired(operation: Operation, owner: Callable[[str], str]) -> Event:
    facts: dict[str, Any] = {"reason": "run_deadline"}
    if not operation.in_doubt:
        return Event(Kind.EXPIRED, operation.id, facts)
    if to := owner(operation.action):
        facts["to"] = to
    return Event(Kind.HUMAN_ESCALATED, operation.id, facts)
