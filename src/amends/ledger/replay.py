"""Entries back to state and rows: what check, rebuild and erasure share."""

from collections.abc import Iterable
from typing import NamedTuple

from amends.core.chain import GENESIS, ChainBroken, Entry, unseal
from amends.core.model import IllegalTransition, RunState, fold
from amends.ports.ledger import OperationRow, RunRow
from amends.ports.projection import changed, rows


class Replayed(NamedTuple):
    """A run as far as its entries carry it. ``broken`` says at which entry it stopped, and why."""

    state: RunState
    run: RunRow | None
    operations: dict[str, OperationRow]
    broken: str = ""


def replay(run: str, entries: Iterable[Entry]) -> Replayed:
    """Verify and fold the entries of one run. Never raises for what is in them."""
    state, head = RunState(id=run), GENESIS
    row: RunRow | None = None
    operations: dict[str, OperationRow] = {}
    for expected, entry in enumerate(entries, 1):
        if entry.seq != expected:
            return Replayed(state, row, operations, f"entry {expected} is missing; the next one is {entry.seq}")
        try:
            header, events = unseal(entry, head)
            state, head = fold(state, events, header.at_ms), entry.hash
            row, touched = rows(state, head, changed(events))
        except (ChainBroken, IllegalTransition) as error:
            return Replayed(state, row, operations, f"entry {expected}: {error}")
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            why = f"entry {expected} cannot be read: {type(error).__name__}: {error}"
            return Replayed(state, row, operations, why)
        operations.update((operation.id, operation) for operation in touched)
    return Replayed(state, row, operations)
