"""A carrier: shipments without idempotency keys, found again only by reference, in a list that lags.

It ignores Idempotency-Key, as real carriers do: two requests are two parcels. A retry is therefore safe only after an
authoritative lookup. A shipment can be cancelled until it is picked up; cancelling twice is a conflict.
Run it: `python -m amends.testing.rehearsal.carrier --store FILE --port 0`.
"""

import sqlite3
from typing import Any, Final

from amends.testing.rehearsal._knobs import Knob, Knobs
from amends.testing.rehearsal._listing import list_page
from amends.testing.rehearsal._service import Destination, Endpoint
from amends.testing.rehearsal._store import Effect, find, insert, render
from amends.testing.rehearsal._wire import Answer, Call, error, text, unknown_fields

_HIDDEN = frozenset({"seq", "key"})
_FILTERS = frozenset({"id", "order", "reference", "account", "key"})
_SCHEMA = """
CREATE TABLE IF NOT EXISTS shipments (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, "order" TEXT NOT NULL,
  reference TEXT NOT NULL, address TEXT NOT NULL, status TEXT NOT NULL, created INTEGER NOT NULL,
  cancelled_at INTEGER, account TEXT NOT NULL, key TEXT);
"""


def create_shipment(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """POST /shipments {order, reference, address?} → 201."""
    if refusal := unknown_fields(call.body, frozenset({"order", "reference", "address"})):
        return refusal
    order, reference = text(call.body, "order"), text(call.body, "reference")
    address = text(call.body, "address", required=False)
    for refused in (order, reference, address):
        if isinstance(refused, Answer):
            return refused
    shipment_id = f"shp_{call.arrival:08d}"
    values = {"id": shipment_id, "order": order, "reference": reference, "address": address}
    made = {"status": "created", "created": call.now_ms, "account": call.account, "key": call.key}
    insert(connection, "shipments", values | made)
    return _show(connection, shipment_id, status=201)


def retrieve_shipment(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """GET /shipments/{id}: strongly consistent."""
    return _show(connection, call.parameters["id"])


def list_shipments(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """GET /shipments?reference=&order=&starting_after=&limit=."""
    filters = frozenset({"reference", "order"})
    return list_page(connection, call, knobs, table="shipments", filters=filters, hidden=_HIDDEN)


def cancel_shipment(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """POST /shipments/{id}/cancel; 409 once picked up, once cancelled, or when refused by control."""
    shipment_id = call.parameters["id"]
    row = find(connection, "shipments", id=shipment_id)
    if row is None:
        return _show(connection, shipment_id)
    if knobs.flag("refuse_cancel"):
        return error(409, "cancel_refused", "the carrier refuses to cancel this shipment")
    if row["status"] != "created":
        return error(409, row["status"], f"the shipment is already {row['status']}")
    connection.execute(
        "UPDATE shipments SET status = 'cancelled', cancelled_at = ? WHERE id = ?", (call.now_ms, shipment_id)
    )
    return _show(connection, shipment_id)


def pick_up(connection: sqlite3.Connection, value: Any, now_ms: int) -> str | None:
    """Seed: the named shipments are on the van."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        return "must be a list of shipment ids"
    for name in value:
        changed = connection.execute(
            "UPDATE shipments SET status = 'picked_up' WHERE id = ? AND status = 'created'", (name,)
        )
        if changed.rowcount != 1:
            return f"no shipment waits under {name!r}"
    return None


def _show(connection: sqlite3.Connection, shipment_id: str, *, status: int = 200) -> Answer:
    row = find(connection, "shipments", id=shipment_id)
    if row is None:
        return error(404, "resource_missing", f"no such shipment: {shipment_id!r}")
    return Answer(status, render(row, hidden=_HIDDEN))


DESTINATION: Final = Destination(
    name="carrier",
    schema=_SCHEMA,
    effects={
        "shipments": Effect("shipments", _FILTERS),
        "cancellations": Effect("shipments", _FILTERS, where="cancelled_at IS NOT NULL"),
    },
    knobs={"refuse_cancel": Knob(False)},
    seeds={"picked_up": pick_up},
    endpoints=(
        Endpoint(method="POST", path="/shipments", run=create_shipment),
        Endpoint(method="GET", path="/shipments", run=list_shipments),
        Endpoint(method="GET", path="/shipments/{id}", run=retrieve_shipment),
        Endpoint(method="POST", path="/shipments/{id}/cancel", run=cancel_shipment),
    ),
)


if __name__ == "__main__":
    from amends.testing.rehearsal._server import main

    main(DESTINATION)
