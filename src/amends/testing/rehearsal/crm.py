"""A CRM: contacts under compare-and-set (a reversible change), and notes that are only ever added.

A contact is one JSON map of fields, replaced as a whole; its version is its ETag. Notes have no key and no
precondition, only a reference to find them by.
Run it: `python -m amends.testing.rehearsal.crm --store FILE --port 0`.
"""

import sqlite3
from typing import Final

from amends.testing.rehearsal._conditional import CONDITION_KNOBS, check_write, etag
from amends.testing.rehearsal._knobs import Knobs
from amends.testing.rehearsal._listing import list_page
from amends.testing.rehearsal._service import Destination, Endpoint
from amends.testing.rehearsal._store import Effect, fetch, find, insert, render
from amends.testing.rehearsal._wire import Answer, Call, error, text, unknown_fields

_HIDDEN = frozenset({"seq", "key"})
_SCHEMA = """
CREATE TABLE IF NOT EXISTS contacts (id TEXT PRIMARY KEY, fields TEXT NOT NULL, version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS contact_writes (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, contact TEXT NOT NULL, version INTEGER NOT NULL,
  created INTEGER NOT NULL, account TEXT NOT NULL, key TEXT);
CREATE TABLE IF NOT EXISTS notes (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, contact TEXT NOT NULL,
  text TEXT NOT NULL, reference TEXT NOT NULL, created INTEGER NOT NULL, account TEXT NOT NULL, key TEXT);
"""


def get_contact(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """GET /contacts/{id} → {id, fields, version} with its ETag."""
    return _show(connection, call.parameters["id"])


def put_contact(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """PUT /contacts/{id} {fields} with If-Match, or If-None-Match: * to create."""
    fields = call.body.get("fields")
    if refusal := unknown_fields(call.body, frozenset({"fields"})):
        return refusal
    if not isinstance(fields, dict):
        return error(400, "parameter_invalid", "fields must be a JSON object")
    contact = call.parameters["id"]
    row = find(connection, "contacts", id=contact)
    version = None if row is None else int(row["version"])
    if refusal := check_write(call, version):
        applied = row is not None and refusal.status == 412 and _show(connection, contact).body["fields"] == fields
        return _show(connection, contact) if applied and knobs.flag("already_applied") else refusal
    connection.execute("DELETE FROM contacts WHERE id = ?", (contact,))
    insert(connection, "contacts", {"id": contact, "fields": fields, "version": (version or 0) + 1})
    write = {"contact": contact, "version": (version or 0) + 1}
    insert(
        connection,
        "contact_writes",
        write | {"created": call.now_ms, "account": call.account, "key": call.key},
    )
    return _show(connection, contact, status=200 if row else 201)


def post_note(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """POST /contacts/{id}/notes {text, reference} → 201."""
    if refusal := unknown_fields(call.body, frozenset({"text", "reference"})):
        return refusal
    words, reference = text(call.body, "text"), text(call.body, "reference")
    for refused in (words, reference):
        if isinstance(refused, Answer):
            return refused
    contact = call.parameters["id"]
    if find(connection, "contacts", id=contact) is None:
        return _show(connection, contact)
    values = {"id": f"note_{call.arrival:08d}", "contact": contact, "text": words, "reference": reference}
    insert(connection, "notes", values | {"created": call.now_ms, "account": call.account, "key": call.key})
    row = fetch(connection, "notes", id=str(values["id"]))
    return Answer(201, render(row, hidden=_HIDDEN))


def list_notes(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """GET /notes?contact=&reference=&starting_after=&limit=, newest first, with the index lag."""
    filters = frozenset({"contact", "reference"})
    return list_page(connection, call, knobs, table="notes", filters=filters, hidden=_HIDDEN)


def list_notes_of_contact(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """GET /contacts/{id}/notes?reference=: the same list for one contact."""
    narrowed = Call(
        method=call.method,
        path=call.path,
        query={**call.query, "contact": call.parameters["id"]},
        now_ms=call.now_ms,
    )
    return list_notes(connection, narrowed, knobs)


def _show(connection: sqlite3.Connection, contact: str, *, status: int = 200) -> Answer:
    row = find(connection, "contacts", id=contact)
    if row is None:
        return error(404, "resource_missing", f"no such contact: {contact!r}")
    shown = render(row, hidden=frozenset(), json_columns=frozenset({"fields"}))
    return Answer(status, shown, {"ETag": etag(row["version"])})


DESTINATION: Final = Destination(
    name="crm",
    schema=_SCHEMA,
    effects={
        "contacts": Effect("contacts", frozenset({"id"})),
        "contact_writes": Effect("contact_writes", frozenset({"contact", "account", "key"})),
        "notes": Effect("notes", frozenset({"id", "contact", "reference", "account", "key"})),
    },
    knobs=CONDITION_KNOBS,
    endpoints=(
        Endpoint(method="GET", path="/contacts/{id}", run=get_contact),
        Endpoint(method="PUT", path="/contacts/{id}", run=put_contact),
        Endpoint(method="POST", path="/contacts/{id}/notes", run=post_note),
        Endpoint(method="GET", path="/contacts/{id}/notes", run=list_notes_of_contact),
        Endpoint(method="GET", path="/notes", run=list_notes),
    ),
)


if __name__ == "__main__":
    from amends.testing.rehearsal._server import main

    main(DESTINATION)
