"""The port to a destination: one request of one call, and how it ended.

A destination sends what it is told, once, inside the call's budget, and says how it ended: with a reply,
never left, refused, or unknown. It never repeats anything by itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from amends.core.contract import Contract


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer that says it worked. ``body`` is the decoded JSON, or ``None``; ``headers`` have lower-case names."""

    status: int
    body: Any
    etag: str | None
    headers: Mapping[str, str]


class Sending(Protocol):
    """What a destination needs of a call."""

    @property
    def key(self) -> str:
        """The idempotency key."""
        ...

    @property
    def sends(self) -> Sequence[str]:
        """What was sent so far in this attempt."""
        ...

    @property
    def remaining_s(self) -> float:
        """Seconds of the budget that are left."""
        ...

    def check_budget(self) -> None:
        """Raises ``NotSent`` when the budget is spent."""
        ...

    def about_to_send(self, what: str) -> None:
        """The same before a request that changes things, which it remembers."""
        ...


class Destination(Protocol):
    """An outside system, under the promises of its contract."""

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    @property
    def contract(self) -> Contract:
        """What it promises."""
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
        """Send one request.

        Raises:
            NotSent: nothing left. Rejected: refused, surely. Ambiguous: nobody knows.
        """
        ...

    async def aclose(self) -> None:
        """Give connections back. Idempotent."""
        ...
