"""The one place where SQLite's errors become ours."""

import sqlite3
from pathlib import Path
from typing import Final

from amends.errors import AmendsError, LedgerCorrupt, LedgerIntegrityError, LedgerUnavailable

_CORRUPT: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_LOCKED: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_ADVICE: Final = {
    sqlite3.SQLITE_FULL: "free space on its disk and repeat",
    sqlite3.SQLITE_IOERR: "look at the disk and the system log, then repeat",
    sqlite3.SQLITE_READONLY: "make the file and its directory writable",
    sqlite3.SQLITE_CANTOPEN: "look at the file, its directory and their permissions",
    sqlite3.SQLITE_NOMEM: "free memory and repeat",
}


def code(error: sqlite3.Error) -> int:
    """The primary result code of ``error``; 1 (generic) where SQLite gave none."""
    return (getattr(error, "sqlite_errorcode", None) or sqlite3.SQLITE_ERROR) & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    """Whether somebody else holds the lock."""
    return code(error) in _LOCKED


def translate(error: sqlite3.Error, path: Path, what: str) -> AmendsError:
    """``error``, met while ``what`` ("could not be opened"), as the error a caller sees."""
    name = getattr(error, "sqlite_errorname", None) or type(error).__name__
    facts = {"path": str(path), "sqlite": name}
    start = f"the ledger {str(path)!r} {what}: {error} ({name})"
    number = code(error)
    if number in _CORRUPT or str(error) == "file is not a database":
        keep = "stop, keep the file as it is, and run `amends doctor`"
        return LedgerCorrupt(f"{start}; the file is damaged or not a ledger: {keep}", **facts)
    if number == sqlite3.SQLITE_CONSTRAINT:
        return LedgerIntegrityError(f"{start}; its rows contradict its entries: run `amends doctor`", **facts)
    if number in _LOCKED:
        return LedgerUnavailable(f"{start}; another process kept the write lock: repeat later", **facts)
    return LedgerUnavailable(f"{start}; {_ADVICE.get(number, 'repeat later')}", **facts)
