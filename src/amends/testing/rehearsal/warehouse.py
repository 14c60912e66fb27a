"""A warehouse: items with a version (compare-and-set), and reservations that take stock.

Two ways to reserve, because real services offer either: `POST /reservations` (an optional idempotency key, duplicates
possible) and `PUT /reservations/{reference}` with `If-None-Match: *` (the destination itself refuses a second one).
A released reservation stays as a record, so its reference cannot be created again by a late duplicate (412), and
releasing twice is a conflict (409), while releasing what never was is 404.
Run it: `python -m amends.testing.rehearsal.warehouse --store FILE --port 0`.
"""

import sqlite3
from typing import Any, Final

from amends.testing.rehearsal._conditional import CONDITION_KNOBS, check_match, check_write, etag
from amends.testing.rehearsal._idempotency import KEY_KNOBS
from amends.testing.rehearsal._knobs import Knobs
from amends.testing.rehearsal._listing import list_page
from amends.testing.rehearsal._service import Destination, Endpoint
from amends.testing.rehearsal._store import Effect, fetch, find, insert, render
from amends.testing.rehearsal._wire import Answer, Call, error, text, unknown_fields, whole

UNITS_MAX: Final = 1_000_000
"""Stock of one item, and the most one reservation may take."""

_HIDDEN = frozenset({"seq", "key"})
_FILTERS = frozenset({"id", "sku", "reference", "account", "key"})
_SCHEMA = """
CREATE TABLE IF NOT EXISTS items (sku TEXT PRIMARY KEY, available INTEGER NOT NULL, version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS item_writes (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, sku TEXT NOT NULL, available INTEGER NOT NULL,
  version INTEGER NOT NULL, created INTEGER NOT NULL, account TEXT NOT NULL, key TEXT);
CREATE TABLE IF NOT EXISTS reservations (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, reference TEXT NOT NULL,
  sku TEXT NOT NULL, quantity INTEGER NOT NULL, status TEXT NOT NULL, created INTEGER NOT NULL,
  released_at INTEGER, account TEXT NOT NULL, key TEXT);
"""


def get_item(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """GET /items/{sku} → {sku, available, version} with its ETag."""
    return _show_item(connection, call.parameters["sku"])


def put_item(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """PUT /items/{sku} {available} with If-Match, or If-None-Match: * to create."""
    if refusal := unknown_fields(call.body, frozenset({"available"})):
        return refusal
    available = whole(call.body, "available", least=0, most=UNITS_MAX)
    if isinstance(available, Answer):
        return available
    sku = call.parameters["sku"]
    row = find(connection, "items", sku=sku)
    version = None if row is None else int(row["version"])
    if refusal := check_write(call, version):
        applied = row is not None and row["available"] == available and refusal.status == 412
        return _show_item(connection, sku) if applied and knobs.flag("already_applied") else refusal
    _set_item(connection, sku, available, (version or 0) + 1)
    write = {"sku": sku, "available": available, "version": (version or 0) + 1}
    insert(
        connection,
        "item_writes",
        write | {"created": call.now_ms, "account": call.account, "key": call.key},
    )
    return _show_item(connection, sku, status=200 if row else 201)


def post_reservation(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """POST /reservations {sku, quantity, reference}, optionally If-Match against the item."""
    if refusal := unknown_fields(call.body, frozenset({"sku", "quantity", "reference"})):
        return refusal
    reference = text(call.body, "reference")
    return reference if isinstance(reference, Answer) else _reserve(connection, call, reference)


def put_reservation(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """PUT /reservations/{reference} {sku, quantity} with If-None-Match: * → 201, or 412 when it exists."""
    if call.headers.get("if-none-match", "").strip() != "*":
        return error(428, "precondition_required", "send If-None-Match: *")
    if refusal := unknown_fields(call.body, frozenset({"sku", "quantity"})):
        return refusal
    reference = call.parameters["reference"]
    if _named(connection, reference):
        return error(412, "precondition_failed", f"reservation {reference!r} exists")
    return _reserve(connection, call, reference)


def get_reservation(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """GET /reservations/{reference or id}; 300 when several share the reference."""
    row = _single(connection, call.parameters["reference"])
    return row if isinstance(row, Answer) else Answer(200, render(row, hidden=_HIDDEN))


def list_reservations(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """GET /reservations?sku=&reference=&starting_after=&limit=."""
    filters = frozenset({"sku", "reference"})
    return list_page(connection, call, knobs, table="reservations", filters=filters, hidden=_HIDDEN)


def delete_reservation(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """DELETE /reservations/{reference or id}: release and give the stock back."""
    row = _single(connection, call.parameters["reference"])
    if isinstance(row, Answer):
        return row
    if row["status"] == "released":
        return error(409, "already_released", f"reservation {row['id']!r} was already released")
    item = find(connection, "items", sku=row["sku"])
    if item is not None:
        _set_item(connection, row["sku"], item["available"] + row["quantity"], item["version"] + 1)
    connection.execute(
        "UPDATE reservations SET status = 'released', released_at = ? WHERE id = ?", (call.now_ms, row["id"])
    )
    return _show_reservation(connection, row["id"])


def seed_stock(connection: sqlite3.Connection, value: Any, now_ms: int) -> str | None:
    """Seed: `{"stock": {"SKU": 5}}` puts items in place; the version moves on as for any change."""
    if not isinstance(value, dict) or not all(type(units) is int for units in value.values()):
        return "must map a sku to a whole number"
    for sku, units in value.items():
        row = find(connection, "items", sku=sku)
        _set_item(connection, sku, units, 1 if row is None else row["version"] + 1)
    return None


def _reserve(connection: sqlite3.Connection, call: Call, reference: str) -> Answer:
    sku = text(call.body, "sku")
    quantity = whole(call.body, "quantity", least=1, most=UNITS_MAX)
    if isinstance(sku, Answer):
        return sku
    if isinstance(quantity, Answer):
        return quantity
    item = find(connection, "items", sku=sku)
    if item is None:
        return error(404, "resource_missing", f"no such item: {sku!r}")
    if refusal := check_match(call, item["version"]):
        return refusal
    if item["available"] < quantity:
        return error(409, "out_of_stock", f"{quantity} of {sku!r} asked for, {item['available']} available")
    _set_item(connection, sku, item["available"] - quantity, item["version"] + 1)
    values = {"id": f"rsv_{call.arrival:08d}", "reference": reference, "sku": sku, "quantity": quantity}
    made = {"status": "reserved", "created": call.now_ms, "account": call.account, "key": call.key}
    insert(connection, "reservations", values | made)
    return _show_reservation(connection, str(values["id"]), status=201)


def _named(connection: sqlite3.Connection, name: str) -> list[sqlite3.Row]:
    """Reservations whose id or reference is `name`."""
    return connection.execute(
        "SELECT * FROM reservations WHERE id = ? OR reference = ? ORDER BY seq", (name, name)
    ).fetchall()


def _single(connection: sqlite3.Connection, name: str) -> sqlite3.Row | Answer:
    rows = _named(connection, name)
    if not rows:
        return error(404, "resource_missing", f"no such reservation: {name!r}")
    if len(rows) > 1:
        ids = [row["id"] for row in rows]
        return error(300, "several_match", f"reference {name!r} names {ids!r}; use an id")
    return rows[0]


def _set_item(connection: sqlite3.Connection, sku: str, available: int, version: int) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO items (sku, available, version) VALUES (?, ?, ?)", (sku, available, version)
    )


def _show_item(connection: sqlite3.Connection, sku: str, *, status: int = 200) -> Answer:
    row = find(connection, "items", sku=sku)
    if row is None:
        return error(404, "resource_missing", f"no such item: {sku!r}")
    return Answer(status, render(row, hidden=frozenset()), {"ETag": etag(row["version"])})


def _show_reservation(connection: sqlite3.Connection, reservation_id: str, *, status: int = 200) -> Answer:
    row = fetch(connection, "reservations", id=reservation_id)
    return Answer(status, render(row, hidden=_HIDDEN))


DESTINATION: Final = Destination(
    name="warehouse",
    schema=_SCHEMA,
    effects={
        "reservations": Effect("reservations", _FILTERS),
        "releases": Effect("reservations", _FILTERS, where="released_at IS NOT NULL"),
        "item_writes": Effect("item_writes", frozenset({"sku", "account", "key"})),
    },
    knobs={**KEY_KNOBS, **CONDITION_KNOBS},
    seeds={"stock": seed_stock},
    endpoints=(
        Endpoint(method="GET", path="/items/{sku}", run=get_item),
        Endpoint(method="PUT", path="/items/{sku}", run=put_item),
        Endpoint(method="POST", path="/reservations", run=post_reservation, keyed=True),
        Endpoint(method="GET", path="/reservations", run=list_reservations),
        Endpoint(method="PUT", path="/reservations/{reference}", run=put_reservation),
        Endpoint(method="GET", path="/reservations/{reference}", run=get_reservation),
        Endpoint(method="DELETE", path="/reservations/{reference}", run=delete_reservation),
    ),
)


if __name__ == "__main__":
    from amends.testing.rehearsal._server import main

    main(DESTINATION)
