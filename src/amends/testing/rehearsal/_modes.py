"""The faults themselves, written once for every protocol.

An exchange is one request on its way through the proxy; what differs between HTTP and SMTP is how it is forwarded and
answered. The faults differ only in the order of forwarding, answering, waiting and closing, and that order is all
there is to read here.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from amends.testing.rehearsal._faults import Entry, Rule
from amends.testing.rehearsal._gate import Gate, Held

UPSTREAM_WAIT_MS: Final = 60_000
"""The longest the proxy waits for the upstream: longer than a test waits for anything."""

ReplyT = TypeVar("ReplyT")


class UpstreamGoneError(Exception):
    """The upstream could not be reached or broke off; its own message is kept in the log."""


class Exchange(ABC, Generic[ReplyT]):
    """One request and what can be done with it."""

    def __init__(self, entry: Entry, rule: Rule | None, gate: Gate) -> None:
        self.entry = entry
        self.rule = rule or Rule(mode="none")
        self.gate = gate

    @abstractmethod
    async def send_upstream(self) -> tuple[ReplyT, int]:
        """Forward once and wait for the whole reply; gives it with its status."""

    @abstractmethod
    async def answer(self, reply: ReplyT) -> None:
        """Give the client the whole reply."""

    @abstractmethod
    async def answer_part(self, reply: ReplyT) -> None:
        """Give the client a part of the reply that cannot pass for all of it."""

    @abstractmethod
    async def client_left(self) -> None:
        """Wait until the client closes its side."""

    @abstractmethod
    def close(self) -> None:
        """Close the client's connection."""

    async def forward(self) -> ReplyT:
        """Forward and log it; raises UpstreamGoneError."""
        self.entry.forwarded += 1
        try:
            reply, status = await asyncio.wait_for(self.send_upstream(), UPSTREAM_WAIT_MS / 1000)
        except (OSError, EOFError, TimeoutError) as error:
            self.entry.upstream_error = f"{type(error).__name__}: {error}"
            raise UpstreamGoneError(str(error)) from error
        self.entry.upstream_statuses.append(status)
        return reply

    async def give(self, reply: ReplyT) -> None:
        """Answer and log it."""
        await self.answer(reply)
        self.entry.answered = True


async def run_exchange(exchange: Exchange[ReplyT]) -> None:
    """Put one request through its fault. Whatever goes wrong closes the connection without an answer."""
    try:
        await _MODES[exchange.rule.mode](exchange)
    except (UpstreamGoneError, ConnectionError):
        exchange.close()


async def _none(exchange: Exchange[ReplyT]) -> None:
    await exchange.give(await exchange.forward())


async def _drop_request(exchange: Exchange[ReplyT]) -> None:
    exchange.close()


async def _drop_response(exchange: Exchange[ReplyT]) -> None:
    await exchange.forward()
    exchange.close()


async def _cut(exchange: Exchange[ReplyT]) -> None:
    await exchange.answer_part(await exchange.forward())
    exchange.close()


async def _hang(exchange: Exchange[ReplyT]) -> None:
    """Silent after the effect. Release lets the answer through; the client's leaving ends it."""
    reply = await exchange.forward()
    held = exchange.gate.hold(exchange.entry.seq)
    try:
        if await _released_first(exchange, held) and not held.dropped:
            await exchange.give(reply)
        else:
            exchange.close()
    finally:
        held.leave()
        held.finished.set()


async def _late(exchange: Exchange[ReplyT]) -> None:
    """The effect comes after the client gave up. It is held before the client is told, so a test that saw the
    client fail can release at once."""
    held = exchange.gate.hold(exchange.entry.seq)
    try:
        if exchange.rule.client == "close":
            exchange.close()
        if await held.wait(exchange.rule.delay_ms):
            await exchange.forward()
    finally:
        held.finished.set()
    if exchange.rule.client == "hang" and not held.dropped:
        await exchange.client_left()
    exchange.close()


async def _duplicate(exchange: Exchange[ReplyT]) -> None:
    first = await exchange.forward()
    last = await exchange.forward()
    await exchange.give(first if exchange.rule.answer == "first" else last)


async def _latency(exchange: Exchange[ReplyT]) -> None:
    held = exchange.gate.hold(exchange.entry.seq)
    try:
        if await held.wait(exchange.rule.delay_ms):
            await _none(exchange)
        else:
            exchange.close()
    finally:
        held.finished.set()


async def _released_first(exchange: Exchange[ReplyT], held: Held) -> bool:
    """Wait for release or for the client to leave; True when it was released."""
    released = asyncio.ensure_future(held.released.wait())
    left = asyncio.ensure_future(exchange.client_left())
    await asyncio.wait({released, left}, return_when=asyncio.FIRST_COMPLETED)
    for waiting in (released, left):
        waiting.cancel()
    await asyncio.gather(released, left, return_exceptions=True)
    return held.released.is_set()


_MODES: Final[dict[str, Callable[[Exchange[ReplyT]], Awaitable[None]]]] = {
    "none": _none,
    "drop_request": _drop_request,
    "drop_response": _drop_response,
    "cut": _cut,
    "hang": _hang,
    "late": _late,
    "duplicate": _duplicate,
    "latency": _latency,
}
