"""Lists as real services give them: newest first, in pages, from an index that may lag behind.

A page that is short, or an object that is missing, is therefore no proof of absence: a reader has to follow
`has_more` to the end and wait out the lag. That is what these destinations exist to rehearse.
"""

import sqlite3
from typing import Final

from amends.testing.rehearsal._knobs import Knobs
from amends.testing.rehearsal._store import find, render, where_equal
from amends.testing.rehearsal._wire import Answer, Call, Json, error

PAGE_OBJECTS_MAX: Final = 100
PAGE_OBJECTS_DEFAULT: Final = 10
_PAGING = frozenset({"limit", "starting_after"})


def list_page(
    connection: sqlite3.Connection,
    call: Call,
    knobs: Knobs,
    *,
    table: str,
    filters: frozenset[str],
    hidden: frozenset[str],
    json_columns: frozenset[str] = frozenset(),
) -> Answer:
    """One page of `table`, filtered by the query; refuses unknown parameters instead of ignoring them."""
    limit = _limit(call)
    if limit is None:
        return error(400, "parameter_invalid", f"limit must be from 1 to {PAGE_OBJECTS_MAX}")
    if extra := sorted(set(call.query) - filters - _PAGING):
        return error(400, "parameter_unknown", f"unknown query parameters: {extra!r}")
    before = _cursor(connection, call, table)
    if before is None:
        return error(400, "resource_missing", f"starting_after names no object: {call.query['starting_after']!r}")
    where, values = where_equal({name: call.query[name] for name in sorted(filters & set(call.query))})
    rows = connection.execute(
        f"SELECT * FROM {table} WHERE {where} AND seq < ? AND created <= ? ORDER BY seq DESC LIMIT ?",
        [*values, before, _visible_until(call, knobs), limit + 1],
    ).fetchall()
    data: list[Json] = [render(row, hidden=hidden, json_columns=json_columns) for row in rows[:limit]]
    return Answer(200, {"object": "list", "data": data, "has_more": len(rows) > limit})


def _limit(call: Call) -> int | None:
    raw = call.query.get("limit", str(PAGE_OBJECTS_DEFAULT))
    if not (raw.isascii() and raw.isdigit() and len(raw) <= 4):
        return None
    return int(raw) if 1 <= int(raw) <= PAGE_OBJECTS_MAX else None


def _cursor(connection: sqlite3.Connection, call: Call, table: str) -> int | None:
    """The sequence number a page starts below; None when the cursor names nothing."""
    after = call.query.get("starting_after")
    if after is None:
        return 2**62
    row = find(connection, table, id=after)
    return None if row is None else int(row["seq"])


def _visible_until(call: Call, knobs: Knobs) -> int:
    """The newest creation time the index shows. Without a lag everything, even if the host's clock stepped back."""
    lag_ms = knobs.number("index_lag_ms")
    return call.now_ms - lag_ms if lag_ms else 2**62
