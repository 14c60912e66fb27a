"""HTTP/1.1 over asyncio streams with h11: whole messages in, whole messages out, one per connection.

The proxy needs to know exactly when a request or a reply is complete, and to write exactly the bytes it chooses;
that is why it does not sit on a server framework. `Connection: close` on every answer keeps one request to one
connection, so that a fault on a connection is a fault on a request.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from amends.testing.rehearsal._extra import require_demo_extra

require_demo_extra()

import h11  # noqa: E402

MESSAGE_BYTES_MAX: Final = 2 * 1024 * 1024
"""A request or reply as a whole: twice the largest rehearsal message."""

READ_BYTES: Final = 64 * 1024

_HOP_BY_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade")
)
Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Request:
    """A complete request."""

    method: str
    target: str
    headers: Headers
    body: bytes

    def header(self, name: str) -> str | None:
        wanted = name.lower().encode()
        return next((value.decode("latin-1") for key, value in self.headers if key == wanted), None)


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete reply."""

    status: int
    reason: bytes
    headers: Headers
    body: bytes


class BrokenMessageError(OSError):
    """The peer sent no complete, acceptable message."""


class Connection:
    """The server's side of one client connection, for one request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER)

    async def read_request(self) -> Request:
        """The whole request; raises BrokenMessageError when the client leaves or sends nonsense."""
        head, body = await _read_message(self._http, self._reader, self._writer)
        if not isinstance(head, h11.Request):
            raise BrokenMessageError("not a request")
        return Request(head.method.decode(), head.target.decode(), list(head.headers), body)

    def render(self, reply: Reply) -> tuple[bytes, bytes]:
        """The reply's head and body as bytes on the wire; h11 leaves the body out where HTTP has none."""
        headers = [(name, value) for name, value in reply.headers if name not in _HOP_BY_HOP]
        if reply.status not in {204, 304} and not any(name == b"content-length" for name, _ in headers):
            headers.append((b"content-length", str(len(reply.body)).encode()))
        headers.append((b"connection", b"close"))
        response = h11.Response(status_code=reply.status, reason=reply.reason, headers=headers)
        head = self._http.send(response) or b""
        body = (self._http.send(h11.Data(data=reply.body)) or b"") if reply.body else b""
        return head, body + (self._http.send(h11.EndOfMessage()) or b"")

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def closed_by_peer(self) -> None:
        """Wait until the client closes its side."""
        with suppress(OSError):
            while await self._reader.read(READ_BYTES):
                pass

    def close(self) -> None:
        """Send what was written, then close."""
        self._writer.close()


async def fetch(host: str, port: int, request: Request) -> Reply:
    """Send a request over a new connection and read the whole reply; raises OSError."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        http = h11.Connection(h11.CLIENT)
        headers = [
            (name, value)
            for name, value in request.headers
            if name not in _HOP_BY_HOP and name not in {b"content-length", b"expect"}
        ]
        headers.append((b"connection", b"close"))
        if request.body or request.method in {"POST", "PUT", "PATCH"}:
            headers.append((b"content-length", str(len(request.body)).encode()))
        data = http.send(h11.Request(method=request.method, target=request.target, headers=headers)) or b""
        data += (http.send(h11.Data(data=request.body)) or b"") if request.body else b""
        writer.write(data + (http.send(h11.EndOfMessage()) or b""))
        await writer.drain()
        head, body = await _read_message(http, reader, writer)
    finally:
        writer.close()
    if not isinstance(head, h11.Response):
        raise BrokenMessageError("not a reply")
    return Reply(head.status_code, head.reason, list(head.headers), body)


async def _read_message(
    http: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[h11.Request | h11.Response, bytes]:
    head: h11.Request | h11.Response | None = None
    body = bytearray()
    try:
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                if http.they_are_waiting_for_100_continue:
                    go_on = http.send(h11.InformationalResponse(status_code=100, headers=[]))
                    writer.write(go_on or b"")
                http.receive_data(await reader.read(READ_BYTES))
            elif isinstance(event, h11.Request | h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > MESSAGE_BYTES_MAX:
                    raise BrokenMessageError(f"more than {MESSAGE_BYTES_MAX} bytes")
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                return head, bytes(body)
            elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
                raise BrokenMessageError("the peer closed before a message was complete")
    except h11.RemoteProtocolError as error:
        raise BrokenMessageError(str(error)) from error
