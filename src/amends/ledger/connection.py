"""Connections to the file, each checked before it is used.

Durability is read back and not assumed: a connection whose ``synchronous`` is not what was asked for, or
whose journal is no WAL, is refused. The journal mode is a property of the file; it is set once, when the
file is made, and never again: setting it takes a lock that other processes would run into.
"""

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from amends.errors import LedgerUnavailable
from amends.ledger import translation
from amends.ledger.filesystem import LOOP, check_place, odd_beside
from amends.ledger.migrations import check_identity, migrate
from amends.ledger.sql import QUERIES

_LEVELS: Final = {"OFF": 0, "FULL": 2}
_PAUSE_S: Final = 0.005
_NO_SHARED_MEMORY: Final = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY})


def connect(path: Path, *, busy_timeout_ms: int, synchronous: str) -> sqlite3.Connection:
    """A connection to the ledger at ``path``, which is made or brought up to date where needed.

    Raises:
        LedgerUnavailable: the place or the file cannot be used now.
        LedgerIntegrityError: it is no ledger, or a newer one.
    """
    check_place(path)
    try:
        db = _raw(path, busy_timeout_ms)
    except sqlite3.Error as error:
        raise translation.translate(error, path, "could not be opened") from error
    try:
        check_identity(db, path)
        _set_up(db, path, busy_timeout_ms, synchronous)
        migrate(db, path)
        db.execute(QUERIES["begin"])  # a file that cannot be written says so now
        db.execute(QUERIES["rollback"])
        _sync_names(path)
    except sqlite3.Error as error:
        db.close()
        raise translation.translate(error, path, "could not be opened") from error
    except BaseException:
        db.close()
        raise
    return db


def _raw(path: Path, busy_timeout_ms: int) -> sqlite3.Connection:
    timeout = busy_timeout_ms / 1000
    return sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False, cached_statements=64)


def _set_up(db: sqlite3.Connection, path: Path, busy_timeout_ms: int, synchronous: str) -> None:
    if _journal(db) != "wal" and _make_wal(db, busy_timeout_ms) != "wal":
        raise LedgerUnavailable(
            f"the ledger {str(path)!r} was not opened: its filesystem does not carry SQLite's WAL; "
            "move it to a local disk",
            path=str(path),
        )
    db.execute(QUERIES["synchronous_" + synchronous.lower()])
    db.execute(QUERIES["secure_delete"]).fetchall()
    level = db.execute(QUERIES["synchronous"]).fetchone()[0]
    if level != _LEVELS[synchronous]:
        raise LedgerUnavailable(
            f"the ledger {str(path)!r} was not opened: SQLite answered synchronous={level}, not 2 (FULL): "
            "a commit could be lost with the power; use an SQLite build that keeps it",
            path=str(path),
            synchronous=level,
        )


def _sync_names(path: Path) -> None:
    """Make the names of the file and its log durable, which both are there by now.

    SQLite does this at the log's first sync, but does not look whether it worked. A log that is synced and
    has no name is lost with the power, and with it every commit in it.
    """
    try:
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise LedgerUnavailable(
            f"the ledger {str(path)!r} could not be opened: its directory could not be synced: {error.strerror}; "
            "look at the disk and the system log, then repeat",
            path=str(path),
        ) from error


def _journal(db: sqlite3.Connection) -> str:
    return str(db.execute(QUERIES["journal_mode"]).fetchone()[0])


def _make_wal(db: sqlite3.Connection, busy_timeout_ms: int) -> str:
    """Change the journal. SQLite does not wait for this lock by itself, so we do."""
    ends = time.monotonic() + busy_timeout_ms / 1000
    while True:
        try:
            return str(db.execute(QUERIES["journal_wal"]).fetchone()[0])
        except sqlite3.OperationalError as error:
            if not translation.is_busy(error) or time.monotonic() > ends:
                raise
            time.sleep(_PAUSE_S)


@contextlib.contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """A connection for one look at an existing ledger: one snapshot, nothing is written or made.

    Raises:
        LedgerUnavailable: there is none, or it cannot be read here.
        LedgerIntegrityError: it is no ledger, or a newer one.
    """
    place = Path(os.path.realpath(path))
    _check_readable(place)
    try:
        with contextlib.closing(_look(place)) as db:
            yield db
    except sqlite3.Error as error:
        raise translation.translate(error, place, "could not be read") from error


def _check_readable(place: Path) -> None:
    if place.is_dir():
        raise _unreadable(place, "it is a directory; name the ledger's file in it")
    if place.is_symlink():
        raise _unreadable(place, f"{LOOP}; name a ledger")
    if not place.exists():
        raise _unreadable(place, "there is no ledger at this path; name an existing one")
    if not place.is_file():
        raise _unreadable(place, "it is not a regular file; name a ledger")
    beside = odd_beside(place)
    if beside:
        raise _unreadable(place, f"{beside}; move it away, then read the ledger again")
    if not os.access(place, os.R_OK):
        raise _unreadable(place, "this process may not read it; give it the permission")


def _look(place: Path) -> sqlite3.Connection:
    """A snapshot of ``place``, also from a directory in which this process may write nothing.

    SQLite reads a WAL ledger through shared memory beside it, which it may have to make. Where it cannot,
    and no log is left that a reader would need, the file alone is the ledger.
    """
    try:
        return _snapshot(place, "mode=ro")
    except sqlite3.OperationalError as error:
        if translation.code(error) not in _NO_SHARED_MEMORY:
            raise
    log = place.with_name(place.name + "-wal")
    if log.exists() and log.stat().st_size:
        raise _unreadable(
            place,
            f"its newest entries are in {log.name!r}, and to read those SQLite has to make {place.name + '-shm'!r} "
            "beside it, which this process may not; make the directory writable, or copy both files to one that is",
        )
    return _snapshot(place, "mode=ro&immutable=1")


def _snapshot(place: Path, how: str) -> sqlite3.Connection:
    db = sqlite3.connect(f"{place.as_uri()}?{how}", uri=True, isolation_level=None, timeout=30)
    try:
        if not check_identity(db, place):
            raise _unreadable(place, "the file is empty: nothing has been recorded in it yet; name another one")
        db.execute(QUERIES["begin_read"])
    except BaseException:
        db.close()
        raise
    return db


def _unreadable(place: Path, why: str) -> LedgerUnavailable:
    return LedgerUnavailable(f"the ledger {str(place)!r} was not read: {why}", path=str(place))
