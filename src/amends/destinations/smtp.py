"""A client that submits one mail over SMTP, and says how that ended: never left, rejected, or unknown.

    relay = SmtpClient("127.0.0.1", 25)

    @app.effect("send_mail", destination=SUBMIT.with_(lookup_lag_s=60, ...), ...)
    async def send_mail(call: Call, *, to: str) -> Receipt:
        taken = await relay.send(call, Mail(sender="shop@example.org", to=to, subject="...", text="..."))

The border between *never left* and *unknown* is one write: that of the line with the single dot, which ends
the data. Before it the server must not deliver anything, so whatever breaks there did nothing. From then on
only a whole reply is certain. A refusal of the data is certain as well (RFC 5321, 4.2.5).

The Message-ID follows from the operation's key: each attempt carries the same one, and a lookup asks for it.
One mail has one recipient, so that no mail is taken for one and refused for another. Nothing is ever
repeated here. There is neither TLS nor a login yet: the relay is this machine's, or one in a trusted network.
"""

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from typing import Final

from amends.core.failures import Ambiguous, CallEnded, Interval, NotSent, Rejected
from amends.destinations.sdk import send_key
from amends.ports.destination import Sending, begin, never_left

MESSAGE_BYTES_MAX: Final = 1024 * 1024
"""A mail that announces an effect is a page; common servers take ten times as much."""

LINE_BYTES_MAX: Final = 4_096
"""Of a reply: RFC 5321 allows 512, some servers say more."""

REPLY_LINES_MAX: Final = 100
REPLY_CHARS_MAX: Final = 500
"""Of a reply's text that is kept."""

WHAT: Final = "SMTP message"
"""What stands in ``Sending.sends``: the addresses are personal data."""

_ADDRESS: Final = re.compile(r"[!#-;=?-\[\]-~]{1,64}@[A-Za-z0-9.-]{1,255}", re.ASCII)
_DOMAIN: Final = re.compile(r"[A-Za-z0-9.-]{1,200}", re.ASCII)
_REPLY: Final = re.compile(rb"([2-5][0-9][0-9])([ -])(.*)\r?\n", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """One mail.

    Args:
        sender, to: one plain ASCII address each.
        subject: one line.
        text: the body, plain text.
    """

    sender: str
    to: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The server has taken responsibility for the mail.

    Attributes:
        code, reply: what it answered, e.g. 250 and ``OK queued as 4711``.
        message_id: what the mail can be found by.
    """

    code: int
    reply: str
    message_id: str


def message_id(key: str, domain: str) -> str:
    """The Message-ID of the mail that the key's operation sends."""
    return f"<{key}@{domain}>"


def key_of(message_id: str) -> str:
    """The key in a Message-ID of ours, e.g. of a mail that was found; empty where it is another's."""
    inner = message_id.strip().removeprefix("<").removesuffix(">")
    return inner.rpartition("@")[0]


class SmtpClient:
    """One server that takes mail.

    Args:
        host, port: where it is.
        domain: what stands behind ``@`` in Message-IDs, and what the server is greeted with; one's own.
        now: seconds since the epoch, for the ``Date`` header.

    Safe for concurrent use: each mail has a connection of its own.

    Raises:
        ValueError: the domain cannot stand in a Message-ID.
    """

    def __init__(
        self, host: str, port: int, *, domain: str = "amends.invalid", now: Callable[[], float] = time.time
    ) -> None:
        if not _DOMAIN.fullmatch(domain):
            raise ValueError(f"the domain {domain[:100]!r} cannot stand in a Message-ID; name e.g. 'shop.example.org'")
        self._host, self._port, self._now = host, port, now
        self.domain = domain

    async def send(self, call: Sending, mail: Mail) -> Taken:
        """Submit ``mail`` within the call's budget, once.

        Raises:
            NotSent: nothing was handed over, and ``code="request_refused"`` says that nothing ever will be.
            Rejected: the server refused, surely.
            Ambiguous: nobody knows.
        """
        try:
            identity = message_id(send_key(call), self.domain)
            content = _content(mail, identity, date=formatdate(self._now()))
        except ValueError as error:
            never_left(call, WHAT)
            raise NotSent(f"the mail was not sent: {error}", code="request_refused") from error
        at = begin(call, WHAT)
        session = _Session(call)
        try:
            code, reply = await self._submitted(session, mail, content)
        except NotSent:
            never_left(call, WHAT, at)
            raise
        return Taken(code=code, reply=reply, message_id=identity)

    async def _submitted(self, session: "_Session", mail: Mail, content: bytes) -> tuple[int, str]:
        try:
            async with asyncio.timeout(session.call.remaining_s):
                await session.connect(self._host, self._port)
                await session.envelope(self.domain, mail)
                return await session.data(content)
        except TimeoutError as error:
            raise session.ended("no reply within the attempt's time budget", late=True) from error
        except (OSError, EOFError, _UnreadableError) as error:
            raise session.ended(str(error) or type(error).__name__) from error
        finally:
            session.close()


class _UnreadableError(Exception):
    """What came is no SMTP reply."""


class _Session:
    """One connection, and how far it has come."""

    def __init__(self, call: Sending) -> None:
        self.call = call
        self._over = False
        self._interval = Interval.CONNECT
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def connect(self, host: str, port: int) -> None:
        """Open the connection and read the greeting."""
        self._reader, self._writer = await asyncio.open_connection(host, port, limit=LINE_BYTES_MAX)
        self._interval = Interval.EXECUTION
        self._accepted("its greeting", await self._reply(), 220)

    async def envelope(self, domain: str, mail: Mail) -> None:
        """Who sends to whom."""
        self._accepted("EHLO", await self._ask(f"EHLO {domain}"), 250)
        self._accepted("the sender", await self._ask(f"MAIL FROM:<{mail.sender}>"), 250)
        self._accepted("the recipient", await self._ask(f"RCPT TO:<{mail.to}>"), 250, 251, 252)

    async def data(self, content: bytes) -> tuple[int, str]:
        """The mail itself; the server's reply once it has taken it."""
        self._accepted("DATA", await self._ask("DATA"), 354)
        await self._write(content)
        self.call.check_budget()
        self._over = True
        await self._write(b".\r\n")
        code, text = await self._reply()
        self._accepted("the data", (code, text), *range(200, 300))
        await self._write(b"QUIT\r\n")
        return code, text

    def ended(self, why: str, *, late: bool = False) -> CallEnded:
        """The end of a session without the reply that settles it."""
        if self._over:
            said = f"no reply to the end of the data: {why}"
            return Ambiguous(said, interval=Interval.EXECUTION if late else None)
        return NotSent(f"the mail was not handed over: {why}", interval=self._interval if late else None)

    def close(self) -> None:
        """Close the connection without waiting for a farewell; data without their end are thrown away there."""
        if self._writer is not None:
            self._writer.close()

    def _accepted(self, what: str, reply: tuple[int, str], *codes: int) -> None:
        """A refusal is certain wherever it comes: before the data, or after it (4.2.5)."""
        code, text = reply
        if code in codes:
            return
        if code < 400:
            raise _UnreadableError(f"the server answered {code} to {what}")
        said = f"the server refused {what}: {code} {text}"
        raise Rejected(said, status=code, retryable=code < 500)

    async def _ask(self, line: str) -> tuple[int, str]:
        await self._write(line.encode("ascii") + b"\r\n")
        return await self._reply()

    async def _write(self, data: bytes) -> None:
        if self._writer is None:
            raise EOFError("the connection is not open")
        self._writer.write(data)
        await self._writer.drain()

    async def _reply(self) -> tuple[int, str]:
        if self._reader is None:
            raise EOFError("the connection is not open")
        texts: list[str] = []
        for _ in range(REPLY_LINES_MAX):
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as error:
                raise _UnreadableError("a reply's line is too long") from error
            except asyncio.IncompleteReadError as error:
                raise EOFError("the connection ended") from error
            match = _REPLY.fullmatch(line)
            if match is None:
                raise _UnreadableError("what the server said is no reply")
            texts.append(match[3].decode("utf-8", "replace").strip())
            if match[2] == b" ":
                return int(match[1]), " ".join(texts)[:REPLY_CHARS_MAX]
        raise _UnreadableError("the reply does not end")


def _content(mail: Mail, identity: str, *, date: str) -> bytes:
    """The mail as it goes over the wire, without the closing dot.

    Raises:
        ValueError: an address or the subject cannot be sent, or the mail is too long.
    """
    for what, address in (("sender", mail.sender), ("recipient", mail.to)):
        if not _ADDRESS.fullmatch(address):
            raise ValueError(f"the {what} is no plain ASCII address")
    made = EmailMessage(policy=SMTP.clone(cte_type="7bit"))
    made["Message-ID"], made["Date"] = identity, date
    made["From"], made["To"], made["Subject"] = mail.sender, mail.to, mail.subject
    made["Auto-Submitted"] = "auto-generated"  # RFC 3834: no robot answers it
    try:
        made.set_content(mail.text)
        content = made.as_bytes()
    except (UnicodeError, LookupError) as error:
        raise ValueError(f"the text cannot be encoded ({type(error).__name__})") from error
    if len(content) > MESSAGE_BYTES_MAX:
        raise ValueError(f"the mail has {len(content)} bytes; at most {MESSAGE_BYTES_MAX} are sent")
    ended = content if content.endswith(b"\r\n") else content + b"\r\n"
    return re.sub(rb"^\.", b"..", ended, flags=re.MULTILINE)
