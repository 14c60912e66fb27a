"""One event loop in a thread of its own, and other threads that wait for what runs in it.

A waiting thread may be interrupted: Ctrl-C, or a signal handler that exits. What it waited for is cancelled
then and given a moment to record where it stands, so an effect that left is *unknown* in the ledger and never
lost. Ending cancels whatever still runs in the same way, does the last work, and joins the thread.
"""

import asyncio
import contextlib
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, Final, TypeVar

from amends.errors import UsageError

SETTLE_S: Final = 10.0
"""How long an interrupted caller waits for the record of what it left: several pauses of a ledger that is away."""

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]


class LoopThread:
    """A running event loop. ``last`` is its last work, done once everything else has settled.

    Safe to use from any thread but its own. Not usable after a fork: the child has no such thread.
    """

    def __init__(self, last: Work[None]) -> None:
        self._last = last
        self._pid = os.getpid()
        self._ready: Future[asyncio.AbstractEventLoop] = Future()
        self._ended: Future[None] = Future()
        self._stop = asyncio.Event()
        self._begun: set[asyncio.Task[Any]] = set()
        self._gate = threading.Lock()
        self._ending = False
        self._thread = threading.Thread(target=self._work, name="amends-loop", daemon=True)
        self._thread.start()

    @property
    def usable(self) -> bool:
        """Whether work can still be given to it, from this process."""
        return not self._ending and os.getpid() == self._pid

    @property
    def ended(self) -> bool:
        """Whether its thread has done its last work."""
        return self._ended.done()

    def wait(self, work: Work[T]) -> T:
        """Run ``work()`` in the loop, in this thread's context, and wait for what it returns or raises.

        Raises:
            UsageError: the loop has ended or is ending, this is its own thread, or the process has forked.
        """
        self.check()
        done: Future[T] = Future()
        task: list[asyncio.Task[T]] = []
        context = contextvars.copy_context()
        try:
            loop = self._ready.result()
            self._soon(loop, partial(self._begin, work, done, task, context))
            wait([done])
        except BaseException:
            if not done.done():
                self._leave(done, task)
            raise
        return done.result()

    def check(self) -> None:
        """Refuse a caller that cannot wait here.

        Raises:
            UsageError: it says why.
        """
        if os.getpid() != self._pid:
            raise UsageError(
                f"this application was started in process {self._pid} and is used in {os.getpid()} after a fork, where "
                "its event loop does not run: start it after the fork, or make another Amends(...) here"
            )
        if threading.current_thread() is self._thread:
            raise UsageError(
                "amends.sync was called from its own event loop, which would wait for itself for ever: a coroutine "
                "effect or hook has to await; make it a plain def, which runs in a thread and may call this"
            )
        if self._ending:
            raise _closed()

    def end(self) -> None:
        """Settle what runs, do the last work and join the thread. Idempotent.

        Raises:
            UsageError: this is the loop's own thread, or the process has forked.
        """
        if self._ended.done():
            return self._ended.result()
        if not self._ending:
            self.check()
        with self._gate:
            self._ending = True
        with contextlib.suppress(RuntimeError):  # it has ended by itself meanwhile
            self._ready.result().call_soon_threadsafe(self._stop.set)
        self._thread.join()
        return self._ended.result()

    # --- in the loop ---------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 — carried to whoever ends the loop
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)
        finally:
            self._ending = True

    async def _serve(self) -> None:
        self._ready.set_result(asyncio.get_running_loop())
        await self._stop.wait()
        while self._begun:
            for task in self._begun:
                task.cancel()
            await asyncio.wait(self._begun)
        await self._last()

    def _begin(
        self, work: Work[T], done: "Future[T]", task: "list[asyncio.Task[T]]", context: contextvars.Context
    ) -> None:
        begun = asyncio.get_running_loop().create_task(work(), context=context)
        self._begun.add(begun)
        begun.add_done_callback(self._begun.discard)
        begun.add_done_callback(partial(_settle, done))
        task.append(begun)

    # --- in the waiting thread -----------------------------------------------------------------------

    def _soon(self, loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> None:
        """Have ``what`` done in the loop; never after its end was decided, when nobody would settle it."""
        with self._gate:
            if self._ending:
                raise _closed()
            loop.call_soon_threadsafe(what)

    def _leave(self, done: "Future[T]", task: "list[asyncio.Task[T]]") -> None:
        """Cancel what this thread waited for, and wait until that is recorded. Another interruption ends the wait."""

        def cancel() -> None:
            for begun in task:
                begun.cancel()

        if self._ready.done():
            self._ready.result().call_soon_threadsafe(cancel)
            wait([done], timeout=SETTLE_S)


def _settle(done: "Future[T]", task: "asyncio.Task[T]") -> None:
    """Hand a task's end to the thread that waits for it."""
    if task.cancelled():
        done.set_exception(_closed())
    elif (error := task.exception()) is not None:
        done.set_exception(error)
    else:
        done.set_result(task.result())


def _closed() -> UsageError:
    return UsageError(
        "this application was closed: what was under way is recorded and is taken up by the next start; "
        "use its runs inside `with app:`"
    )
