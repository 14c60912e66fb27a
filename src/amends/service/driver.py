"""The verbs on one operation — claim, call, observe, verify — and the step that chooses among them.

Whatever is done is decided by the core from the newest state, appended, and only then acted on. So any
number of drivers may drive one operation: the claim is one conditional append, and all but one lose it.
The program and the recovery pass use the same steps.
"""

from collections.abc import Callable, Sequence
from typing import Any

from amends.core import attempt, matrix, reconcile, verify
from amends.core.canonical import decode_value
from amends.core.evidence import Expectation, Found, Receipt, Unavailable, Verification, missing
from amends.core.matrix import Do, Step
from amends.core.model import Event, Operation, RunState, advance
from amends.core.money import Money
from amends.core.states import State
from amends.ports.ledger import Answer, Applied, NotApplied, Refusal
from amends.service import attempts, observing, points, preparing
from amends.service.blotting import Blotter
from amends.service.call import Call
from amends.service.handle import RunHandle
from amends.service.preparing import NOTHING_READ, Prepared
from amends.service.registry import Sealed
from amends.service.sensitive import opened
from amends.service.services import Services

NOT_PREPARED_MS = 500
"""How soon a claim is tried again whose lock is held, or whose version could not be read."""


class Driver:
    """Drives one operation of one run. Safe beside other drivers of the same operation."""

    def __init__(
        self, handle: RunHandle, operation: str, services: Services, sealed: Sealed, *, if_version: str | None = None
    ) -> None:
        self._handle, self._id, self._services = handle, operation, services
        self._effect, self._terms = sealed
        self._if_version = if_version

    @property
    def operation(self) -> Operation:
        """The operation, as the run's newest state has it."""
        return self._handle.state.operations[self._id]

    async def step(self, *, program: bool = False) -> Step:
        """Do the next thing, if it is due; say what it was, or until when to wait."""
        step = matrix.next_step(self.operation, self._terms, now=self._services.clock.now_ms(), program=program)
        match step.do:
            case Do.CLAIM | Do.REPLAY:
                return await self._claim_and_call(step, program=program)
            case Do.DECLARE_UNKNOWN:
                await self._append(step.do, lambda op, now: attempt.unknown(op, self._terms, now=now))
            case Do.LOOK:
                await self._look()
            case Do.VERIFY:
                await self._verify()
            case Do.ESCALATE:
                await self._append(step.do, lambda op, _: matrix.escalate(op, self._terms, step.reason))
            case Do.NOTHING | Do.WAIT:
                pass
        return step

    async def propose_and_commit(self, proposing: Callable[[RunState, int], Sequence[Event]]) -> Answer:
        """Record a wish, claim its first attempt in the same append, and call.

        ``proposing`` gives the events of the wish, or none where it is there already. A wish that policy
        rejected is recorded and goes no further; one whose preparation has to read first, or whose lock is
        held, is recorded alone.
        """
        reads_first = self._terms.has_version or self._terms.has_capture

        def decision(state: RunState, now: int) -> Sequence[Event]:
            proposed = list(proposing(state, now))
            if not proposed or reads_first:
                return proposed
            state = advance(state, proposed, now)
            operation = state.operations[self._id]
            if operation.state is not State.AUTHORIZED:
                return proposed
            return [*proposed, *self._claim(state, NOTHING_READ, now)]

        async with self._effect.slots:
            answer = await self._commit(decision)
        if isinstance(answer, NotApplied) and answer.refusal is Refusal.LOCK_HELD:
            answer, _ = await self._handle.decide(proposing)
        return answer

    async def found(self, receipts: Sequence[Receipt]) -> None:
        """Record ``receipts``, all that somebody outside found, and verify what they say."""
        await self._recorder(self._call(0, 0)).found(receipts)
        await self._verify_counted_pass()

    # --- the call ------------------------------------------------------------------------------------

    async def _claim_and_call(self, step: Step, *, program: bool) -> Step:
        async with self._effect.slots:
            prepared = await self._prepared()
            if prepared.failed:
                return self._later(prepared.failed)

            def decision(state: RunState, now: int) -> Sequence[Event]:
                operation = state.operations[self._id]
                still = matrix.next_step(operation, self._terms, now=now, program=program).do is step.do
                return self._claim(state, prepared, now) if still else []

            answer = await self._commit(decision)
        if isinstance(answer, NotApplied) and answer.refusal is Refusal.LOCK_HELD:
            return self._later(f"its lock is held by {answer.holder}")
        return step

    async def _prepared(self) -> Prepared:
        if not (self._terms.has_version or self._terms.has_capture):
            return NOTHING_READ
        clock = self._services.clock
        call = self._call(0, clock.budget_ms() + self._terms.lookup_timeout_ms)
        return await preparing.read(self._effect, self.operation, call, self._blotter(call), now=clock.now_ms())

    def _later(self, reason: str) -> Step:
        return Step(Do.WAIT, self._services.clock.now_ms() + NOT_PREPARED_MS, reason)

    async def _commit(self, decision: Callable[[RunState, int], Sequence[Event]]) -> Answer:
        """Make the claim durable, and only then call. The budget begins before the claim."""
        ends_at = self._services.clock.budget_ms() + self._terms.execution_timeout_ms
        points.reached("claim.before")
        answer = await self._recorder().claimed(self._handle.decide(decision))
        if attempts.has_claim(answer):
            points.reached("claim.after")
            call = self._call(self.operation.attempts, ends_at)
            await attempts.make(self._effect, call, self._recorder(call))
            await self._verify_counted_pass()
        return answer[0]

    def _claim(self, state: RunState, prepared: Prepared, now: int) -> list[Event]:
        operation = state.operations[self._id]
        checks = preparing.checks(
            self._services,
            state,
            operation,
            self._terms,
            prepared,
            now=now,
            amount=self._amount(operation),
            if_version=self._if_version,
        )
        return attempt.claim(
            operation,
            checks=checks,
            worker=self._services.entropy.worker,
            budget_ends_at=now + self._terms.execution_timeout_ms,
            resource_version=prepared.resource_version,
            read_age_ms=None if prepared.read_at is None else now - prepared.read_at,
            pre_state=prepared.pre_state,
        )

    def _recorder(self, call: Call | None = None) -> attempts.Recorder:
        return attempts.Recorder(
            handle=self._handle,
            operation=self._id,
            terms=self._terms,
            services=self._services,
            expected=self._expected,
            blotter=self._blotter(call),
        )

    # --- finding out ---------------------------------------------------------------------------------

    async def _append(self, do: Do, decide: Callable[[Operation, int], Sequence[Event]]) -> bool:
        """Append what ``decide`` says, if ``do`` is still what the newest state asks for. Whether it was written."""

        def decision(state: RunState, now: int) -> Sequence[Event]:
            operation = state.operations[self._id]
            still = matrix.next_step(operation, self._terms, now=now).do is do
            return decide(operation, now) if still else []

        answer, events = await self._handle.decide(decision)
        return isinstance(answer, Applied) and bool(events)

    async def _look(self) -> None:
        lookup = self._effect.lookup_function
        if lookup is None or not await self._append(
            Do.LOOK, lambda op, now: reconcile.start_lookup(op, self._terms, now=now)
        ):
            return
        number, clock = self.operation.lookups, self._services.clock
        read_at = clock.now_ms()
        call = self._call(0, clock.budget_ms() + self._terms.lookup_timeout_ms)
        points.reached("lookup.before")
        observation = observing.blotted_observation(await observing.look(lookup, call), self._blotter(call))
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
                jitter=self._services.entropy.jitter(),
            )

        decided = await attempts.until_applied(self._handle, decision)
        if not decided and isinstance(observation, Found):
            await self._overtaken(observation, call)
        await self._verify_counted_pass()

    async def _overtaken(self, found: Found, call: Call) -> None:
        """What a lookup found is kept although something else was faster; that it found nothing says nothing now."""
        if len(found.matches) > 1 or not missing(found.matches[0], self._terms.adopt_on):
            await self._recorder(call).found(found.matches)

    async def _verify(self) -> None:
        if self._effect.verify_function is None:
            await self._append(Do.VERIFY, lambda op, _: verify.by_receipt(op, self._terms))
        elif await self._append(Do.VERIFY, lambda op, now: [verify.started(op, self._terms, now=now)]):
            await self._verify_counted_pass()

    async def _verify_counted_pass(self) -> None:
        """Read the postcondition, if the append just made has counted a pass for it."""
        operation, function = self.operation, self._effect.verify_function
        if function is None or not operation.counted_pass:
            return
        said = await self._verification(operation)

        def decision(state: RunState, now: int) -> Sequence[Event]:
            newest = state.operations[self._id]
            if newest.state is not State.VERIFYING or newest.verifications != operation.verifications:
                return []
            return verify.verified(newest, self._terms, said, now=now, jitter=self._services.entropy.jitter())

        await attempts.until_applied(self._handle, decision)

    async def _verification(self, operation: Operation) -> Verification:
        if operation.receipt is None or self._effect.verify_function is None:
            return Unavailable("the receipt was erased")
        call = self._call(0, self._services.clock.budget_ms() + self._terms.lookup_timeout_ms)
        points.reached("verify.before")
        said = await observing.verification(self._effect.verify_function, call, Receipt.from_json(operation.receipt))
        points.reached("verify.after")
        return observing.blotted_verification(said, self._blotter(call))

    # --- what a call is given ------------------------------------------------------------------------

    def _arguments(self, operation: Operation) -> dict[str, Any]:
        return opened(operation.arguments, key=operation.key, vault=self._services.vault)

    def _call(self, number: int, ends_at: int) -> Call:
        operation = self.operation
        return Call(
            key=operation.key,
            operation=operation.id,
            run=self._handle.id,
            attempt=number,
            arguments=self._arguments(operation),
            target=operation.target or "",
            clock=self._services.clock,
            ends_at_ms=ends_at,
            destination=self._effect.destination,
            secrets=self._services.secrets,
            resource_version=operation.resource_version,
            pre_state=None if operation.pre_state is None else decode_value(operation.pre_state["state"]),
        )

    def _blotter(self, call: Call | None) -> Blotter:
        """What of this operation may not be recorded: its sensitive arguments, and what ``call`` reveals."""
        revealed = () if call is None else call.revealed
        operation = self._handle.state.operations.get(self._id)
        if not self._terms.sensitive or operation is None:
            return Blotter((), revealed)
        arguments = self._arguments(operation) if call is None else call.arguments
        return Blotter([arguments.get(name) for name in self._terms.sensitive], revealed)

    def _amount(self, operation: Operation) -> Money | None:
        if not self._terms.amount:
            return None
        named = opened(
            {self._terms.amount: (operation.arguments or {}).get(self._terms.amount)}, key=operation.key, vault=None
        )[self._terms.amount]
        return named if isinstance(named, Money) else None

    def _expected(self, operation: Operation) -> Expectation:
        return Expectation(
            correlation=operation.key,
            amount=self._amount(operation),
            creator=self._terms.contract.creator,
            states=self._terms.accepts,
        )
