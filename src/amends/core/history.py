"""A run's entries as steps: each event with the operation as it stood after it.

This is what an investigator reads. It verifies the chain on the way, so nobody is told a story that the
record does not carry.
"""

from collections.abc import Iterable
from typing import NamedTuple

from amends.core.chain import GENESIS, Entry, unseal
from amends.core.model import Event, Operation, RunState, apply
from amends.core.states import BETWEEN_RUNS


class Step(NamedTuple):
    """One event: in entry ``seq``, recorded at ``at_ms`` by ``worker``; ``operation`` as it stood after it."""

    seq: int
    at_ms: int
    worker: str
    event: Event
    operation: Operation | None


class History(NamedTuple):
    """A run and everything that led to it, in order."""

    state: RunState
    steps: tuple[Step, ...]

    def of(self, operation: str) -> tuple[Step, ...]:
        """The steps of one operation."""
        return tuple(step for step in self.steps if step.event.operation == operation)


def history(run: str, entries: Iterable[Entry]) -> History:
    """Unseal and fold ``entries`` of ``run``.

    Raises:
        ChainBroken, IllegalTransition: the entries do not hold together.
        KeyError, TypeError, ValueError: an entry cannot be read.
    """
    state, head = RunState(run), GENESIS
    steps: list[Step] = []
    for entry in entries:
        header, events = unseal(entry, head)
        for event in events:
            state = apply(state, event, header.at_ms)
            about = None if event.kind in BETWEEN_RUNS else state.operations.get(event.operation)
            steps.append(Step(header.seq, header.at_ms, header.worker, event, about))
        state, head = state._replace(version=state.version + 1), entry.hash
    return History(state, tuple(steps))
