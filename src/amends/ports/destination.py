"""Ports to a destination: what its client needs of a call, what it does, and what it gives back.

A destination makes one request and says how it ended: a ``Reply``, or one of the ends of
``amends.core.failures`` raised. It never repeats anything by itself. The names of what was sent stand
in ``Sending.sends`` in the order of sending, which is also the order from which the keys of a second
and third request of one attempt are made.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from amends.core.contract import Contract
from amends.core.failures import NotSent

NEVER_LEFT: Final = "never left: "
"""Put in front of a name in ``Sending.sends`` once it is certain that no byte of that request went out."""

READ: Final = "read: "
"""The same for a read that failed after something was sent."""


class Sending(Protocol):
    """What the client needs of a call."""

    @property
    def key(self) -> str:
        """The idempotency key."""
        ...

    @property
    def remaining_s(self) -> float:
        """Seconds of the budget that are left; never negative."""
        ...

    @property
    def sends(self) -> list[str]:
        """What this attempt sent so far, in order, and what failed after that."""
        ...

    def check_budget(self) -> None:
        """Raises ``NotSent`` when the budget is spent."""
        ...

    def about_to_send(self, what: str) -> None:
        """The same before a request that changes things, which it remembers in ``sends``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A whole answer that is not a refusal.

    Attributes:
        status: 2xx, or 304 to a conditional read.
        body: the decoded JSON; ``None`` where the answer has no body. Not shown by ``repr``.
        etag: the ``ETag`` header as it came, quotes included; pass it back as ``if_match``.
        headers: the answer's headers, names in lower case, repeated ones joined by ``", "``.
    """

    status: int
    body: Any = field(default=None, repr=False)
    etag: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class Destination(Protocol):
    """One destination: a system of record that can be asked and changed."""

    @property
    def name(self) -> str:
        """What people call it; empty where nobody named it."""
        ...

    @property
    def contract(self) -> Contract:
        """What it promises where no endpoint says more."""
        ...

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

        Raises:
            NotSent: nothing left. Rejected: refused, surely. Ambiguous: nobody knows.
        """
        ...

    async def aclose(self) -> None:
        """Give back the connections of the running event loop; safe to call again."""
        ...


def really_sent(sends: Iterable[str]) -> list[str]:
    """The names in ``sends`` of requests that change things and are not known to have stayed here."""
    return [name for name in sends if not name.startswith((NEVER_LEFT, READ))]


def begin(call: Sending, what: str) -> int:
    """Check the budget and remember that ``what`` is being sent; its index in ``sends``.

    Raises:
        NotSent: the budget is spent.
    """
    try:
        call.about_to_send(what)
    except NotSent:
        never_left(call, what)
        raise
    return len(call.sends) - 1


def never_left(call: Sending, what: str, at: int | None = None) -> None:
    """Note that ``what`` (begun at index ``at``) never left; its key may then be used by its repeat."""
    if at is None:
        call.sends.append(NEVER_LEFT + what)
    else:
        call.sends[at] = NEVER_LEFT + what


def read_failed(call: Sending, what: str) -> None:
    """Note that a read failed, where something was sent before it in this attempt."""
    if really_sent(call.sends):
        call.sends.append(READ + what)
