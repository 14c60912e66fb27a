"""One attempt: the call, how it ended, and the record of that.

Whatever a call did is recorded, whoever else writes to the run and whether or not its caller still waits.
A thread cannot be cancelled: its attempt lives until it returns or its time is over, with or without a
caller, and what it brings after that is recorded as late evidence. Where the application was closed
meanwhile, the attempt stays claimed, and the next one looks up what came of it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from amends.core import attempt, response, told
from amends.core.evidence import Expectation, Receipt
from amends.core.failures import Ambiguous, CallEnded, Interval, NotSent, Outcome, clip
from amends.core.model import Event, Operation, RunState
from amends.core.states import NOTHING_HAPPENED, Kind, State
from amends.core.terms import Terms
from amends.errors import LedgerUnavailable
from amends.ports.destination import really_sent
from amends.ports.ledger import Answer, Applied
from amends.service import observing, points
from amends.service.blotting import Blotter
from amends.service.call import Call
from amends.service.handle import RunHandle
from amends.service.registry import Effect
from amends.service.revisions import sent_after
from amends.service.services import Services
from amends.service.threads import begin, runs_in_thread
from amends.service.uninterrupted import to_its_end, within

log: logging.Logger = logging.getLogger("amends.attempts")

RECORD_PAUSES_S: Final = (0.05, 0.2, 1.0)
"""Pauses before a result is offered to an unavailable ledger again; then the lookup has to find it."""

Decision = Callable[[RunState, int], Sequence[Event]]
Claimed = tuple[Answer, Sequence[Event]]


async def until_applied(handle: RunHandle, decision: Decision) -> Sequence[Event]:
    """Evidence is recorded whoever else writes to the run: decide anew after each conflict. The events recorded."""
    while not isinstance((decided := await handle.decide(decision))[0], Applied):
        pass
    return decided[1]


def has_claim(claimed: Claimed) -> bool:
    """Whether an attempt was claimed, durably."""
    answer, events = claimed
    return isinstance(answer, Applied) and any(event.kind is Kind.COMMIT_STARTED for event in events)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """Records what happened to attempts of one operation."""

    handle: RunHandle
    operation: str
    terms: Terms
    services: Services
    expected: Callable[[Operation], Expectation]
    blotter: Blotter

    async def claimed(self, claim: Coroutine[Any, Any, Claimed]) -> Claimed:
        """Wait for a claim. A caller cancelled meanwhile leaves it recorded as *never left*."""
        made, cancelled = await to_its_end(claim)
        if cancelled is None:
            return made
        if has_claim(made):
            number = self.handle.state.operations[self.operation].attempts
            await self.ended(number, NotSent("cancelled in the queue", code="caller_cancelled"))
        raise cancelled

    async def ended(self, number: int, end: CallEnded) -> None:
        """Record that attempt ``number`` ended without a receipt."""
        end.reason = clip(self.blotter.clean(end.said))
        end.code = self.blotter.clean(end.code)

        def decision(state: RunState, now: int) -> Sequence[Event]:
            operation = state.operations[self.operation]
            if operation.state is not State.COMMITTING or operation.attempts != number:
                return []
            return attempt.ended(operation, self.terms, end, now=now, jitter=self.services.entropy.jitter())

        await self._surely(decision)

    async def responded(self, number: int, receipt: Receipt) -> None:
        """Record ``receipt`` for attempt ``number``, in time or late."""
        clean = observing.blotted(receipt, self.blotter)

        def decision(state: RunState, now: int) -> Sequence[Event]:
            operation = state.operations[self.operation]
            if self._revised(state, operation):
                return response.revised_already(operation, clean)
            return response.responded(operation, self.terms, clean, self.expected(operation), attempt=number, now=now)

        await self._surely(decision)

    async def found(self, receipts: Sequence[Receipt]) -> None:
        """Record ``receipts``, all that somebody outside found."""
        clean = [observing.blotted(receipt, self.blotter) for receipt in receipts]

        def decision(state: RunState, now: int) -> Sequence[Event]:
            operation = state.operations[self.operation]
            if self._revised(state, operation):
                return response.revised_already(operation, clean[0])
            return response.found(operation, self.terms, clean, self.expected(operation), now=now)

        await self._surely(decision)

    def _revised(self, state: RunState, operation: Operation) -> bool:
        return operation.state in NOTHING_HAPPENED and sent_after(self.services, state, operation)

    async def _surely(self, decision: Decision) -> None:
        """Finish recording even when the caller is cancelled, and offer it again to a ledger that was away."""
        _, cancelled = await to_its_end(self._patiently(decision))
        if cancelled is not None:
            raise cancelled

    async def _patiently(self, decision: Decision) -> None:
        for pause in RECORD_PAUSES_S:
            try:
                await until_applied(self.handle, decision)
                return
            except LedgerUnavailable:
                await asyncio.sleep(pause)
        await until_applied(self.handle, decision)


async def make(effect: Effect, call: Call, recorder: Recorder) -> None:
    """Call the effect and record how it ended.

    A caller cancelled while a coroutine runs leaves *unknown*, recorded; so does the end of the budget. A
    thread goes on without its caller.
    """
    try:
        call.check_budget()
    except NotSent as end:
        await recorder.ended(call.attempt, end)
    else:
        await (_in_thread if runs_in_thread(effect.function) else _in_loop)(effect, call, recorder)


async def _in_loop(effect: Effect, call: Call, recorder: Recorder) -> None:
    try:
        receipt = _checked(await within(call.remaining_s, effect.function(call, **call.arguments)))
    except asyncio.CancelledError:
        await recorder.ended(call.attempt, Ambiguous("the caller was cancelled after the call left"))
        raise
    except TimeoutError as error:
        await recorder.ended(call.attempt, _out_of_time(error))
    except Exception as error:  # noqa: BLE001 — the boundary to user code: what nobody classified is unknown
        await recorder.ended(call.attempt, _end(call, error))
    else:
        await _responded(call, recorder, receipt)


async def _responded(call: Call, recorder: Recorder, receipt: Receipt) -> None:
    points.reached("call.after")
    await recorder.responded(call.attempt, receipt)
    points.reached("result.after")


def _end(call: Call, error: Exception) -> CallEnded:
    """How a call ended that raised ``error``. Whatever nobody classified is *unknown*."""
    match error:
        case CallEnded() if really_sent(call.sends[:-1]) and error.outcome is not Outcome.PARTIAL:
            return Ambiguous(f"after an earlier send: {error.reason}", status=error.status, code="after_a_send")
        case CallEnded():
            return error
        case told.ToldError():
            return Ambiguous(f"what the effect answered cannot be recorded: {error}", code="answer_refused")
        case TimeoutError():
            return _out_of_time(error)
        case _:
            return Ambiguous(f"the effect raised {type(error).__name__}", code="unclassified")


def _out_of_time(_: TimeoutError | None = None) -> Ambiguous:
    return Ambiguous("no answer within the attempt's time budget", interval=Interval.EXECUTION)


def _checked(receipt: Any) -> Receipt:
    if not isinstance(receipt, Receipt):
        raise Ambiguous(
            f"the effect returned {told.article(receipt)}, not a Receipt(resource=...): its code has to be mended",
            code="no_receipt",
        )
    return receipt


# --- calls in threads ----------------------------------------------------------------------------------


async def _in_thread(effect: Effect, call: Call, recorder: Recorder) -> None:
    """Wait for the call; a caller that is cancelled leaves it alive, and its attempt claimed."""
    calling = begin(effect.function, call, **call.arguments)
    await asyncio.shield(_apart(_lived(calling, call, recorder), call, recorder.services))


async def _lived(calling: asyncio.Future[Any], call: Call, recorder: Recorder) -> None:
    """Record how the thread ended, or that its time was over; what it brings after that is late evidence."""
    try:
        await asyncio.wait({calling}, timeout=call.remaining_s)
    finally:
        if not calling.done():
            calling.add_done_callback(lambda done: _came_late(done, call, recorder))
    if calling.done():
        await _record(calling, call, recorder)
    else:
        await recorder.ended(call.attempt, _out_of_time())


async def _record(calling: asyncio.Future[Any], call: Call, recorder: Recorder) -> None:
    try:
        receipt = _checked(calling.result())
    except Exception as error:  # noqa: BLE001 — the boundary to user code
        await recorder.ended(call.attempt, _end(call, error))
    else:
        await _responded(call, recorder, receipt)


def _came_late(calling: asyncio.Future[Any], call: Call, recorder: Recorder) -> None:
    """A receipt that a thread brings after its time counts as evidence; how else it ended proves nothing any more."""
    if not calling.cancelled() and calling.exception() is None and isinstance(calling.result(), Receipt):
        _apart(recorder.responded(call.attempt, calling.result()), call, recorder.services)


async def ended(services: Services, within_s: float) -> None:
    """Wait until every call in a thread has ended and is recorded, ``within_s`` at most."""
    living = {task for task in services.living if task.get_loop() is asyncio.get_running_loop()}
    if living:
        await asyncio.wait(living, timeout=within_s)


def _apart(work: Coroutine[Any, Any, None], call: Call, services: Services) -> asyncio.Task[None]:
    """Do ``work`` in a task that nobody's cancellation reaches but the end of the loop."""
    task = asyncio.get_running_loop().create_task(work)
    services.living.add(task)
    task.add_done_callback(lambda done: _over(done, call, services))
    return task


def _over(task: asyncio.Task[None], call: Call, services: Services) -> None:
    services.living.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning(
            "attempt %d of %s ended and that could not be recorded (%s); recovery looks it up",
            call.attempt,
            call.operation,
            type(error).__name__,
        )
