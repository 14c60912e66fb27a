"""The HTTP client that turns a destination's contract into behaviour.

It sends the operation's key, checks the budget immediately before the send and enforces it as the total
time-out, and says how a call ended: never left, rejected, or unknown. It never retries and never follows
a redirect by itself: a repeat is decided by the ledger, or not at all.

The border between *never left* and *unknown* is one event: the transport says that it begins to write
the request. Waiting for a connection, connecting and TLS come before it, and there the budget is checked
once more. From then on nothing but a whole, readable answer is certain; that a kept connection had been
closed by the other side is no exception, because the request may have been read before.

A second request that changes things, within one attempt, gets a key of its own: a provider may refuse
one key at two endpoints, or answer the second with the first one's result. The key follows from the order
of sending, so an effect that sends twice must send in the same order in each attempt, one after the other.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from amends.core.contract import Contract
from amends.core.failures import Ambiguous, CallEnded, Interval, NotSent
from amends.destinations.answers import Answer, reply
from amends.destinations.sdk import send_key
from amends.destinations.wire import SAFE, Outgoing, checked_base_url, checked_headers, outgoing
from amends.ports.destination import Reply, Sending, begin, never_left, read_failed

if TYPE_CHECKING:
    import httpx

ANSWER_BYTES_MAX: Final = 1024 * 1024
"""An answer is evidence that people read; more than a megabyte is a document."""

CONNECTIONS_MAX: Final = 100
"""Connections of one event loop to one destination; a call that waits for one is in the queue."""

KEPT_MAX: Final = 20
KEPT_S: Final = 5.0
"""Idle connections that are kept, and for how long: shorter than the time-outs of common servers."""

WHAT_CHARS_MAX: Final = 200
"""Of a refused request's name, which nobody has checked."""

KEY_CHARS: Final = 36
"""Characters of an idempotency key (``amends.core.identity``)."""


class HttpDestination:
    """One destination under ``base_url`` with the promises of ``contract``.

    Args:
        base_url: http or https address, without query; a path in it is put in front of every path.
        contract: what it promises.
        name: what people call it; the contract's name by default.
        headers: sent with every request, e.g. ``Authorization``. Never logged, never shown.
        tls: a context of one's own, e.g. for a private authority; it must verify. The default verifies
            against the public authorities. Environment variables have no say.
        now: seconds since the epoch, for a ``Retry-After`` date in an answer without ``Date``.

    Safe for concurrent use, also from several event loops; each keeps its own connections until
    ``aclose`` or its end.

    Raises:
        ValueError: the address, a header or the TLS context cannot be used, or the contract takes only
            keys that are shorter than ours.
    """

    def __init__(
        self,
        base_url: str,
        contract: Contract,
        *,
        name: str = "",
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._base_url, self._headers = checked_base_url(base_url), checked_headers(headers or {})
        self.name: str = name or contract.name
        self.contract: Contract = contract
        self._now = now
        if contract.idempotency_header and contract.key_chars_max < KEY_CHARS:
            raise ValueError(
                f"{self.name} takes keys of at most {contract.key_chars_max} characters and ours have {KEY_CHARS}; "
                f"declare it without a key header, so that nothing relies on one"
            )
        if tls is not None and (tls.verify_mode is not ssl.CERT_REQUIRED or not tls.check_hostname):
            raise ValueError(f"the TLS context of {self.name} does not verify; use one that does")
        self._tls = tls
        self._transports: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncHTTPTransport] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"HttpDestination({self._base_url!r}, name={self.name!r})"

    async def post(self, call: Sending, path: str, body: Mapping[str, Any]) -> Any:
        """Send ``body`` as JSON with the key; the decoded answer of a 2xx. Raises like ``request``."""
        return (await self.request(call, "POST", path, body=body)).body

    async def get(self, call: Sending, path: str, **params: str) -> Any:
        """Read ``path``; the decoded answer of a 2xx. Raises like ``request``."""
        return (await self.request(call, "GET", path, params=params)).body

    async def request(
        self,
        call: Sending,
        method: str,
        path: str,
        *,
        body: Any = None,
        form: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
    ) -> Reply:
        """Send one request within the call's budget, once.

        Args:
            call: the call it is part of.
            method, path: ``path`` begins with ``/`` and is percent-encoded.
            body: sent as JSON; or ``form``, sent as a form. At most a megabyte.
            params: the query.
            headers: further headers; the key and the conditions are not among them.
            if_match: a version as the destination wrote it, quotes included; if it is another one by now,
                the end is ``Rejected`` with code ``precondition_failed``.
            if_none_match: ``*`` creates only where there is nothing.

        Raises:
            NotSent: nothing left, and ``code="request_refused"`` says that nothing ever will.
            Rejected: the destination refused, surely.
            Ambiguous: nobody knows.
        """
        what = f"{method} {path}"
        wanted = {"body": body, "form": form, "params": params, "headers": headers}
        conditions = _conditions(if_match, if_none_match)
        try:
            request = self._outgoing(call, method, path, conditions=conditions, **wanted)
            return await self._replied(call, request, what, create=if_none_match == "*")
        except CallEnded:
            if method in SAFE:
                read_failed(call, what)
            raise

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a later request opens new ones."""
        transport = self._transports.pop(asyncio.get_running_loop(), None)
        if transport is not None:
            await transport.aclose()

    def _outgoing(
        self,
        call: Sending,
        method: str,
        path: str,
        *,
        conditions: Mapping[str, str],
        headers: Mapping[str, str] | None,
        **wanted: Any,
    ) -> Outgoing:
        """The request with its key and headers, checked; what must not be sent is noted as never left."""
        try:
            own = {name.lower(): value for name, value in (headers or {}).items()}
            ours = {**self._key(call, method), **conditions}
            return outgoing(self._base_url, method, path, headers={**self._headers, **own}, ours=ours, **wanted)
        except ValueError as error:
            if method not in SAFE:
                never_left(call, f"{method} {path}"[:WHAT_CHARS_MAX])
            raise NotSent(f"the request was not sent: {error}", code="request_refused") from error

    def _key(self, call: Sending, method: str) -> dict[str, str]:
        if not self.contract.idempotency_header or method in SAFE:
            return {}
        return {self.contract.idempotency_header: send_key(call)}

    async def _replied(self, call: Sending, request: Outgoing, what: str, *, create: bool) -> Reply:
        sending = _Sending(call, what)
        sending.begin(request)
        status, answered, content = await self._exchanged(request, sending)
        changes = request.changes_things
        answer = Answer(
            status=status, headers=answered, content=content, changes_things=changes, create=changes and create
        )
        return reply(self.contract, answer, now=self._now)

    async def _exchanged(self, request: Outgoing, sending: "_Sending") -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the whole answer; every other end is raised as what it is."""
        import httpx  # noqa: PLC0415 — heavy, and only needed once something is sent

        try:
            async with asyncio.timeout(sending.call.remaining_s):
                return await self._answer(request, sending)
        except TimeoutError as error:
            raise sending.ended("no answer within the attempt's time budget", late=True) from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise sending.ended(type(error).__name__) from error
        except CallEnded:
            sending.settle()
            raise
        finally:
            await sending.give_back()

    async def _answer(self, request: Outgoing, sending: "_Sending") -> tuple[int, dict[str, str], bytes]:
        import httpx  # noqa: PLC0415

        # Straight at the transport: a client above it would keep cookies and log every URL.
        wire = httpx.Request(
            request.method,
            request.url,
            headers=dict(request.headers),
            content=request.content,
            extensions={"trace": sending.trace},
        )
        response = await self._transport().handle_async_request(wire)
        sending.status = response.status_code
        try:
            content = bytearray()
            async for chunk in _stream(response):
                content += chunk
                if len(content) > ANSWER_BYTES_MAX:
                    said = f"the answer has more than {ANSWER_BYTES_MAX} bytes"
                    raise Ambiguous(said, status=response.status_code, code="answer_too_large")
        finally:
            await response.aclose()
        headers = {name.lower(): value for name, value in response.headers.items()}
        if content and headers.get("content-encoding", "identity").lower() != "identity":
            raise Ambiguous(
                "the answer is encoded, which was not asked for", status=response.status_code, code="answer_unreadable"
            )
        return response.status_code, headers, bytes(content)

    def _transport(self) -> "httpx.AsyncHTTPTransport":
        import httpx  # noqa: PLC0415

        loop = asyncio.get_running_loop()
        transport = self._transports.get(loop)
        if transport is None:
            limits = httpx.Limits(
                max_connections=CONNECTIONS_MAX, max_keepalive_connections=KEPT_MAX, keepalive_expiry=KEPT_S
            )
            transport = httpx.AsyncHTTPTransport(
                verify=self._tls or _public_authorities(), trust_env=False, http2=False, retries=0, limits=limits
            )
            self._transports[loop] = transport
        return transport


class _Sending:
    """How far one request has come."""

    def __init__(self, call: Sending, what: str) -> None:
        self.call, self._what = call, what
        self.status: int | None = None
        self._at: int | None = None
        self._left = False
        self._interval = Interval.QUEUE
        self._stream: Any = None

    def begin(self, request: Outgoing) -> None:
        """The budget check before anything is done; a request that changes things is remembered."""
        if request.changes_things:
            self._at = begin(self.call, self._what)
        else:
            self.call.check_budget()

    async def trace(self, event: str, facts: Mapping[str, Any]) -> None:
        """What the transport says it does."""
        if event == "connection.connect_tcp.started":
            self._interval = Interval.CONNECT
        elif event == "connection.connect_tcp.complete":
            self._stream = facts["return_value"]
        elif event == "http11.send_request_headers.started":
            if self.call.remaining_s <= 0:
                raise NotSent("the attempt's time budget was spent before the send", interval=self._interval)
            self._left = True

    def ended(self, why: str, *, late: bool = False) -> CallEnded:
        """The end of a request without a whole answer."""
        self.settle()
        if not self._left:
            return NotSent(f"could not connect: {why}", interval=self._interval)
        interval = Interval.EXECUTION if late else None
        return Ambiguous(f"the connection ended without an answer: {why}", status=self.status, interval=interval)

    def settle(self) -> None:
        """Mark the request in ``sends`` where it is certain that it never left."""
        if self._at is not None and not self._left:
            never_left(self.call, self._what, self._at)

    async def give_back(self) -> None:
        """Close what was opened and never used: the transport forgets a socket whose TLS was interrupted."""
        if self._stream is not None and not self._left:
            await self._stream.aclose()


def _stream(response: "httpx.Response") -> "httpx.AsyncByteStream":
    import httpx  # noqa: PLC0415

    if not isinstance(response.stream, httpx.AsyncByteStream):
        raise httpx.StreamError("the transport gave no stream")
    return response.stream


def _conditions(if_match: str | None, if_none_match: str | None) -> dict[str, str]:
    given = {"if-match": if_match, "if-none-match": if_none_match}
    return {name: value for name, value in given.items() if value is not None}


@cache
def _public_authorities() -> ssl.SSLContext:
    import httpx  # noqa: PLC0415

    return httpx.create_ssl_context(verify=True, trust_env=False)
