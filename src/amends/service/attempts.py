"""One attempt: the call, how it ended, and the record of that.

Whatever a call did is recorded, whoever else writes to the run and whether or not its caller still waits.
A call in a thread may outlive its time-out; what it brings then is recorded as late evidence.
"""

import asyncio
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

    A caller cancelled while it waits leaves *unknown*, recorded; so does the end of the budget.
    """
    try:
        receipt = await _called(effect, call, recorder)
    except asyncio.CancelledError:
        await recorder.ended(call.attempt, Ambiguous("the caller was cancelled after the call left"))
        raise
    except CallEnded as end:
        await recorder.ended(call.attempt, end)
    else:
        points.reached("call.after")
        await recorder.responded(call.attempt, receipt)
        points.reached("result.after")


async def _called(effect: Effect, call: Call, recorder: Recorder) -> Receipt:
    """The effect's receipt. Whatever nobody classified is *unknown*."""
    call.check_budget()
    try:
        if runs_in_thread(effect.function):
            return _checked(await _in_thread(effect, call, recorder))
        return _checked(await within(call.remaining_s, effect.function(call, **call.arguments)))
    except CallEnded as end:
        if really_sent(call.sends[:-1]) and end.outcome is not Outcome.PARTIAL:
            raise Ambiguous(f"after an earlier send: {end.reason}", status=end.status, code="after_a_send") from end
        raise
    except told.ToldError as error:
        raise Ambiguous(f"what the effect answered cannot be recorded: {error}", code="answer_refused") from error
    except TimeoutError as error:
        raise Ambiguous("no answer within the attempt's time budget", interval=Interval.EXECUTION) from error
    except Exception as error:
        raise Ambiguous(f"the effect raised {type(error).__name__}", code="unclassified") from error


async def _in_thread(effect: Effect, call: Call, recorder: Recorder) -> Any:
    """The thread's result, if it comes within the budget; later it is kept as evidence."""
    calling = begin(effect.function, call, **call.arguments)
    try:
        await asyncio.wait({calling}, timeout=call.remaining_s)
    finally:
        if not calling.done():
            _keep(calling, call.attempt, recorder)
    if not calling.done():
        raise TimeoutError
    return calling.result()


def _checked(receipt: Any) -> Receipt:
    if not isinstance(receipt, Receipt):
        raise Ambiguous(
            f"the effect returned {told.article(receipt)}, not a Receipt(resource=...): its code has to be mended",
            code="no_receipt",
        )
    return receipt


_late: set[asyncio.Task[None]] = set()


def _keep(calling: asyncio.Future[Any], number: int, recorder: Recorder) -> None:
    """What a thread still brings is late evidence."""

    def done(future: asyncio.Future[Any]) -> None:
        if future.cancelled() or future.exception() is not None or not isinstance(future.result(), Receipt):
            return
        task = asyncio.ensure_future(recorder.responded(number, future.result()))
        _late.add(task)
        task.add_done_callback(_forget)

    calling.add_done_callback(done)


def _forget(task: asyncio.Task[None]) -> None:
    _late.discard(task)
    if not task.cancelled():
        task.exception()  # a ledger that is away: the lookup has to find it
