"""What an effect function, a lookup or a verification is given: the call it is part of.

The budget of an attempt began before its claim. It is checked immediately before anything is sent: a
worker that was stopped and continued sends nothing late from here.

``Call`` is for coroutines. A synchronous function runs in a thread and is given a ``SyncCall``: the same
facts, and the same requests, which run in the application's event loop while the thread waits.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from amends.core.failures import Interval, NotSent
from amends.core.secret import Secret
from amends.errors import UsageError
from amends.ports.destination import Destination, Reply
from amends.ports.world import Clock, Secrets
from amends.service import points


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFacts:
    """One call of an effect's code.

    Attributes:
        key: the idempotency key, the same in every attempt.
        operation, run: their ids.
        attempt: which attempt this is; 0 in a lookup, a verification and every other read.
        arguments: a fresh copy, decoded from what was hashed.
        target: what is changed.
        resource_version: the version read before the claim, where one is registered.
        pre_state: what was captured before the first attempt, where a capture is registered.
        sends: what was sent so far in this attempt, as the destination's client says.
    """

    key: str
    operation: str
    run: str
    attempt: int
    arguments: Mapping[str, Any]
    target: str
    clock: Clock
    ends_at_ms: int
    destination: Destination | None = None
    secrets: Secrets | None = None
    resource_version: str | None = None
    pre_state: Any = None
    sends: list[str] = field(default_factory=list)
    revealed: list[str] = field(default_factory=list, repr=False)

    @property
    def remaining_s(self) -> float:
        """Seconds of the budget that are left; never negative."""
        return max(0.0, (self.ends_at_ms - self.clock.budget_ms()) / 1000)

    def check_budget(self) -> None:
        """Call it immediately before sending.

        Raises:
            NotSent: the budget is spent; nothing may leave any more.
        """
        if self.clock.budget_ms() >= self.ends_at_ms:
            raise NotSent("the attempt's time budget was spent before the send", interval=Interval.QUEUE)
        points.reached("call.before_send")

    def about_to_send(self, what: str) -> None:
        """Check the budget and remember that ``what`` is being sent. Call it before each request that changes things.

        After a second one, no refusal proves any more that nothing happened: the first may have worked.

        Raises:
            NotSent: the budget is spent; nothing may leave any more.
        """
        self.check_budget()
        self.sends.append(what)

    def reveal(self, secret: Secret) -> str:
        """The value ``secret`` refers to. It is blotted out of whatever this call has recorded."""
        if self.secrets is None:
            raise UsageError(f"no secret store is configured; {secret!r} cannot be read")
        value = self.secrets.reveal(secret.reference)
        self.revealed.append(value)
        return value

    def _destination(self) -> Destination:
        if self.destination is None:
            raise UsageError(
                "this effect has no destination to send through; register it with destination=app.destination(...)"
            )
        return self.destination


class Call(CallFacts):
    """A call, for coroutines: ``await call.post("/v1/refunds", {...})``.

    Each verb sends one request through the effect's destination and returns the decoded body. ``request``
    returns the whole reply, with its ETag.

    Raises:
        NotSent, Rejected, Ambiguous: see ``amends.core.failures``; let them pass.
    """

    __slots__ = ()

    async def request(self, method: str, path: str, **options: Any) -> Reply:
        """One request with the options of ``Destination.request``."""
        return await self._destination().request(self, method, path, **options)

    async def get(self, path: str, **params: str) -> Any:
        """Read ``path``."""
        return (await self.request("GET", path, params=params)).body

    async def post(self, path: str, body: Any = None, **options: Any) -> Any:
        """Send ``body`` as JSON, with the key."""
        return (await self.request("POST", path, body=body, **options)).body

    async def put(self, path: str, body: Any = None, **options: Any) -> Any:
        """The same with PUT; ``if_match=call.resource_version`` makes it conditional."""
        return (await self.request("PUT", path, body=body, **options)).body

    async def patch(self, path: str, body: Any = None, **options: Any) -> Any:
        """The same with PATCH."""
        return (await self.request("PATCH", path, body=body, **options)).body

    async def delete(self, path: str, **options: Any) -> Any:
        """The same with DELETE."""
        return (await self.request("DELETE", path, **options)).body


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncCall(CallFacts):
    """A call, for synchronous functions: the same verbs as ``Call``, which block."""

    loop: asyncio.AbstractEventLoop

    @classmethod
    def of(cls, call: CallFacts, loop: asyncio.AbstractEventLoop) -> "SyncCall":
        """The same call, seen from a thread; what is sent is remembered in one place."""
        return cls(loop=loop, **{f.name: getattr(call, f.name) for f in fields(CallFacts)})

    def request(self, method: str, path: str, **options: Any) -> Reply:
        """One request with the options of ``Destination.request``."""
        sending = self._destination().request(self, method, path, **options)
        try:
            replied = asyncio.run_coroutine_threadsafe(sending, self.loop)
        except RuntimeError as error:  # the loop is closed: the application ended while this thread went on
            sending.close()
            raise NotSent("the application was closed before the send", interval=Interval.QUEUE) from error
        return replied.result()

    def get(self, path: str, **params: str) -> Any:
        """Read ``path``."""
        return self.request("GET", path, params=params).body

    def post(self, path: str, body: Any = None, **options: Any) -> Any:
        """Send ``body`` as JSON, with the key."""
        return self.request("POST", path, body=body, **options).body

    def put(self, path: str, body: Any = None, **options: Any) -> Any:
        """The same with PUT."""
        return self.request("PUT", path, body=body, **options).body

    def patch(self, path: str, body: Any = None, **options: Any) -> Any:
        """The same with PATCH."""
        return self.request("PATCH", path, body=body, **options).body

    def delete(self, path: str, **options: Any) -> Any:
        """The same with DELETE."""
        return self.request("DELETE", path, **options).body
