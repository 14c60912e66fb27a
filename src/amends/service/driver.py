"""The verbs on one operation: propose, claim, call, observe, verify — and the loop that drives them.

Whatever is done is decided by the core from the newest state, appended, and only then acted on. So any
number of drivers may drive one operation: the claim is one conditional append, and all but one lose it.
The program and the recovery pass use the same loop.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

from amends.core import attempt, matrix, reconcile, verify
from amends.core.canonical import decode_value
from amends.core.evidence import (
    Absent,
    Expectation,
    Failed,
    Found,
    Observation,
    Pending,
    Receipt,
    Unavailable,
    Unsure,
    Verification,
    Verified,
)
from amends.core.failures import Ambiguous, CallEnded, Interval, NotSent, Outcome, clip
from amends.core.matrix import Do, Step
from amends.core.model import Event, Operation, RunState, apply
from amends.core.money import Money
from amends.core.states import Kind, State
from amends.core.terms import Terms
from amends.ports.ledger import Answer, Applied
from amends.ports.world import Clock, Entropy
from amends.service import points
from amends.service.call import Call
from amends.service.handle import RunHandle
from amends.service.registry import Effect

CHECKS = (
    ("intent_current", "ok"),
    ("authority_valid", "ok"),
    ("state_fresh", "not read: no resource version registered"),
    ("schema_unchanged", "ok"),
    ("key_assigned", "ok"),
)
"""What preparation can check so far (R10); each later hook adds its own."""


class Driver:
    """Drives one operation of one run. Safe beside other drivers of the same operation."""

    def __init__(
        self, handle: RunHandle, operation: str, *, effect: Effect, terms: Terms, clock: Clock, entropy: Entropy
    ) -> None:
        self._handle, self._effect, self._terms, self._id = handle, effect, terms, operation
        self._clock, self._entropy = clock, entropy

    @property
    def operation(self) -> Operation:
        """The operation, as the run's newest state has it."""
        return self._handle.state.operations[self._id]

    async def step(self, *, program: bool = False) -> Step:
        """Do the next thing, if it is due; say what it was, or until when to wait."""
        step = matrix.next_step(self.operation, self._terms, now=self._clock.now_ms(), program=program)
        match step.do:
            case Do.CLAIM | Do.REPLAY:
                await self._claim_and_call(step.do, program=program)
            case Do.DECLARE_UNKNOWN:
                await self._append(Do.DECLARE_UNKNOWN, lambda op, now: attempt.unknown(op, self._terms, now=now))
            case Do.LOOK:
                await self._look()
            case Do.VERIFY:
                await self._verify()
            case Do.ESCALATE:
                await self._append(Do.ESCALATE, lambda op, _: matrix.escalate(op, self._terms, step.reason))
            case Do.NOTHING | Do.WAIT:
                pass
        return step

    async def _append(
        self, do: Do, decide: Callable[[Operation, int], Sequence[Event]], *, program: bool = False
    ) -> tuple[Answer, Sequence[Event]]:
        """Append what ``decide`` says, if ``do`` is still what the newest state asks for."""

        def decision(state: RunState, now: int) -> Sequence[Event]:
            operation = state.operations[self._id]
            still = matrix.next_step(operation, self._terms, now=now, program=program).do is do
            return decide(operation, now) if still else []

        return await self._handle.decide(decision)

    async def propose_and_commit(self, proposing: Callable[[RunState, int], Sequence[Event]]) -> Answer:
        """Record a wish, claim its first attempt in the same append, and call.

        ``proposing`` gives the events of the wish, or none where it is there already. A wish that policy
        rejected is recorded and goes no further.
        """

        def decision(state: RunState, now: int) -> Sequence[Event]:
            proposed = list(proposing(state, now))
            if not proposed:
                return []
            for event in proposed:
                state = apply(state, event, now)
            operation = state.operations[self._id]
            return [*proposed, *self._claim(operation, now)] if operation.state is State.AUTHORIZED else proposed

        return await self._commit(self._handle.decide(decision))

    async def _claim_and_call(self, do: Do, *, program: bool) -> None:
        await self._commit(self._append(do, self._claim, program=program))

    async def _commit(self, claim: Coroutine[Any, Any, tuple[Answer, Sequence[Event]]]) -> Answer:
        """Make the claim durable, and only then call. The budget begins before the claim."""
        ends_at = self._clock.budget_ms() + self._terms.execution_timeout_ms
        points.reached("claim.before")
        claiming = asyncio.ensure_future(claim)
        try:
            answer, events = await asyncio.shield(claiming)
        except asyncio.CancelledError:
            answer, events = await claiming
            if self._claimed(answer, events):
                await self._end(self.operation.attempts, NotSent("cancelled in the queue", code="caller_cancelled"))
            raise
        if self._claimed(answer, events):
            points.reached("claim.after")
            await self._attempt(self._call(self.operation.attempts, ends_at))
        return answer

    def _claimed(self, answer: Answer, events: Sequence[Event]) -> bool:
        return isinstance(answer, Applied) and any(event.kind is Kind.COMMIT_STARTED for event in events)

    async def _attempt(self, call: Call) -> None:
        try:
            receipt = await self._called(call)
        except asyncio.CancelledError:
            end = Ambiguous("the caller was cancelled after the call left")
            await self._recorded(self._end(call.attempt, end))
            raise
        except CallEnded as end:
            await self._recorded(self._end(call.attempt, end))
        else:
            points.reached("call.after")
            await self._recorded(self._responded(call.attempt, receipt))
            points.reached("result.after")

    def _claim(self, operation: Operation, now: int) -> list[Event]:
        ends_at = now + self._terms.execution_timeout_ms
        return attempt.claim(operation, checks=CHECKS, worker=self._entropy.worker, budget_ends_at=ends_at)

    async def _called(self, call: Call) -> Receipt:
        """The effect's receipt. Whatever nobody classified is *unknown*."""
        call.check_budget()
        try:
            async with asyncio.timeout(call.remaining_s):
                receipt = await self._effect.function(call, **call.arguments)
        except CallEnded as end:
            if len(call.sends) > 1 and end.outcome is not Outcome.PARTIAL:
                raise Ambiguous(f"after an earlier send: {end.reason}", status=end.status, code="after_a_send") from end
            raise
        except TimeoutError as error:
            raise Ambiguous("no answer within the attempt's time budget", interval=Interval.EXECUTION) from error
        except Exception as error:
            raise Ambiguous(f"the effect raised {type(error).__name__}", code="unclassified") from error
        if not isinstance(receipt, Receipt):
            raise Ambiguous(f"the effect returned {type(receipt).__name__}, not a Receipt", code="no_receipt")
        return receipt

    async def _recorded(self, recording: Awaitable[None]) -> None:
        """Finish recording even when the caller is cancelled meanwhile."""
        task = asyncio.ensure_future(recording)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await task
            raise

    async def _end(self, number: int, end: CallEnded) -> None:
        def decision(state: RunState, now: int) -> Sequence[Event]:
            operation = state.operations[self._id]
            if operation.state is not State.COMMITTING or operation.attempts != number:
                return []
            return attempt.ended(operation, self._terms, end, now=now, jitter=self._entropy.jitter())

        await self._until_applied(decision)

    async def _responded(self, number: int, receipt: Receipt) -> None:
        def decision(state: RunState, now: int) -> Sequence[Event]:
            operation = state.operations[self._id]
            expected = self._expected(operation)
            return attempt.responded(operation, self._terms, receipt, expected, attempt=number, now=now)

        await self._until_applied(decision)

    async def _until_applied(self, decision: Callable[[RunState, int], Sequence[Event]]) -> None:
        """Evidence must be recorded whoever else writes to the run: decide anew after each conflict."""
        while True:
            answer, _ = await self._handle.decide(decision)
            if isinstance(answer, Applied):
                return

    async def _look(self) -> None:
        lookup = self._effect.lookup_function
        if lookup is None:
            return
        answer, events = await self._append(Do.LOOK, lambda op, now: reconcile.start_lookup(op, self._terms, now=now))
        if not isinstance(answer, Applied) or not events:
            return
        number, read_at = self.operation.lookups, self._clock.now_ms()
        points.reached("lookup.before")
        observation = await self._observe(lookup)
        points.reached("lookup.after")

        def decision(state: RunState, now: int) -> Sequence[Event]:
            operation = state.operations[self._id]
            if operation.state is not State.RECONCILING or operation.lookups != number:
                return []
            return reconcile.observed(
                operation,
                self._terms,
                observation,
                self._expected(operation),
                read_at=read_at,
                now=now,
                jitter=self._entropy.jitter(),
            )

        await self._until_applied(decision)

    async def _observe(self, lookup: Callable[[Call], Awaitable[Observation]]) -> Observation:
        """A lookup that raises or takes too long could not tell: never "absent"."""
        said = await self._read(lookup(self._call(0, self._clock.budget_ms() + self._terms.lookup_timeout_ms)))
        if isinstance(said, Found | Absent | Unsure):
            return said
        return Unsure(said if isinstance(said, str) else f"the lookup returned {type(said).__name__}")

    async def _verify(self) -> None:
        function = self._effect.verify_function
        version = self._handle.state.version
        if function is None:
            await self._append(Do.VERIFY, lambda op, _: verify.by_receipt(op, self._terms))
            return
        if self.operation.receipt is None:
            said: object = "the receipt was erased"
        else:
            receipt = Receipt.from_json(self.operation.receipt)
            call = self._call(0, self._clock.budget_ms() + self._terms.lookup_timeout_ms)
            points.reached("verify.before")
            said = await self._read(function(call, receipt))
            points.reached("verify.after")
        verification: Verification
        if isinstance(said, Verified | Pending | Failed | Unavailable):
            verification = said
        else:
            verification = Unavailable(said if isinstance(said, str) else "the verification gave no answer")

        def decision(state: RunState, now: int) -> Sequence[Event]:
            if state.version != version:
                return []
            operation = state.operations[self._id]
            return verify.verified(operation, self._terms, verification, now=now, jitter=self._entropy.jitter())

        await self._handle.decide(decision)

    async def _read(self, reading: Awaitable[object]) -> object:
        try:
            async with asyncio.timeout(self._terms.lookup_timeout_ms / 1000):
                return await reading
        except TimeoutError:
            return "no answer in time"
        except CallEnded as end:
            return end.reason
        except Exception as error:  # noqa: BLE001 — the boundary to user code
            return clip(f"it raised {type(error).__name__}")

    def _call(self, number: int, ends_at: int) -> Call:
        operation = self.operation
        return Call(
            key=operation.key,
            operation=operation.id,
            run=self._handle.id,
            attempt=number,
            arguments=decoded(operation.arguments),
            target=operation.target or "",
            clock=self._clock,
            ends_at_ms=ends_at,
            resource_version=operation.resource_version,
        )

    def _expected(self, operation: Operation) -> Expectation:
        named = decoded(operation.arguments).get(self._terms.amount or "")
        return Expectation(
            correlation=operation.key,
            amount=named if isinstance(named, Money) else None,
            creator=self._terms.contract.creator,
            states=self._terms.accepts,
        )


def decoded(arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """Arguments as the effect takes them: a fresh copy, decoded from what was recorded."""
    return {name: decode_value(value) for name, value in (arguments or {}).items()}
