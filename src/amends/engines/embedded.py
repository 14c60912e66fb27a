"""The embedded engine: recovery inside the application's own event loop.

Due wakes are rows of the ledger. A pass drives every run whose wake is due, a bounded number at once; the
loop makes a pass whenever one falls due, and looks at least once a second, since other processes write
wakes as well. Being told of a wake is an optimization that may be lost.

A run whose pass fails is put off in memory, for longer each time: it holds up nobody, and another worker
with another set of registrations may take it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Final, NamedTuple

from amends.core.backoff import backoff_ms
from amends.core.limits import BACKOFF_MS_MAX
from amends.errors import AmendsError, LedgerIntegrityError
from amends.service.advance import advance
from amends.service.services import Services

RUNS_AT_ONCE: Final = 64
"""Runs one pass drives at the same time: enough to share commits, few enough to bound memory."""

PAGE: Final = 1_000
SWEEP_S: Final = 1.0
"""How long a wake that another process wrote may go unseen."""

log: logging.Logger = logging.getLogger("amends.recovery")


class Recovered(NamedTuple):
    """One recovery pass: how many runs were driven, and those that could not be, with the reason."""

    runs: int
    failed: dict[str, str]


class Embedded:
    """Recovers what is due in the ledger of ``services``."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._task: asyncio.Task[None] | None = None
        self._put_off: dict[str, tuple[int, int]] = {}  # run → times it failed, not before

    def start(self) -> None:
        """Begin recovering in the running event loop. Idempotent."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._loop(), name="amends-recovery")

    async def stop(self) -> None:
        """End the loop; what it was doing is taken up by the next pass, of whoever makes it. Idempotent."""
        task, self._task = self._task, None
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def one_pass(self) -> Recovered:
        """Drive every run whose wake is due now, as far as it goes."""
        runs = list(self._due())
        failed: dict[str, str] = {}
        slots = asyncio.Semaphore(RUNS_AT_ONCE)

        async def drive(run: str) -> None:
            async with slots:
                try:
                    await advance(run, self._services)
                except Exception as error:  # noqa: BLE001 — one run's trouble is not another's
                    failed[run] = self._failed(run, error)
                else:
                    self._put_off.pop(run, None)

        async with asyncio.TaskGroup() as group:
            for run in runs:
                group.create_task(drive(run))
        return Recovered(len(runs), failed)

    def _due(self) -> Iterator[str]:
        """Every due run, page by page, without those that were put off."""
        now, after = self._services.clock.now_ms(), (-1, "")
        while page := self._services.ledger.due(now, limit=PAGE, after=after):
            for run, wake_at in page:
                after = (wake_at, run)
                if self._put_off.get(run, (0, 0))[1] <= now:
                    yield run

    def _failed(self, run: str, error: Exception) -> str:
        times = self._put_off.get(run, (0, 0))[0] + 1
        pause = backoff_ms(times, first_ms=1_000, most_ms=BACKOFF_MS_MAX, jitter=self._services.entropy.jitter())
        self._put_off[run] = (times, self._services.clock.now_ms() + pause)
        reason = error.message if isinstance(error, AmendsError) else f"it raised {type(error).__name__}"
        level = logging.ERROR if isinstance(error, LedgerIntegrityError) else logging.WARNING
        log.log(level, "run %s could not be driven: %s", run, reason)
        return reason

    async def _loop(self) -> None:
        while True:
            try:
                await self.one_pass()
            except AmendsError as error:
                log.warning("a recovery pass failed: %s", error.message)
            except Exception as error:  # noqa: BLE001 — nothing else would drive what is due; its text may hold secrets
                log.error("a recovery pass failed: %s", type(error).__name__)
            await asyncio.sleep(self._pause_s())

    def _pause_s(self) -> float:
        """Until the next wake that may be driven, and no longer than a sweep."""
        try:
            wake = self._services.ledger.next_wake()
        except AmendsError:
            return SWEEP_S
        if wake is None:
            return SWEEP_S
        ahead_s = (wake - self._services.clock.now_ms()) / 1000
        return min(max(ahead_s, 0.05), SWEEP_S)
