"""How a run has ended, as a function of its facts (R36, G7).

Exactly one of seven, or none while something is still going on. Where several would fit, the least
settled one counts. The order in which facts arrived does not matter: only the facts do.
"""

from enum import StrEnum
from typing import Final

from amends.core.model import Event, Operation, RunState
from amends.core.states import NOTHING_HAPPENED, STANDS, UNRESOLVED, Kind, State
from amends.core.terms import Recovery


class Ending(StrEnum):
    """The seven endings of R36."""

    COMPLETED = "completed"
    FAILED_CLEAN = "failed_clean"
    FAILED_COMPENSATED = "failed_compensated"
    FAILED_RECONCILED = "failed_reconciled"
    FAILED_WITH_IRREVERSIBLE_EFFECT = "failed_with_irreversible_effect"
    FAILED_RECONCILIATION_REQUIRED = "failed_reconciliation_required"
    UNKNOWN = "unknown"


UNSETTLED: Final = frozenset({Ending.UNKNOWN, Ending.FAILED_RECONCILIATION_REQUIRED})
"""Endings that are reported and yet stay open for work."""

_AT_REST: Final = frozenset({State.HUMAN_REQUIRED, State.RECONCILIATION_REQUIRED, State.COMPENSATION_FAILED})
"""States in which an operation of another run waits for a person, though we go on looking at it."""

_IDLE: Final = frozenset({State.PROPOSED, State.AUTHORIZED, State.PREPARED, State.RETRYABLE})
"""States of which nothing has left; without a planned pass nobody is working on them."""


def ending_of(state: RunState) -> Ending | None:
    """The run's ending by its facts; ``None`` while something is going on or the program is not done."""
    if going_on(state) or state.end_state.open:
        return None
    unfinished = state.unfinished.values()
    states = {operation.state for operation in unfinished} | {other.state for other in state.joined.values()}
    if states & {State.OUTCOME_UNKNOWN, State.RECONCILING, State.HUMAN_REQUIRED}:
        return Ending.UNKNOWN
    if states & UNRESOLVED or state.end_state.said == "failed":
        return Ending.FAILED_RECONCILIATION_REQUIRED
    if state.closed is None:
        return None
    if state.closed == "returned":
        return Ending.COMPLETED
    return _failed(
        [operation for operation in state.operations.values() if operation.state not in NOTHING_HAPPENED | _IDLE]
    )


def going_on(state: RunState) -> bool:
    """Whether something is being done for an operation of the run, or for one that it joined."""
    # a settled operation is neither in motion nor unresolved
    return any(_in_motion(operation) for operation in state.unfinished.values()) or any(
        other.wake_at is not None and other.state not in _AT_REST for other in state.joined.values()
    )


def _failed(happened: list[Operation]) -> Ending:
    if not happened:
        return Ending.FAILED_CLEAN
    standing = [operation for operation in happened if operation.state in STANDS]
    if any(Recovery(op.recovery).treated_as is Recovery.IRREVERSIBLE for op in standing):
        return Ending.FAILED_WITH_IRREVERSIBLE_EFFECT
    return Ending.FAILED_RECONCILIATION_REQUIRED if standing else Ending.FAILED_COMPENSATED


def _in_motion(operation: Operation) -> bool:
    if operation.settled or operation.resting:
        return False
    return operation.state not in _IDLE or operation.wake_at is not None


def settle(state: RunState) -> list[Event]:
    """The event that brings the recorded ending in line with the facts, if one is needed."""
    ending = ending_of(state)
    if ending == state.ending:
        return []
    if ending is None:
        return [Event(Kind.RUN_REOPENED, "", {"by": "evidence"})]
    return [Event(Kind.RUN_ENDED, "", {"ending": ending.value})]
