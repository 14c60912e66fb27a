"""A mailbox behind a real SMTP server, with an HTTP side to look messages up.

It keeps every message it accepts: a repeated Message-ID is a second message, as in a real mailbox. The Message-ID is
nevertheless what a lost reply is reconciled by, so it is what the lookup asks for. `index_lag_ms` stands for a queue:
accepted, and not yet to be found. Both sides run in one process, on one event loop and one store.
Run it: `python -m amends.testing.rehearsal.mail --store FILE --port 0 --smtp-port 0`.
"""

import asyncio
import sqlite3
from email import message_from_bytes
from email.message import Message
from email.policy import SMTP as SMTP_POLICY
from typing import Any, Final

from amends.testing.rehearsal._extra import require_demo_extra
from amends.testing.rehearsal._knobs import Knobs
from amends.testing.rehearsal._lifecycle import end_with_parent, listen, port_of
from amends.testing.rehearsal._listing import list_page
from amends.testing.rehearsal._service import Destination, Endpoint, Service
from amends.testing.rehearsal._store import Effect, insert
from amends.testing.rehearsal._wire import Answer, Call

MESSAGE_BYTES_MAX: Final = 1024 * 1024
"""One message; more is refused with 552 by the SMTP server."""

_HIDDEN = frozenset({"seq", "key"})
_JSON = frozenset({"to", "headers"})
_SCHEMA = """
CREATE TABLE IF NOT EXISTS messages (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, message_id TEXT NOT NULL,
  "from" TEXT NOT NULL, "to" TEXT NOT NULL, subject TEXT NOT NULL, headers TEXT NOT NULL,
  body TEXT NOT NULL, created INTEGER NOT NULL, account TEXT NOT NULL, key TEXT);
"""


def accept(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """Keep one message; reached by SMTP only."""
    message_id = f"msg_{call.arrival:08d}"
    made = {"id": message_id, "created": call.now_ms, "account": call.account, "key": call.key}
    insert(connection, "messages", call.body | made)
    return Answer(200, {"id": message_id})


def list_messages(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer:
    """GET /messages?message_id=&subject=&starting_after=&limit= → {messages, has_more}."""
    filters = frozenset({"message_id", "subject"})
    page = list_page(connection, call, knobs, table="messages", filters=filters, hidden=_HIDDEN, json_columns=_JSON)
    if page.status != 200:
        return page
    return Answer(200, {"messages": page.body["data"], "has_more": page.body["has_more"]})


DESTINATION: Final = Destination(
    name="mail",
    schema=_SCHEMA,
    effects={"messages": Effect("messages", frozenset({"id", "message_id", "subject", "from", "key"}))},
    endpoints=(Endpoint(method="GET", path="/messages", run=list_messages),),
)
_ACCEPT = Endpoint(method="DATA", path="", run=accept)


class Sink:
    """The aiosmtpd handler: one message in, one reply out."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        """Called after the final dot; a forced status becomes the SMTP reply code."""
        parsed = message_from_bytes(envelope.content, policy=SMTP_POLICY)
        call = Call(
            method="DATA",
            path=",".join(envelope.rcpt_tos),
            body=_columns(parsed, envelope),
            account=envelope.mail_from or "anonymous",
            key=_header(parsed, "Idempotency-Key") or None,
        )
        answer = await self._service.mutate(_ACCEPT, call)
        if answer.status == 200:
            return f"250 OK queued as {answer.body['id']}"
        return f"{answer.status} {answer.body['error']['message']}"


def _columns(parsed: Message, envelope: Any) -> dict[str, Any]:
    payload = parsed.get_payload(decode=True) if not parsed.is_multipart() else envelope.content
    return {
        "message_id": _header(parsed, "Message-ID"),
        "from": envelope.mail_from or "",
        "to": list(envelope.rcpt_tos),
        "subject": _header(parsed, "Subject"),
        "headers": {name: str(value) for name, value in parsed.items()},
        "body": payload.decode("utf-8", "replace") if isinstance(payload, bytes) else "",
    }


def _header(parsed: Message, name: str) -> str:
    return str(parsed.get(name, "")).strip()


async def run(options: Any) -> None:
    """Serve SMTP and HTTP until SIGTERM."""
    require_demo_extra()
    from aiosmtpd.smtp import SMTP

    from amends.testing.rehearsal._server import open_service, serve

    service = open_service(DESTINATION, options)
    listener = listen(options.smtp_port)
    loop = asyncio.get_running_loop()

    def session() -> SMTP:
        return SMTP(
            Sink(service),
            data_size_limit=MESSAGE_BYTES_MAX,
            enable_SMTPUTF8=True,
            hostname="rehearsal.invalid",
            ident="Amends rehearsal",
            loop=loop,
        )

    smtp = await loop.create_server(session, sock=listener)
    try:
        await serve(service, options, smtp_port=port_of(listener))
    finally:
        smtp.close()


if __name__ == "__main__":
    from amends.testing.rehearsal._server import parse

    _options = parse(DESTINATION, None)
    if _options.exit_with_stdin:
        end_with_parent()
    asyncio.run(run(_options))
