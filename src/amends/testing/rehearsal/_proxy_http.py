"""The HTTP side of the fault proxy: one request per connection."""

import asyncio

from amends.testing.rehearsal._faults import Entry, Faults, Rule
from amends.testing.rehearsal._gate import Gate
from amends.testing.rehearsal._http import BrokenMessageError, Connection, Reply, Request, fetch
from amends.testing.rehearsal._modes import Exchange, run_exchange


class HttpExchange(Exchange[Reply]):
    """One HTTP request."""

    def __init__(
        self,
        *,
        request: Request,
        client: Connection,
        upstream: tuple[str, int],
        entry: Entry,
        rule: Rule | None,
        gate: Gate,
    ) -> None:
        super().__init__(entry, rule, gate)
        self._request = request
        self._client = client
        self._upstream = upstream

    async def send_upstream(self) -> tuple[Reply, int]:
        reply = await fetch(*self._upstream, self._request)
        return reply, reply.status

    async def answer(self, reply: Reply) -> None:
        head, body = self._client.render(reply)
        await self._client.write(head + body)
        self._client.close()

    async def answer_part(self, reply: Reply) -> None:
        """The head and half of the body: the client has seen the status and still cannot trust it."""
        head, body = self._client.render(reply)
        await self._client.write(head + body[: len(body) // 2] if len(body) > 1 else head[: len(head) // 2])

    async def client_left(self) -> None:
        await self._client.closed_by_peer()

    def close(self) -> None:
        self._client.close()


async def serve_http(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    *,
    upstream: tuple[str, int],
    faults: Faults,
    gate: Gate,
) -> None:
    """Put one client connection through."""
    client = Connection(reader, writer)
    try:
        request = await client.read_request()
    except BrokenMessageError:
        client.close()
        return
    rule = faults.take(request.method, request.target)
    entry = faults.note(request.method, request.target, rule, request.header("idempotency-key"))
    await run_exchange(
        HttpExchange(request=request, client=client, upstream=upstream, entry=entry, rule=rule, gate=gate)
    )
