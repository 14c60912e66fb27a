"""A payment service with the rules Stripe v1 documents: charges, refunds, idempotency keys, paged lists.

It rehearses what hurts: a key forgotten after its window makes a *second* charge; a stored 500 is replayed and never
becomes a success; the list lags behind the retrieve. Refunds are capped at their charge, as a real service caps them.
Run it: `python -m amends.testing.rehearsal.payments --store FILE --port 0`.
Source: https://docs.stripe.com/api/idempotent_requests, https://docs.stripe.com/api/charges
"""

import re
import sqlite3
from typing import Any, Final

from amends.testing.rehearsal._idempotency import KEY_KNOBS
from amends.testing.rehearsal._knobs import Knob, Knobs
from amends.testing.rehearsal._listing import list_page
from amends.testing.rehearsal._service import Destination, Endpoint
from amends.testing.rehearsal._store import Effect, find, insert, render
from amends.testing.rehearsal._wire import Answer, Call, error, text, unknown_fields, whole

AMOUNT_MINOR_MAX: Final = 99_999_999
"""Stripe's largest charge: eight digits of the minor unit."""

METADATA_ENTRIES_MAX: Final = 50
METADATA_CHARS_MAX: Final = 500

_HIDDEN = frozenset({"seq", "key"})
_JSON = frozenset({"metadata"})
_CURRENCY = re.compile(r"[a-z]{3}")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS charges (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, object TEXT NOT NULL DEFAULT 'charge',
  amount INTEGER NOT NULL, amount_refunded INTEGER NOT NULL DEFAULT 0, currency TEXT NOT NULL,
  status TEXT NOT NULL, "order" TEXT NOT NULL, metadata TEXT NOT NULL, created INTEGER NOT NULL,
  account TEXT NOT NULL, key TEXT);
CREATE TABLE IF NOT EXISTS refunds (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, object TEXT NOT NULL DEFAULT 'refund',
  charge TEXT NOT NULL, amount INTEGER NOT NULL, currency TEXT NOT NULL,
  status TEXT NOT NULL, "order" TEXT NOT NULL, metadata TEXT NOT NULL, created INTEGER NOT NULL,
  account TEXT NOT NULL, key TEXT);
"""


def create_charge(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """POST /v1/charges."""
    body = call.body
    if refusal := unknown_fields(body, frozenset({"amount", "currency", "order", "metadata"})):
        return refusal
    amount = whole(body, "amount", least=1, most=AMOUNT_MINOR_MAX)
    currency, order, metadata = _currency(body), text(body, "order", required=False), _metadata(body)
    if isinstance(amount, Answer):
        return amount
    for refused in (currency, order, metadata):
        if isinstance(refused, Answer):
            return refused
    made = _common(call, knobs, "ch") | {
        "amount": amount + knobs.number("amount_delta"),
        "currency": currency,
        "order": order,
        "metadata": metadata,
    }
    insert(connection, "charges", made)
    return _show(connection, "charges", made["id"])


def create_refund(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """POST /v1/refunds; without an amount, all that is left of the charge."""
    body = call.body
    if refusal := unknown_fields(body, frozenset({"charge", "amount", "metadata"})):
        return refusal
    charge_id, metadata = text(body, "charge"), _metadata(body)
    if isinstance(charge_id, Answer):
        return charge_id
    if isinstance(metadata, Answer):
        return metadata
    charge = find(connection, "charges", id=charge_id)
    if charge is None:
        return _missing("charge", charge_id)
    left = charge["amount"] - charge["amount_refunded"]
    amount = _refund_amount(call, left)
    if isinstance(amount, Answer):
        return amount
    made = _common(call, knobs, "re") | {
        "charge": charge_id,
        "amount": amount + knobs.number("amount_delta"),
        "currency": charge["currency"],
        "order": charge["order"],
        "metadata": metadata,
    }
    insert(connection, "refunds", made)
    connection.execute("UPDATE charges SET amount_refunded = amount_refunded + ? WHERE id = ?", (amount, charge_id))
    return _show(connection, "refunds", made["id"])


def retrieve_charge(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """GET /v1/charges/{id}: strongly consistent, whatever the lag of the list."""
    return _show(connection, "charges", call.parameters["id"])


def retrieve_refund(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """GET /v1/refunds/{id}."""
    return _show(connection, "refunds", call.parameters["id"])


def list_charges(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """GET /v1/charges?order=&starting_after=&limit=."""
    return list_page(
        connection,
        call,
        knobs,
        table="charges",
        filters=frozenset({"order"}),
        hidden=_HIDDEN,
        json_columns=_JSON,
    )


def list_refunds(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """GET /v1/refunds?charge=&order=&starting_after=&limit=."""
    return list_page(
        connection,
        call,
        knobs,
        table="refunds",
        filters=frozenset({"charge", "order"}),
        hidden=_HIDDEN,
        json_columns=_JSON,
    )


def _common(call: Call, knobs: Knobs, prefix: str) -> dict[str, Any]:
    """Columns of every object. The id comes from the arrival: unique, and never reused after a phantom."""
    return {
        "id": f"{prefix}_{call.arrival:08d}",
        "status": knobs.word("created_status"),
        "created": call.now_ms,
        "account": call.account,
        "key": call.key,
    }


def _refund_amount(call: Call, left: int) -> int | Answer:
    if left <= 0:
        return error(400, "charge_already_refunded", "the charge has already been refunded")
    if "amount" not in call.body:
        return left
    amount = whole(call.body, "amount", least=1, most=AMOUNT_MINOR_MAX)
    if isinstance(amount, int) and amount > left:
        return error(400, "amount_too_large", f"refund of {amount} is more than the unrefunded {left}")
    return amount


def _currency(body: dict[str, Any]) -> str | Answer:
    value = body.get("currency")
    if isinstance(value, str) and _CURRENCY.fullmatch(value):
        return value
    return error(400, "parameter_invalid", "currency must be three lower-case letters")


def _metadata(body: dict[str, Any]) -> dict[str, str] | Answer:
    value = body.get("metadata", {})
    if (
        isinstance(value, dict)
        and len(value) <= METADATA_ENTRIES_MAX
        and all(isinstance(entry, str) and len(entry) <= METADATA_CHARS_MAX for entry in value.values())
    ):
        return value
    return error(400, "parameter_invalid", f"metadata maps at most {METADATA_ENTRIES_MAX} names to text")


def _show(connection: sqlite3.Connection, table: str, object_id: str) -> Answer:
    row = find(connection, table, id=object_id)
    if row is None:
        return _missing(table.removesuffix("s"), object_id)
    return Answer(200, render(row, hidden=_HIDDEN, json_columns=_JSON))


def _missing(kind: str, object_id: str) -> Answer:
    return error(404, "resource_missing", f"no such {kind}: {object_id!r}")


DESTINATION: Final = Destination(
    name="payments",
    schema=_SCHEMA,
    effects={
        "charges": Effect("charges", frozenset({"id", "order", "key", "account"})),
        "refunds": Effect("refunds", frozenset({"id", "order", "key", "account", "charge"})),
    },
    knobs={
        **KEY_KNOBS,
        "created_status": Knob("succeeded", ("succeeded", "pending", "failed")),
        "amount_delta": Knob(0, least=-AMOUNT_MINOR_MAX),  # the object made differs from the one asked for
    },
    endpoints=(
        Endpoint(method="POST", path="/v1/charges", run=create_charge, keyed=True),
        Endpoint(method="GET", path="/v1/charges", run=list_charges),
        Endpoint(method="GET", path="/v1/charges/{id}", run=retrieve_charge),
        Endpoint(method="POST", path="/v1/refunds", run=create_refund, keyed=True),
        Endpoint(method="GET", path="/v1/refunds", run=list_refunds),
        Endpoint(method="GET", path="/v1/refunds/{id}", run=retrieve_refund),
    ),
)


if __name__ == "__main__":
    from amends.testing.rehearsal._server import main

    main(DESTINATION)
