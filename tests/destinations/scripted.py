"""A server that does to each request what the test's script says, and counts what arrived."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from amends.core.contract import Contract
from amends.core.failures import Interval, NotSent
from amends.core.identity import idempotency_key
from amends.destinations.http import HttpDestination

KEY = idempotency_key(tenant="t", action="a", target="x:1", lineage="int_1")


@dataclass
class ScriptedCall:
    """A call whose budget the test holds in its hand: ``left_s`` says what is left at each look."""

    key: str = KEY
    left_s: Callable[[], float] = lambda: 30.0
    sends: list[str] = field(default_factory=list)

    @property
    def remaining_s(self) -> float:
        return max(0.0, self.left_s())

    def check_budget(self) -> None:
        if self.remaining_s <= 0:
            raise NotSent("the budget was spent before the send", interval=Interval.QUEUE)

    def about_to_send(self, what: str) -> None:
        self.check_budget()
        self.sends.append(what)


@dataclass(frozen=True)
class Arrival:
    """One request, as it was on the wire."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int


Act = Callable[["Peer"], Awaitable[bool]]
"""What is done with one request; true keeps the connection."""


class Peer:
    """The connection an act works on."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


def answering(
    status: int, body: bytes = b"{}", *, keep: bool = False, length: int | None = None, **headers: str
) -> Act:
    """Answer; ``length`` may promise more than is sent."""

    async def act(peer: Peer) -> bool:
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        size = [] if length == -1 else [f"content-length: {len(body) if length is None else length}"]
        head = "\r\n".join([f"HTTP/1.1 {status} said", *size, *lines])
        await peer.write(head.encode() + b"\r\n\r\n" + body)
        return keep

    return act


async def dropped(_: Peer) -> bool:
    """Close without a byte."""
    return False


async def silent(peer: Peer) -> bool:
    """Say nothing until the client leaves."""
    await peer.reader.read()
    return False


class Scripted:
    """``async with Scripted(act, …) as server``: the n-th request gets the n-th act, further ones the last."""

    def __init__(self, *acts: Act, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.port = port
        self.acts, self.arrivals, self.connections = list(acts), list[Arrival](), 0
        self._tls, self._open = tls, set[asyncio.Task[None]]()
        self._destinations: list[HttpDestination] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for destination in self._destinations:
            await destination.aclose()
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()

    def destination(self, contract: Contract, **options: Any) -> HttpDestination:
        """A client of this server, closed with it."""
        self._destinations.append(HttpDestination(self.url, contract, **options))
        return self._destinations[-1]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self.connections += 1
        number = self.connections
        try:
            while await self._one(Peer(reader, writer), number):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _one(self, peer: Peer, number: int) -> bool:
        head = (await peer.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await peer.reader.readexactly(int(headers.get("content-length", "0")))
        self.arrivals.append(Arrival(method, target, headers, body, number))
        act = self.acts[min(len(self.arrivals), len(self.acts)) - 1]
        return await act(peer)
