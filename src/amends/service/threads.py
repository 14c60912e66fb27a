"""Users' code: coroutines in the loop, synchronous functions in threads.

A thread cannot be cancelled. So a call in a thread lives until it returns, whatever its caller has
concluded by then, and its result is kept for whoever still wants it. The threads are daemons: a function
that never returns does not keep the process.
"""

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Callable, Coroutine
from functools import lru_cache
from typing import Any

from amends.service.call import Call, SyncCall

log: logging.Logger = logging.getLogger("amends.attempts")


def begin(function: Callable[..., Any], call: Call, *args: Any, **kwargs: Any) -> asyncio.Future[Any]:
    """Begin ``function(call, …)``; a synchronous one in a thread, with a ``SyncCall``."""
    if not runs_in_thread(function):
        coroutine: Coroutine[Any, Any, Any] = function(call, *args, **kwargs)
        return asyncio.ensure_future(coroutine)
    loop = asyncio.get_running_loop()
    return _in_thread(loop, function, SyncCall.of(call, loop), args, kwargs)


@lru_cache(1024)
def runs_in_thread(function: Callable[..., Any]) -> bool:
    """Whether ``function`` runs in a thread, and so outlives its time-out."""
    called = getattr(function, "__call__", None)  # noqa: B004 — an object may have a coroutine __call__
    return not (inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called))


def _in_thread(
    loop: asyncio.AbstractEventLoop,
    function: Callable[..., Any],
    call: SyncCall,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            result, error = context.run(function, call, *args, **kwargs), None
        except BaseException as raised:  # noqa: BLE001 — carried to the loop, whatever it is
            result, error = None, raised
        try:
            loop.call_soon_threadsafe(_settle, future, result, error)
        except RuntimeError:  # the loop is closed: nobody is left to tell
            if call.attempt:
                log.warning("attempt %d of %s ended after its application did", call.attempt, call.operation)

    threading.Thread(target=work, name=f"amends-{call.operation}-{call.attempt}", daemon=True).start()
    return future


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, Exception) and not isinstance(error, StopIteration):
        future.set_exception(error)
    else:
        future.set_exception(RuntimeError(f"a synchronous function ended with {type(error).__name__}"))
