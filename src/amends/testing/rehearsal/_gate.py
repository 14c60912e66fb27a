"""A gate that holds requests until a test lets them go, so that no test has to sleep.

A holder registers before it waits; a test waits for the registration, acts, and releases. Release returns only when
the released ones have finished, so that the very next read sees what they did.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

HELD_WAIT_MS_MAX: Final = 30_000
"""The longest a test may wait for something to be held, or for what it released to finish."""


class Held:
    """One held request."""

    def __init__(self, seq: int, leave: Callable[["Held"], None]) -> None:
        self.seq = seq
        self.dropped = False
        self.released: asyncio.Event = asyncio.Event()
        self.finished: asyncio.Event = asyncio.Event()
        self._leave = leave

    async def wait(self, delay_ms: int | None = None) -> bool:
        """Wait for release, or for `delay_ms`; False when it was dropped and must not proceed."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.released.wait(), None if delay_ms is None else delay_ms / 1000)
        self.leave()
        return not self.dropped

    def leave(self) -> None:
        """No longer held, whatever the reason."""
        self._leave(self)


class Gate:
    """Everything that is held now."""

    def __init__(self) -> None:
        self._held: dict[int, Held] = {}
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def hold(self, seq: int) -> Held:
        """Register a request as held; the caller then awaits `wait` and, at the end, sets `finished`."""
        held = Held(seq, self._remove)
        self._held[seq] = held
        self._notify()
        return held

    async def wait_until_held(self, count: int, wait_ms: int) -> int:
        """Wait, bounded, until at least `count` are held; answers how many are."""
        async with self._changed:
            with suppress(TimeoutError):
                await asyncio.wait_for(
                    self._changed.wait_for(lambda: len(self._held) >= count),
                    min(wait_ms, HELD_WAIT_MS_MAX) / 1000,
                )
        return len(self._held)

    async def release(self, seq: int | None = None, *, drop: bool = False) -> list[int]:
        """Let all go (or one), and wait until they have finished; answers which. `drop` ends them unserved."""
        chosen = [held for held in self._held.values() if seq is None or held.seq == seq]
        for held in chosen:
            held.dropped = drop
            held.released.set()
        waits = [held.finished.wait() for held in chosen]
        await asyncio.wait_for(asyncio.gather(*waits), HELD_WAIT_MS_MAX / 1000)
        return [held.seq for held in chosen]

    @property
    def seqs(self) -> list[int]:
        return sorted(self._held)

    def _remove(self, held: Held) -> None:
        if self._held.pop(held.seq, None) is not None:
            self._notify()

    def _notify(self) -> None:
        task = asyncio.get_running_loop().create_task(self._tell())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()
