"""One append against the tables: every check first, then the writes.

Because all checks come before the first write, a refused append has nothing to undo and its neighbours in
the same transaction never notice it. Rows other than those named here do not change: what was fixed when
a run was opened or an operation proposed is written once, so a value that was erased stays erased.
"""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Final

from amends.core.chain import GENESIS, entry_hash
from amends.errors import LedgerIntegrityError
from amends.ledger.sql import QUERIES
from amends.ports.ledger import Answer, Append, Applied, NotApplied, Refusal

_PLACE, _APPEND_ID = QUERIES["place"], QUERIES["append_id"]
_OPERATION_EXISTS, _LOCK_HOLDER = QUERIES["operation_exists"], QUERIES["lock_holder"]
_ENTRY, _RUN_INSERT, _RUN_UPDATE = QUERIES["entry_insert"], QUERIES["run_insert"], QUERIES["run_update"]
_OPERATION_INSERT, _OPERATION_UPDATE = QUERIES["operation_insert"], QUERIES["operation_update"]
_ACQUIRE, _RELEASE = QUERIES["lock_acquire"], QUERIES["lock_release"]

APPLIED = Applied()
CONFLICT = NotApplied(Refusal.VERSION_CONFLICT)

Outcome = Answer | LedgerIntegrityError


def put(db: sqlite3.Connection, append: Append) -> Outcome:
    """Apply ``append`` inside the open transaction, or say what stands in the way."""
    outcome = _check(db, append)
    if outcome is APPLIED:
        _write(db, append)
    return outcome


def put_all(db: sqlite3.Connection, appends: Sequence[Append], begin_anew: Callable[[], None]) -> list[Outcome]:
    """Apply each of ``appends``. One whose values SQLite cannot hold is refused alone: the transaction is
    begun anew without it, so its neighbours never notice it.
    """
    refused: dict[int, LedgerIntegrityError] = {}
    while True:
        outcomes: list[Outcome] = []
        for place, append in enumerate(appends):
            try:
                outcomes.append(refused.get(place) or put(db, append))
            except UNSTORABLE as error:
                refused[place] = _unstorable(append, error)
                break
        else:
            return outcomes
        begin_anew()


UNSTORABLE: Final = (
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    sqlite3.DataError,
    OverflowError,
    UnicodeEncodeError,
)
"""What a value raises that cannot be bound: another type, too large, or no text."""


def _unstorable(append: Append, error: Exception) -> LedgerIntegrityError:
    entry = append.entry
    return LedgerIntegrityError(
        f"entry {entry.seq} of run {entry.run!r} was refused: one of its values cannot be stored "
        f"({type(error).__name__}); nothing of it was written",
        run=entry.run,
        seq=entry.seq,
    )


def broken_chain(append: Append) -> LedgerIntegrityError:
    """The error for an entry that was not sealed onto the run's last one."""
    entry = append.entry
    return LedgerIntegrityError(
        f"entry {entry.seq} of run {entry.run!r} was refused: its hash does not follow from the entry "
        "before it; nothing of it was written: load the run again and seal anew",
        run=entry.run,
        seq=entry.seq,
    )


def _check(db: sqlite3.Connection, append: Append) -> Outcome:
    entry = append.entry
    place = db.execute(_PLACE, (entry.run,)).fetchone()
    version, head = place or (0, GENESIS)
    if version != entry.seq - 1:
        there = db.execute(_APPEND_ID, (entry.run, entry.seq)).fetchone()
        return Applied(repeated=True) if there == (entry.append_id,) else CONFLICT
    if append.previous not in (None, head):
        return CONFLICT  # built on an append of its own writer that was refused
    if entry_hash(head, entry.body) != entry.hash:
        return broken_chain(append)
    for operation in append.new_operations:
        if db.execute(_OPERATION_EXISTS, (operation,)).fetchone():
            return NotApplied(Refusal.OPERATION_EXISTS, operation)
    return _check_locks(db, append) if append.acquire else APPLIED


def _check_locks(db: sqlite3.Connection, append: Append) -> Answer:
    wanted: dict[str, str] = {}
    for name, operation in append.acquire:
        other = wanted.setdefault(name, operation)
        row = db.execute(_LOCK_HOLDER, (name,)).fetchone()
        if row is not None and row[0] not in append.release and row[0] != operation:
            other = row[0]
        if other != operation:
            return NotApplied(Refusal.LOCK_HELD, other)
    return APPLIED


def _write(db: sqlite3.Connection, append: Append) -> None:
    entry, run = append.entry, append.run
    db.execute(_ENTRY, entry)
    if entry.seq == 1:
        db.execute(_RUN_INSERT, run)
    else:
        values = (run.version, run.head, run.closed, run.ending, run.updated_at, run.wake_at, run.id)
        db.execute(_RUN_UPDATE, values)
    for row in append.operations:
        if row.id not in append.new_operations:
            change = (
                row.state,
                row.attempts,
                row.updated_at,
                row.wake_at,
                row.reason,
                row.resource,
                row.id,
                row.run,
            )
            if db.execute(_OPERATION_UPDATE, change).rowcount:
                continue
        db.execute(_OPERATION_INSERT, row)
    for operation in append.release:
        db.execute(_RELEASE, (operation,))
    if append.acquire:
        db.executemany(_ACQUIRE, append.acquire)
