"""The destination's own store: one SQLite file, one connection, one writer.

Effects are counted here and nowhere else. WAL with synchronous=FULL makes a commit durable before the answer is
sent, so a count read after `kill -9` and a restart is the truth about what the destination did.
The arrivals log is written in its own transaction *before* the effect: it says what reached the destination, even
when the destination died before acting on it.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from amends.testing.rehearsal._wire import Call, Json

ARRIVALS_MAX: Final = 10_000
"""Arrivals in one answer: more than any rehearsal sends."""

_BASE_SCHEMA = """
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS arrivals (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, method TEXT NOT NULL, path TEXT NOT NULL, key TEXT,
  account TEXT NOT NULL, at_ms INTEGER NOT NULL, status INTEGER);
CREATE TABLE IF NOT EXISTS keys (
  account TEXT NOT NULL, key TEXT NOT NULL, fingerprint TEXT NOT NULL, status INTEGER NOT NULL,
  body TEXT NOT NULL, stored_ms INTEGER NOT NULL, PRIMARY KEY (account, key));
"""


@dataclass(frozen=True, slots=True)
class Effect:
    """How one kind of effect is counted: rows of `table` that satisfy `where`; `filters` are its columns."""

    table: str
    filters: frozenset[str]
    where: str = "1"


class Store:
    """Tables, transactions and counts of one destination. Not shared between threads."""

    def __init__(self, path: Path, schema: str) -> None:
        self.connection: sqlite3.Connection = sqlite3.connect(path, isolation_level=None)
        self.connection.row_factory = sqlite3.Row
        self.connection.execute("PRAGMA busy_timeout=5000")
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=FULL")
        self.connection.executescript(_BASE_SCHEMA + schema)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit on a normal exit, roll back on any exception. Never awaits inside."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield self.connection
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    def arrive(self, call: Call) -> int:
        """Log a mutating request before anything is done about it; its number names what it creates."""
        with self.transaction() as connection:
            cursor = connection.execute(
                "INSERT INTO arrivals (method, path, key, account, at_ms) VALUES (?, ?, ?, ?, ?)",
                (call.method, call.path, call.key, call.account, call.now_ms),
            )
        return cursor.lastrowid or 0

    def arrivals(self, filters: Mapping[str, str]) -> list[Json]:
        """The arrivals log, oldest first."""
        where, values = where_equal(filters)
        rows = self.connection.execute(
            f"SELECT * FROM arrivals WHERE {where} ORDER BY seq LIMIT {ARRIVALS_MAX}", values
        )
        return [dict(row) for row in rows]

    def count(self, effects: Mapping[str, Effect], filters: Mapping[str, str]) -> dict[str, int]:
        """Count each kind of effect; a kind without one of the filter's columns is left out, not guessed at."""
        return {
            name: self._count(effect, filters) for name, effect in effects.items() if effect.filters.issuperset(filters)
        }

    def _count(self, effect: Effect, filters: Mapping[str, str]) -> int:
        where, values = where_equal(filters)
        row = self.connection.execute(
            f"SELECT COUNT(*) FROM {effect.table} WHERE {effect.where} AND {where}", values
        ).fetchone()
        return int(row[0])

    def clear(self) -> None:
        """Forget everything. Sequences go on, so an id from before the reset never names a new object."""
        with self.transaction() as connection:
            names = connection.execute(
                "SELECT name FROM sqlite_schema WHERE type='table' AND name NOT LIKE 'sqlite_%'"
            ).fetchall()
            for (name,) in names:
                connection.execute(f'DELETE FROM "{name}"')

    def close(self) -> None:
        """Close the file; SQLite folds the WAL back when this was the last connection."""
        self.connection.close()


def where_equal(filters: Mapping[str, str]) -> tuple[str, list[str]]:
    """A WHERE clause of equalities. Column names come from our own declarations, values are bound."""
    clause = " AND ".join(f'"{name}" = ?' for name in filters) or "1"
    return clause, list(filters.values())


def insert(connection: sqlite3.Connection, table: str, values: Mapping[str, Any]) -> None:
    """Insert one row; lists and maps are kept as JSON text."""
    columns = ", ".join(f'"{name}"' for name in values)
    marks = ", ".join("?" for _ in values)
    stored = [json.dumps(value) if isinstance(value, dict | list) else value for value in values.values()]
    connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", stored)


def find(connection: sqlite3.Connection, table: str, **filters: str) -> sqlite3.Row | None:
    """The one row with these values, or None."""
    where, values = where_equal(filters)
    row: sqlite3.Row | None = connection.execute(f"SELECT * FROM {table} WHERE {where} LIMIT 1", values).fetchone()
    return row


def fetch(connection: sqlite3.Connection, table: str, **filters: str) -> sqlite3.Row:
    """The one row that must be there, because this transaction made it; raises LookupError."""
    row = find(connection, table, **filters)
    if row is None:
        raise LookupError(f"{table} has no row with {filters!r}")
    return row


def render(row: sqlite3.Row, *, hidden: frozenset[str], json_columns: frozenset[str] = frozenset()) -> Json:
    """A row as the JSON object a client sees."""
    return {
        name: json.loads(row[name]) if name in json_columns else row[name]
        for name in row.keys()  # noqa: SIM118 - a sqlite3.Row iterates over its values
        if name not in hidden
    }
