"""Group commit: appends that wait at the same time share one transaction and one fsync.

An append is queued and a flush is planned for the end of the loop's current turn; whatever was queued in
that turn is one batch. A lone append on an idle, fast ledger is committed right there: a thread would
cost more than the commit. Everything else — several appends, a lock held by another process, a slow disk
— goes to one writer thread, which takes what has queued meanwhile as its next batch. Order is kept: one
batch is in flight at a time, and the queue is first in, first out.

A task whose last append was alone is alone still when it comes back first: its next append is written at
once, without a turn of the loop. After a few of them it has to queue, so that it cannot keep the loop to
itself.

Nobody is told anything before the batch is settled. A waiter that was cancelled leaves its append behind.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, Final, NamedTuple

from amends.errors import AmendsError, LedgerUnavailable
from amends.ledger.batch import Outcome
from amends.ports.ledger import Answer, Append

SLOW_NS: Final = 5_000_000
"""Average commit above which the loop is not kept waiting for one: a turn of 5 ms is felt by callers."""
BATCH_MAX: Final = 512
"""Appends in one transaction: bounds how long the write lock is held against other processes."""

AT_ONCE_MAX: Final = 3
"""Appends in a row that one task writes without a turn of the loop: bounds how long others wait for theirs."""


class Busy(Exception):
    """The write lock is held by somebody else, and this call was not to wait for it."""


class Waiting(NamedTuple):
    """One queued append and who waits for it."""

    append: Append
    future: asyncio.Future[Answer]
    loop: asyncio.AbstractEventLoop


Write = Callable[[Sequence[Append], bool], Sequence[Outcome]]
"""Writes a batch in one transaction; the flag says whether to wait for the lock (else ``Busy``)."""


class GroupWriter:
    """Queues appends and writes them in batches. Safe to use from several loops and threads."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._lock = Lock()
        self._queue: list[Waiting] = []
        self._planned: asyncio.AbstractEventLoop | None = None
        self._running = False
        self._pace_ns = 0
        self._alone: asyncio.Task[Any] | None = None
        self._at_once = 0
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="amends-ledger")

    def submit(self, append: Append) -> asyncio.Future[Answer]:
        """Queue ``append``; the future is settled when its batch is."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        waiting, task = Waiting(append, future, loop), asyncio.current_task(loop)
        if self._begin_at_once(task):
            try:
                written = self._inline([waiting])
            except BaseException:
                future.cancel()  # its caller is told by the exception itself
                raise
            finally:
                self._end_turn()
            if written:
                return future
        with self._lock:
            self._alone = None if self._queue or self._running else task
            self._queue.append(waiting)
            plan = self._planned is not loop
            self._planned = loop
        if plan:
            loop.call_soon(self._flush)
        return future

    def _begin_at_once(self, task: asyncio.Task[Any] | None) -> bool:
        """Whether ``task`` may write its append now; then nobody else writes until ``_running`` is cleared."""
        with self._lock:
            same = task is not None and task is self._alone and self._at_once < AT_ONCE_MAX
            free = not (self._queue or self._running) and self._pace_ns < SLOW_NS
            self._at_once = self._at_once + 1 if same and free else 0
            self._running = self._running or (same and free)
            return same and free

    async def run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Run ``call`` in the writer thread, after the batches that are in flight."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, call, *args)

    async def drain(self) -> None:
        """Write everything that is queued, then end the thread."""
        await self.run(self._work)
        self._executor.shutdown(wait=True)

    def _flush(self) -> None:
        with self._lock:
            self._planned = None
            if self._running or not self._queue:
                return
            self._running = True
            alone = len(self._queue) == 1 and self._pace_ns < SLOW_NS
            batch = self._take() if alone else []
        try:
            if batch and not self._inline(batch):
                with self._lock:
                    self._queue[:0] = batch
        finally:
            self._end_turn()

    def _end_turn(self) -> None:
        """Let others write; what has queued meanwhile goes to the thread."""
        with self._lock:
            more = bool(self._queue)
            self._running = False
        if more:
            self._executor.submit(self._work)

    def _inline(self, batch: list[Waiting]) -> bool:
        """Commit here and now; ``False`` when that would mean waiting for the lock."""
        try:
            outcomes = self._timed(batch, False)
        except Busy:
            return False
        _settle(list(zip(batch, outcomes, strict=True)))
        return True

    def _work(self) -> None:
        """Write batches until the queue is empty."""
        while True:
            with self._lock:
                batch = [] if self._running else self._take()
                self._running = self._running or bool(batch)
            if not batch:
                return
            try:
                outcomes = self._timed(batch, True)
            finally:
                with self._lock:
                    self._running = False
            _deliver(batch, outcomes)

    def _take(self) -> list[Waiting]:
        batch, self._queue = self._queue[:BATCH_MAX], self._queue[BATCH_MAX:]
        return batch

    def _timed(self, batch: list[Waiting], wait: bool) -> Sequence[Outcome | Exception]:
        began = time.monotonic_ns()
        try:
            return self._write([waiting.append for waiting in batch], wait)
        except Busy:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it was, every waiter of the batch has to hear it
            return [_copy(error) for _ in batch]
        except BaseException:
            _deliver(batch, [_interrupted() for _ in batch])
            raise
        finally:
            self._pace_ns = (3 * self._pace_ns + time.monotonic_ns() - began) // 4


def _interrupted() -> LedgerUnavailable:
    """For the waiters of a batch that an exit or an interrupt broke off: it goes on upwards, they hear this."""
    return LedgerUnavailable("the write was broken off and nothing of it was acknowledged; append the same entry again")


def _copy(error: Exception) -> Exception:
    """One exception per waiter: a shared one would collect everybody's traceback."""
    if not isinstance(error, AmendsError):
        return error
    copy = type(error)(error.message, **error.facts)
    copy.__cause__ = error.__cause__
    return copy


def _deliver(batch: list[Waiting], outcomes: Sequence[Outcome | Exception]) -> None:
    """Settle each waiter in its own loop. A loop that is gone has nobody left to tell."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Waiting, Outcome | Exception]]] = {}
    for waiting, outcome in zip(batch, outcomes, strict=True):
        by_loop.setdefault(waiting.loop, []).append((waiting, outcome))
    for loop, settled in by_loop.items():
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, settled)


def _settle(settled: Sequence[tuple[Waiting, Outcome | Exception]]) -> None:
    for waiting, outcome in settled:
        if waiting.future.done():
            continue
        if isinstance(outcome, Exception):
            waiting.future.set_exception(outcome)
        else:
            waiting.future.set_result(outcome)
