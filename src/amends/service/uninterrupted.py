"""Awaiting in the caller's own task: to the end whatever comes, or no longer than a budget allows.

A record of what a call did must be finished even when its caller is cancelled meanwhile, and an effect must not
outlast its budget. Both are usually had for a task and a timer each. Most appends and many tools finish without
waiting for anything, though, and then neither is needed: work is begun at once, in the caller's task, and only
what really has to wait is handed on.
"""

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_its_end(work: Coroutine[Any, Any, T]) -> tuple[T, asyncio.CancelledError | None]:
    """The result of ``work``, which is never cancelled, and the cancellation that came while it was waited for.

    Whoever asks has to raise the cancellation, after doing what the result demands.
    """
    try:
        waiting = work.send(None)
    except StopIteration as done:
        return done.value, None
    task = asyncio.ensure_future(_finished(work, waiting))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
        except Exception:  # noqa: BLE001 — it is the work's own, and raised below
            break
    return task.result(), cancelled


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which is cancelled after ``seconds``.

    Raises:
        TimeoutError: it took longer.
    """
    try:
        waiting = work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    async with asyncio.timeout(seconds):
        return await _finished(work, waiting)


async def _finished(work: Coroutine[Any, Any, T], waiting: Any) -> T:
    return await _rest(work, waiting)


@coroutine
def _rest(work: Coroutine[Any, Any, T], waiting: Any) -> Generator[Any, Any, T]:
    """Go on with ``work``, which was begun and waits for ``waiting``."""
    try:
        while True:
            try:
                sent = yield waiting
            except BaseException as error:  # noqa: BLE001 — handed to the work, whatever it is
                waiting = work.throw(error)
            else:
                waiting = work.send(sent)
    except StopIteration as done:
        result: T = done.value
        return result
