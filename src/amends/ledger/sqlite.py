"""The ledger in one SQLite file: WAL, ``synchronous=FULL``, ``BEGIN IMMEDIATE``.

Two connections. One writes, batch by batch (see ``writer``); the other reads what is committed, by this
process or another. After any error of SQLite while a batch was open, the batch is rolled back, the
connection is thrown away and everyone in the batch hears that nothing was acknowledged; the next use
opens a new connection. Whoever was told "applied" was told so after COMMIT had returned, and after the
path had been found to name the file still (see ``mooring``).

A connection must not cross a fork: its locks stay with the parent. Use in a child is refused.
"""

import contextlib
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

from amends.core.chain import Entry
from amends.core.identity import operation_of
from amends.errors import UsageError
from amends.ledger import batch, points, translation
from amends.ledger.connection import connect
from amends.ledger.erasure import erase_run
from amends.ledger.mooring import Mooring
from amends.ledger.sql import QUERIES
from amends.ledger.writer import Busy, GroupWriter
from amends.ports.ledger import Answer, Append, LedgerCounts, OperationRow, RunRow

BEGIN, COMMIT, ROLLBACK = QUERIES["begin"], QUERIES["commit"], QUERIES["rollback"]
_NOBODY = "could not be written; nothing of this batch was acknowledged"


class SqliteLedger:
    """A ledger in the file at ``path``.

    Args:
        path: the file; it is made when it is missing, its directory is not.
        busy_timeout_ms: how long a write waits for another process's write lock.

    Safe to use from several tasks, threads and event loops of one process; any number of processes may
    use one file, each with its own object.
    """

    _SYNCHRONOUS: ClassVar[str] = "FULL"
    """Only the power-loss test's negative control overrides this."""

    def __init__(self, path: str | os.PathLike[str], *, busy_timeout_ms: int = 30_000) -> None:
        self._path = Path(os.path.realpath(path))
        self._busy_timeout_ms = busy_timeout_ms
        self._mooring = Mooring(self._path)
        self._reader: sqlite3.Connection | None = None
        self._connection: sqlite3.Connection | None = None
        self._waits = True
        self._reading, self._writing = Lock(), Lock()
        self._writer: GroupWriter | None = None
        self._pid = 0
        self._commits = self._appends = 0

    @property
    def path(self) -> Path:
        """The file, resolved."""
        return self._path

    @property
    def url(self) -> str:
        """Where it is, for messages."""
        return f"sqlite:///{self._path}"

    @property
    def counts(self) -> LedgerCounts:
        """Commits and appends so far."""
        return LedgerCounts(self._commits, self._appends)

    async def open(self) -> None:
        """Open and check the file. Idempotent.

        Raises:
            LedgerUnavailable: the place or the file cannot be used; the message says why.
            LedgerTooNew: a newer Amends wrote it.
            LedgerCorrupt: it is no ledger.
        """
        if self._writer is not None:
            self._check_use()
            return
        self._mooring = Mooring(self._path)
        self._connection = self._connect()
        try:
            self._reader = self._connect()
            self._mooring.connected()
        except BaseException:
            self._close()
            raise
        self._pid = os.getpid()
        self._writer = GroupWriter(self._write)

    async def close(self) -> None:
        """Write what is queued and close. Idempotent."""
        writer, self._writer = self._writer, None
        if writer is None or os.getpid() != self._pid:
            return
        await writer.drain()
        with self._writing, self._reading:
            self._close()

    async def append(self, append: Append) -> Answer:
        """Durable when it returns ``Applied``; see the port. Cancelling the wait withdraws nothing."""
        return await self._check_use().submit(append)

    async def erase(self, run: str, names: Sequence[str] | None = None) -> int:
        """Erase content of ``run`` for good: all of it, or the fields ``names`` of every entry.

        Chain, key and fold stay whole; the rows lose what the content gave them. The log is emptied
        afterwards, so the values do not stay there (backups are the operator's). Idempotent. Returns the
        number of entries that changed.
        """
        changed: int = await self._check_use().run(self._erase, run, names)
        return changed

    def load(self, run: str) -> list[Entry]:
        """All entries of a run in order; empty when it is not known."""
        return [Entry(*row) for row in self._read("load", run)]

    def version(self, run: str) -> int:
        """The run's version; 0 when it is not known."""
        rows = self._read("run_version", run)
        return int(rows[0][0]) if rows else 0

    def run(self, run: str) -> RunRow | None:
        """The run's row."""
        rows = self._read("run", run)
        return RunRow(*rows[0]) if rows else None

    def operation(self, operation: str) -> OperationRow | None:
        """The operation's row, whatever run it belongs to."""
        rows = self._read("operation", operation)
        return OperationRow(*rows[0]) if rows else None

    def due(self, now_ms: int, *, limit: int, after: tuple[int, str] = (-1, "")) -> list[tuple[str, int]]:
        """Runs whose wake is due, oldest first."""
        return self._read("due", now_ms, limit, *after)

    def next_wake(self) -> int | None:
        """The earliest planned wake of any run."""
        wake: int | None = self._read("next_wake")[0][0]
        return wake

    def runs(
        self,
        *,
        tenant: str | None = None,
        ending: str | None = None,
        limit: int = 100,
        before: int | None = None,
    ) -> list[RunRow]:
        """Runs, newest first."""
        return [RunRow(*row) for row in self._read("newest", tenant, ending, limit, before)]

    def search(self, text: str, *, limit: int = 100) -> Sequence[OperationRow]:
        """Operations whose id, key, run, target or resource is exactly ``text``."""
        return [OperationRow(*row) for row in self._read("search", text, operation_of(text), limit)]

    def unresolved(self, *, limit: int = 1000) -> Sequence[OperationRow]:
        """Operations that are neither settled nor at rest before a call."""
        return [OperationRow(*row) for row in self._read("unresolved", limit)]

    def _check_use(self) -> GroupWriter:
        if self._writer is None:
            raise UsageError(
                f"the ledger {str(self._path)!r} is not open: its application was closed, or not started; "
                "do this inside `async with app:`"
            )
        if os.getpid() != self._pid:
            raise UsageError(
                f"the ledger {str(self._path)!r} was opened by process {self._pid} and used by "
                f"{os.getpid()} after a fork: SQLite's locks stay with the parent; "
                "make a new SqliteLedger in the child",
                path=str(self._path),
            )
        self._mooring.refuse_if_lost()
        return self._writer

    def _connect(self) -> sqlite3.Connection:
        self._mooring.before_connecting()
        return connect(self._path, busy_timeout_ms=self._busy_timeout_ms, synchronous=self._SYNCHRONOUS)

    def _read(self, name: str, *values: Any) -> list[Any]:
        self._check_use()
        with self._reading:
            if self._reader is None:
                self._reader = self._connect()
            try:
                return self._reader.execute(QUERIES[name], values).fetchall()
            except sqlite3.Error as error:
                with contextlib.suppress(sqlite3.Error):
                    self._reader.close()
                self._reader = None
                raise translation.translate(error, self._path, "could not be read") from error

    def _write(self, appends: Sequence[Append], wait: bool) -> Sequence[batch.Outcome]:
        """The batch in one transaction; all of it or nothing is acknowledged."""
        if not self._writing.acquire(blocking=wait):
            raise Busy
        try:
            db = self._begin(wait)
            outcomes = batch.put_all(db, appends, lambda: self._begin_anew(db, wait))
            applied = outcomes.count(batch.APPLIED)
            points.reached("ledger.before_commit")
            db.execute(COMMIT if applied else ROLLBACK)
            points.reached("ledger.after_commit")
            self._mooring.check()
            self._commits += bool(applied)
            self._appends += applied
        except sqlite3.Error as error:
            self._discard()
            raise translation.translate(error, self._path, _NOBODY) from error
        except Busy:
            raise
        except BaseException:
            self._discard()
            raise
        finally:
            self._writing.release()
        return outcomes

    def _begin(self, wait: bool) -> sqlite3.Connection:
        """The write connection, with the write lock held."""
        db = self._connection
        if db is None:
            if not wait:
                raise Busy
            db = self._connection = self._connect()
            self._mooring.connected()
            self._waits = True
        if wait is not self._waits:
            timeout = f"PRAGMA busy_timeout = {int(self._busy_timeout_ms)}"
            db.execute(timeout if wait else QUERIES["do_not_wait"])
            self._waits = wait
        try:
            db.execute(BEGIN)
        except sqlite3.Error as error:
            if not wait and translation.is_busy(error):
                raise Busy from None
            raise
        return db

    def _begin_anew(self, db: sqlite3.Connection, wait: bool) -> None:
        db.execute(ROLLBACK)
        self._begin(wait)

    def _discard(self) -> None:
        """Roll back and throw the write connection away; the next use opens a new one."""
        db, self._connection = self._connection, None
        if db is not None:
            with contextlib.suppress(sqlite3.Error):
                if db.in_transaction:
                    db.execute(ROLLBACK)
            with contextlib.suppress(sqlite3.Error):
                db.close()

    def _close(self) -> None:
        self._discard()
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _erase(self, run: str, names: Sequence[str] | None) -> int:
        with self._writing:
            try:
                db = self._begin(True)
                changed = erase_run(db, run, names)
                db.execute(COMMIT)
                db.execute(QUERIES["truncate_wal"]).fetchall()
                self._mooring.check()
            except sqlite3.Error as error:
                self._discard()
                raise translation.translate(error, self._path, "could not be erased from") from error
            except BaseException:
                self._discard()
                raise
        return changed


__all__ = ["SqliteLedger"]
