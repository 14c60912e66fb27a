"""Does the record hold together? And the current-state tables made anew from the entries.

``check`` trusts nothing: it verifies every chain, folds every run and compares each row with what the
entries say. What somebody with write access to the whole file can still hide from it stands in
``WITHOUT_ANCHOR``; only a signed checkpoint kept elsewhere shows that (see ``anchor``).
"""

import itertools
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from amends.core.chain import Entry
from amends.core.states import SETTLED
from amends.errors import LedgerCorrupt
from amends.ledger import translation
from amends.ledger.connection import connect, reading
from amends.ledger.migrations import MIGRATIONS
from amends.ledger.replay import Replayed, replay
from amends.ledger.sql import QUERIES, statements
from amends.ledger.sqlite import SqliteLedger
from amends.ports.ledger import OperationRow, RunRow

WITHOUT_ANCHOR: Final = (
    "Without an anchor outside the ledger's storage it cannot be seen when the newest entries of a "
    "run, or whole runs, were removed together with their rows and the file's counters, or when the "
    "whole file was replaced by an older or a newly made one."
)

Source = SqliteLedger | str | os.PathLike[str]


class Finding(NamedTuple):
    """One thing that is at odds. ``kind`` is stable; ``what`` is for people."""

    kind: str
    what: str
    run: str = ""
    operation: str = ""


def path_of(source: Source) -> Path:
    """The file of ``source``."""
    return source.path if isinstance(source, SqliteLedger) else Path(os.path.realpath(source))


def check(source: Source) -> list[Finding]:
    """Everything in the ledger that does not follow from its entries; empty when all is well.

    Reads one snapshot and writes nothing; safe while others append. What no check of the file alone can
    see stands in ``WITHOUT_ANCHOR``.
    """
    with reading(path_of(source)) as db:
        findings = [*_file(db), *_positions(db)]
        return [*findings, *_tables(db)]


def _file(db: sqlite3.Connection) -> Iterator[Finding]:
    for (line,) in db.execute(QUERIES["integrity_check"]).fetchall():
        if line != "ok":
            yield Finding("file", f"SQLite's integrity check: {line}")
    fresh = sqlite3.connect(":memory:", isolation_level=None)
    for file in MIGRATIONS:
        for statement in statements(file).values():
            fresh.execute(statement)
    wanted = set(fresh.execute(QUERIES["schema"]).fetchall())
    fresh.close()
    found = set(db.execute(QUERIES["schema"]).fetchall())
    for kind, name, _ in sorted(wanted ^ found):
        yield Finding("schema", f"the {kind} {name!r} is not as the migrations make it")


def _positions(db: sqlite3.Connection) -> Iterator[Finding]:
    for (position,) in db.execute(QUERIES["position_gaps"]):
        yield Finding("position", f"entries before position {position} were deleted")
    _, last, handed_out = db.execute(QUERIES["positions"]).fetchone()
    if last != handed_out:
        yield Finding("position", f"the last entry stands at {last}, but {handed_out} positions were handed out")
    for run, seq in db.execute(QUERIES["out_of_order"]):
        yield Finding("position", f"entry {seq} stands before the entry it follows", run)


def replayed(db: sqlite3.Connection) -> Iterator[Replayed]:
    """Every run of the ledger, one at a time."""
    rows = map(Entry._make, db.execute(QUERIES["all_entries"]))
    for run, entries in itertools.groupby(rows, key=lambda entry: entry.run):
        yield replay(run, entries)


def _tables(db: sqlite3.Connection) -> Iterator[Finding]:
    runs = {row[0]: RunRow(*row) for row in db.execute(QUERIES["all_runs"])}
    operations = {row[0]: OperationRow(*row) for row in db.execute(QUERIES["all_operations"])}
    states: dict[str, str] = {}
    for result in replayed(db):
        run = result.state.id
        stored = runs.pop(run, None)
        if result.broken:
            yield Finding("chain", result.broken, run)
            for name in [o.id for o in operations.values() if o.run == run]:
                states[name] = operations.pop(name).state
            continue
        yield from _compare_run(run, stored, result.run)
        for name, row in result.operations.items():
            states[name] = row.state
            yield from _compare_operation(name, operations.pop(name, None), row)
    for run in runs:
        yield Finding("run_extra", "its row has no entries: they were deleted, or it was put there", run)
    for row in operations.values():
        yield Finding("operation_extra", "no entry proposed it", row.run, row.id)
    yield from _compare_locks(db, states)


def _compare_run(run: str, stored: RunRow | None, due: RunRow | None) -> Iterator[Finding]:
    if stored is None or due is None:
        yield Finding("run_missing", "its row is missing", run)
    elif stored.version > due.version:
        cut = f"its row knows version {stored.version}, its entries end at {due.version}: the end was cut off"
        yield Finding("tail", cut, run)
    elif stored != due:
        yield Finding("run_differs", _difference(stored, due), run)


def _compare_operation(name: str, stored: OperationRow | None, due: OperationRow) -> Iterator[Finding]:
    if stored is None:
        yield Finding("operation_missing", "its row is missing", due.run, name)
    elif stored != due:
        yield Finding("operation_differs", _difference(stored, due), due.run, name)


def _difference(stored: Any, due: Any) -> str:
    names = [n for n, one, two in zip(stored._fields, stored, due, strict=True) if one != two]
    return f"its row differs from its entries in {', '.join(names)}"


def _compare_locks(db: sqlite3.Connection, states: dict[str, str]) -> Iterator[Finding]:
    for name, operation in db.execute(QUERIES["all_locks"]):
        state = states.get(operation)
        if state is None or state in SETTLED:
            why = "is not known" if state is None else f"is {state} and gives nothing back any more"
            yield Finding("lock", f"the lock {name!r} is held by an operation that {why}", "", operation)


def rebuild(source: Source) -> int:
    """Make the rows of runs and operations anew from the entries; the number of runs.

    One transaction: all or nothing. Locks held by unknown or settled operations are dropped, others are
    kept as they are: who holds a lock now is not among the entries. Safe while others append.

    Raises:
        LedgerCorrupt: a chain does not verify; nothing is changed then.
    """
    path = path_of(source)
    db = connect(path, busy_timeout_ms=30_000, synchronous="FULL")
    try:
        db.execute(QUERIES["begin"])
        count = _rewrite(db)
        db.execute(QUERIES["commit"])
    except sqlite3.Error as error:
        raise translation.translate(error, path, "could not be rebuilt; nothing was changed") from error
    finally:
        db.close()  # an open transaction is rolled back by it
    return count


def _rewrite(db: sqlite3.Connection) -> int:
    db.execute(QUERIES["runs_clear"])
    db.execute(QUERIES["operations_clear"])
    states: dict[str, str] = {}
    count = 0
    for result in replayed(db):
        if result.broken or result.run is None:
            why = f"run {result.state.id!r} does not verify: {result.broken}; nothing was changed"
            raise LedgerCorrupt(f"{why}: keep the file and run `amends doctor`", run=result.state.id)
        db.execute(QUERIES["run_insert"], result.run)
        db.executemany(QUERIES["operation_insert"], result.operations.values())
        states |= {name: row.state for name, row in result.operations.items()}
        count += 1
    for finding in list(_compare_locks(db, states)):
        db.execute(QUERIES["lock_release"], (finding.operation,))
    return count
