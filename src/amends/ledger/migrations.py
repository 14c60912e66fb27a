"""From an empty file to a ledger, and from an older one to this one.

``application_id`` says that the file is a ledger of ours; ``user_version`` is the number of the last
migration that ran. Each migration is one transaction, checked again inside it, so any number of
processes may open a new file at once.
"""

import sqlite3
from pathlib import Path
from typing import Final

from amends.errors import LedgerCorrupt, LedgerTooNew
from amends.ledger.sql import QUERIES, statements

APPLICATION_ID: Final = 0x414D4E44  # "AMND"
MIGRATIONS: Final = ("0001.sql",)
VERSION: Final = len(MIGRATIONS)


def check_identity(db: sqlite3.Connection, path: Path) -> int:
    """The schema version of the file, 0 for an empty one.

    Raises:
        LedgerCorrupt: the file is some other program's database.
        LedgerTooNew: a newer Amends wrote it.
    """
    application, version, empty = _identity(db)
    if application != APPLICATION_ID and not empty:
        raise LedgerCorrupt(
            f"{str(path)!r} is an SQLite database but no ledger (its application id is {application:#x}, "
            f"a ledger's is {APPLICATION_ID:#x}); nothing was written to it: name another file",
            path=str(path),
        )
    if version > VERSION:
        raise LedgerTooNew(
            f"the ledger {str(path)!r} has schema {version}, this Amends knows {VERSION} and older; "
            "nothing was written to it: upgrade Amends",
            path=str(path),
            version=version,
        )
    return version


def _identity(db: sqlite3.Connection) -> tuple[int, int, bool]:
    """Application id, schema version and whether the file is empty, all of one snapshot.

    Read one by one, a file that another process is making meanwhile looks like somebody else's.
    """
    ours = not db.in_transaction
    if ours:
        db.execute(QUERIES["begin_read"])
    try:
        application: int = db.execute(QUERIES["application_id"]).fetchone()[0]
        version: int = db.execute(QUERIES["user_version"]).fetchone()[0]
        return application, version, not application and not version and not db.execute(QUERIES["schema"]).fetchall()
    finally:
        if ours and db.in_transaction:  # SQLite has rolled back by itself after some errors
            db.execute(QUERIES["rollback"])


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Run what is missing, each migration in its own transaction."""
    while (version := check_identity(db, path)) < VERSION:
        db.execute(QUERIES["begin"])
        try:
            if check_identity(db, path) == version:
                for statement in statements(MIGRATIONS[version]).values():
                    db.execute(statement)
            db.execute(QUERIES["commit"])
        except BaseException:
            if db.in_transaction:
                db.execute(QUERIES["rollback"])
            raise
