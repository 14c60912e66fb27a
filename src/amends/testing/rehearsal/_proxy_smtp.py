"""The SMTP side of the fault proxy: commands are relayed line by line, faults fall on the message after DATA.

The moment of doubt in SMTP is between the final dot and its reply: the message may be in the mailbox, and the client
has no word of it. Each message transaction is one exchange, with the pseudo-method DATA, the first recipient as its
path and the Message-ID as its key.
"""

import asyncio
import re
from contextlib import suppress
from typing import Final

from amends.testing.rehearsal._faults import Entry, Faults, Rule
from amends.testing.rehearsal._gate import Gate
from amends.testing.rehearsal._modes import Exchange, run_exchange

MESSAGE_BYTES_MAX: Final = 2 * 1024 * 1024
_END = b".\r\n"
_PART_BYTES = 2
"""Of a cut reply only "25" goes out: half of "250 OK" would read as success in common clients."""

_MESSAGE_ID = re.compile(rb"^message-id:\s*(\S+)", re.IGNORECASE | re.MULTILINE)
_ADDRESS = re.compile(rb"<([^>]*)>")


class Peer:
    """One side of a session, read by lines."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def line(self) -> bytes:
        """The next line; raises EOFError when there is none."""
        try:
            return await self.reader.readuntil(b"\r\n")
        except asyncio.LimitOverrunError as error:
            raise EOFError("line too long") from error

    async def reply(self) -> bytes:
        """The next reply, all its lines."""
        lines = [await self.line()]
        while lines[-1][3:4] == b"-":
            lines.append(await self.line())
        return b"".join(lines)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def ask(self, line: bytes) -> bytes:
        await self.send(line)
        return await self.reply()

    def close(self) -> None:
        self.writer.close()


class SmtpExchange(Exchange[bytes]):
    """One message: its envelope lines and its content with the final dot."""

    def __init__(
        self,
        *,
        envelope: list[bytes],
        content: bytes,
        client: Peer,
        upstream: Peer,
        entry: Entry,
        rule: Rule | None,
        gate: Gate,
    ) -> None:
        super().__init__(entry, rule, gate)
        self._envelope = envelope
        self._content = content
        self._client = client
        self._upstream = upstream
        self.over = False

    async def send_upstream(self) -> tuple[bytes, int]:
        """The first time the upstream already waits for the content; a repetition sends the envelope again."""
        if self.entry.forwarded > 1:
            for line in (*self._envelope, b"DATA\r\n"):
                await self._upstream.ask(line)
        reply = await self._upstream.ask(self._content)
        return reply, int(reply[:3])

    async def answer(self, reply: bytes) -> None:
        await self._client.send(reply)

    async def answer_part(self, reply: bytes) -> None:
        await self._client.send(reply[:_PART_BYTES])

    async def client_left(self) -> None:
        with suppress(OSError):
            while await self._client.reader.read(4096):
                pass

    def close(self) -> None:
        self.over = True
        self._client.close()


async def serve_smtp(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    *,
    upstream: tuple[str, int],
    faults: Faults,
    gate: Gate,
) -> None:
    """Put one client session through."""
    client = Peer(reader, writer)
    try:
        server = Peer(*await asyncio.open_connection(*upstream))
    except OSError:
        client.close()
        return
    try:
        await _session(client, server, faults, gate)
    except (EOFError, OSError):
        pass
    finally:
        client.close()
        server.close()


async def _session(client: Peer, server: Peer, faults: Faults, gate: Gate) -> None:
    await client.send(await server.reply())
    envelope: list[bytes] = []
    while True:
        line = await client.line()
        reply = await server.ask(line)
        verb = line.strip().upper()
        if verb == b"DATA" and reply.startswith(b"354"):
            await client.send(reply)
            if await _message(client, server, envelope, faults, gate):
                return
            envelope = []
            continue
        envelope = _track(envelope, line, reply)
        await client.send(reply)
        if verb == b"QUIT":
            return


def _track(envelope: list[bytes], line: bytes, reply: bytes) -> list[bytes]:
    """The envelope so far, as lines that can be sent again."""
    verb = line[:4].upper()
    if verb in {b"RSET", b"EHLO", b"HELO"}:
        return []
    return [*envelope, line] if verb in {b"MAIL", b"RCPT"} and reply.startswith(b"2") else envelope


async def _message(client: Peer, server: Peer, envelope: list[bytes], faults: Faults, gate: Gate) -> bool:
    """Read the content to its end and put it through; True when the session is over."""
    content = bytearray()
    line = b""
    while line != _END:
        line = await client.line()
        content += line
        if len(content) > MESSAGE_BYTES_MAX:
            raise EOFError(f"a message has at most {MESSAGE_BYTES_MAX} bytes")
    recipients = [line for line in envelope if line[:4].upper() == b"RCPT"]
    address = _ADDRESS.search(recipients[0]) if recipients else None
    path = address[1].decode("utf-8", "replace") if address else ""
    message_id = _MESSAGE_ID.search(bytes(content))
    key = message_id[1].decode("utf-8", "replace") if message_id else None
    rule = faults.take("DATA", path)
    exchange = SmtpExchange(
        envelope=envelope,
        content=bytes(content),
        client=client,
        upstream=server,
        entry=faults.note("DATA", path, rule, key),
        rule=rule,
        gate=gate,
    )
    await run_exchange(exchange)
    return exchange.over
