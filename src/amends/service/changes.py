"""Who waits for news of which run, in this process.

Being told is an optimization: whoever waits looks at the ledger again in any case, soon at first and then
more slowly, since other processes write to it as well.
"""

import asyncio
import contextlib
from typing import Final

POLL_FIRST_S: Final = 0.02
"""How soon another process's progress is looked for: the time of a quick call."""

POLL_S_MAX: Final = 0.5
"""The longest pause between two looks: what a caller hardly feels after it has waited that long."""


class Changes:
    """Wakes those who wait for a run. For one event loop at a time."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    def happened(self, run: str) -> None:
        """Something was appended to ``run``, or refused."""
        for waiter in self._waiting.pop(run, ()):
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, run: str, timeout_s: float) -> bool:
        """Wait until something happens to ``run`` in this process, ``timeout_s`` at most. Whether it did.

        It waits from the moment of the call: what happens after it is not missed.
        """
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(run, set()).add(waiter)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await waiter
        finally:
            waiters = self._waiting.get(run)
            if waiters is not None:
                waiters.discard(waiter)
                if not waiters:
                    del self._waiting[run]
        return waiter.done() and not waiter.cancelled()


class Patience:
    """How long to wait for other processes before looking again; news makes it short again."""

    def __init__(self) -> None:
        self._next_s = POLL_FIRST_S

    def pause_s(self, *, at_most_s: float) -> float:
        """The next pause, twice the last one; never longer than ``at_most_s``, when something is due anyway."""
        pause, self._next_s = self._next_s, min(self._next_s * 2, POLL_S_MAX)
        return max(0.001, min(pause, at_most_s))

    def news(self) -> None:
        """Something has changed: more may follow at once."""
        self._next_s = POLL_FIRST_S
