"""A run, while a program is inside it."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from amends import errors
from amends.core import expiry, told
from amends.core.canonical import CanonicalError, canonical_hash, encode
from amends.core.evidence import Receipt
from amends.core.identity import intent_id, run_id
from amends.core.limits import REVISIONS_MAX
from amends.core.matrix import Do
from amends.core.model import Event, Operation, RunState
from amends.core.proposal import Meeting, Proposal, Verdict, meet, propose, reopen_for_program
from amends.core.states import NOTHING_HAPPENED, SETTLED, Kind, State
from amends.ports.ledger import NotApplied, Refusal
from amends.service import closing, joins
from amends.service.answers import answer
from amends.service.asking import check_effect, check_read
from amends.service.call import Call
from amends.service.changes import Patience
from amends.service.driver import Driver
from amends.service.handle import RunHandle
from amends.service.preparing import policy_facts
from amends.service.registry import Effect, Read
from amends.service.sensitive import shown
from amends.service.services import Services
from amends.service.threads import begin
from amends.service.wishes import Wish, wish

WAIT_S_MAX: Final = 30.0
"""How long ``run.do`` waits for an outcome to be found out before it says *unknown*."""

READS_MAX: Final = 100
"""Reads kept until the next operation is recorded; the newest count, since decisions rest on them."""


class Run:
    """One business operation, while a program is inside it. Safe for concurrent tasks of one event loop."""

    def __init__(
        self,
        services: Services,
        type: str,
        event: str,
        *,
        tenant: str,
        principal: str,
        reason: str,
        intent: str | None = None,
        deadline_s: float,
        wait_s: float = WAIT_S_MAX,
    ) -> None:
        self._services, self._tenant, self._wait_s, self._deadline_s = services, tenant, wait_s, deadline_s
        self._entered_at = services.clock.now_ms()
        self.id: str = run_id(tenant, event)
        self.intent: str = intent or intent_id(tenant, event)
        self._opened = Event(
            Kind.RUN_OPENED,
            "",
            {
                "tenant": tenant,
                "type": type,
                "intent": self.intent,
                "principal": principal,
                "deadline_at": self._deadline_at(),
            },
            {"event": event, "reason": reason},
        )
        self._handle = services.handle(self.id)
        self._reads: list[Event] = []
        self._returned = False
        state = self.state
        if state.version and (state.type, state.intent) != (type, self.intent):
            raise errors.Conflict(
                f"the run of this event is a {state.type!r} of intent {state.intent}, "
                f"not a {type!r} of {self.intent}; one event is one run",
                run=self.id,
            )

    @property
    def state(self) -> RunState:
        """The run as it stands."""
        return self._handle.state

    async def do(self, effect: Effect, *, again: str = "", if_version: str | None = None, **arguments: Any) -> Receipt:
        """Make the effect happen once, verify it, and return its receipt.

        The same call again, in any process, gets the same answer.

        Args:
            effect: what to do.
            again: says "once more, on purpose"; set by a program, never by a model.
            if_version: the resource's version that the decision rests on; another one stops the claim.
            arguments: the effect's own.

        Raises:
            NotCommitted, OutcomeUnknown, VerificationFailed, Conflict, Refused, ReceiptErased: see
                ``amends.errors``.
            UsageError: ``if_version`` was given and the effect reads no version.
        """
        check_effect(effect, "do")
        _check_version(effect, if_version)
        wished = self._wish(effect, again, arguments)
        handle, operation = await self._propose(wished)
        with self._driving(operation):
            return await self._outcome_of(handle, operation, if_version=if_version)

    async def propose(self, effect: Effect, *, again: str = "", **arguments: Any) -> str:
        """Record the wish only, and return the operation's id; nothing is sent. Idempotent.

        Raises:
            Conflict, Refused, ArgumentsRefused: see ``amends.errors``.
        """
        check_effect(effect, "propose")
        _, operation = await self._propose(self._wish(effect, again, arguments), only=True)
        return operation

    async def read(self, read: Read, **arguments: Any) -> Any:
        """Call a registered read. It is recorded with the next operation; a run that only reads records nothing.

        A read that feeds a decision returns ``(value, version)``: the version is recorded beside it.
        """
        check_read(read)
        try:
            bound = read.parameters.bind(**arguments)
            bound.apply_defaults()
            encoded, params_hash = encode(dict(bound.arguments)), canonical_hash(dict(bound.arguments))
        except (TypeError, CanonicalError) as error:
            raise errors.ArgumentsRefused(f"read {read.name!r}: {error}") from error
        clock = self._services.clock
        call = Call(
            key="",
            operation="",
            run=self.id,
            attempt=0,
            arguments=dict(bound.arguments),
            target="",
            clock=clock,
            ends_at_ms=clock.budget_ms() + int(read.timeout_s * 1000),
            destination=read.destination,
            secrets=self._services.secrets,
        )
        async with asyncio.timeout(read.timeout_s):
            value = await begin(read.function, call, **bound.arguments)
        version = value[1] if isinstance(value, tuple) and len(value) == 2 else None
        facts = {"read": read.name, "basis": read.basis, "params_hash": params_hash, "read_at": clock.now_ms()}
        if version is not None:
            facts["version"] = told.text(f"the version of read {read.name!r}", str(version))
        self._reads = [*self._reads, Event(Kind.RUN_READ, "", facts, {"arguments": encoded})][-READS_MAX:]
        return value

    async def close(self, how: str) -> None:
        """Record how the program left the run; idempotent."""
        self._returned = how == "returned"
        await closing.close(self._handle, self._services, how)

    def outcome(self) -> str | None:
        """The run's ending, or ``None`` while it waits. A run in which nothing was asked is completed when left."""
        if not self.state.version and self._returned:
            return "completed"
        return self.state.ending

    # --- proposing -----------------------------------------------------------------------------------

    def _deadline_at(self) -> int:
        return self._services.clock.now_ms() + int(self._deadline_s * 1000)

    def _late(self) -> bool:
        return expiry.passed(self.state, now=self._services.clock.now_ms())

    def _left_over(self) -> bool:
        """The program was in the run when its deadline passed; one that comes later gets a new one."""
        return self.state.deadline_at is not None and self._entered_at < self.state.deadline_at

    def _too_late(self, proposal: Proposal) -> errors.Refused:
        return errors.Refused(
            f"{proposal.terms.action} on {proposal.target!r} was not asked for: the deadline of its run passed while "
            "the program was in it, and nothing was sent; open the run of the same event again to go on",
            run=self.id,
            operation=proposal.operation,
            key=proposal.key,
        )

    def _wish(self, effect: Effect, again: str, arguments: Mapping[str, Any]) -> Wish:
        services = self._services
        return wish(
            services.sealed_as(effect.name),
            arguments,
            tenant=self._tenant,
            intent=self.intent,
            occurrence=again,
            vault=services.vault,
        )

    async def _propose(self, wished: Wish, *, only: bool = False) -> tuple[RunHandle, str]:
        """Where the operation of this wish is, once it is recorded: in this run, or in one it meets."""
        if self._late() and not self._left_over():
            await closing.at_deadline(self._handle, self._services)
        proposal = wished.proposal()
        earlier = self._newest_under_an_earlier_name(wished)
        if earlier is not None:
            where, before = earlier
            asked = replace(proposal, revise=before.may_be_asked_anew)
            if meet(where.state, before, asked) is not Meeting.NOTHING_HAPPENED:
                return await self._met(wished, proposal, where, before)
            proposal = wished.proposal(after=before)
        while True:
            place = self._place(proposal.operation) if proposal.operation in self.state.joined else None
            handle = place[0] if place else self._handle
            existing = handle.state.operations.get(proposal.operation)
            if existing is not None:
                asked = replace(proposal, revise=existing.may_be_asked_anew)
                if meet(handle.state, existing, asked) is not Meeting.NOTHING_HAPPENED:
                    return await self._met(wished, proposal, handle, existing)
                proposal = wished.proposal(after=existing)
                continue
            if meet(self.state, None, proposal) is not Meeting.NEW:
                raise self._conflict(wished, proposal, self.id, None, Meeting.RUN_FULL)
            if self._late() and self._left_over():
                raise self._too_late(proposal)
            said = await self._record(wished, proposal, only=only)
            if isinstance(said, NotApplied) and said.refusal is Refusal.OPERATION_EXISTS:
                if (other := self._place(proposal.operation)) is not None:
                    await self._join(*other)
            elif not isinstance(said, NotApplied):
                return self._handle, proposal.operation

    def _newest_under_an_earlier_name(self, wished: Wish) -> tuple[RunHandle, Operation] | None:
        """The last revision of this wish that was proposed before the effect was renamed, if there is one.

        Revisions are counted through: what was revised under one name may have been revised under the next.
        """
        newest: tuple[RunHandle, Operation] | None = None
        for revision in range(REVISIONS_MAX + 1):
            places = [place for name in wished.earlier_operations(revision) if (place := self._place(name)) is not None]
            if not places:
                break
            newest = next((place for place in places if place[1].state not in NOTHING_HAPPENED), places[0])
        return newest

    def _place(self, operation: str) -> tuple[RunHandle, Operation] | None:
        """The operation and a handle of its run, wherever it is."""
        if operation in self.state.operations:
            return self._handle, self.state.operations[operation]
        row = self._services.ledger.operation(operation)
        if row is None:
            return None
        handle = self._handle if row.run == self.id else self._services.handle(row.run)
        if row.run == self.id:
            handle.reload()
        return handle, handle.state.operations[operation]

    async def _met(
        self, wished: Wish, proposal: Proposal, handle: RunHandle, existing: Operation
    ) -> tuple[RunHandle, str]:
        """An operation was there already: it is ours if its parameters are the same."""
        met = meet(handle.state, existing, proposal)
        if met is not Meeting.EXISTS:
            raise self._conflict(wished, proposal, handle.id, existing, met)
        if handle is not self._handle:
            await self._join(handle, existing)
        return handle, existing.id

    async def _join(self, handle: RunHandle, existing: Operation) -> None:
        if not self.state.version:
            await self._handle.decide(lambda state, _: [] if state.version else [self._opened])
        await joins.join(self._handle, handle, existing.id, self._services)

    def _conflict(
        self, wished: Wish, proposal: Proposal, run: str, existing: Operation | None, met: Meeting
    ) -> errors.Conflict:
        where = "" if run == self.id else f" in run {run}"
        return errors.Conflict(
            f"{proposal.terms.action} on {proposal.target!r}: {met.value}; the first one stands{where}",
            run=run,
            operation=existing.id if existing else proposal.operation,
            key=existing.key if existing else proposal.key,
            requested=wished.shown(),
            recorded=shown(existing.arguments) if existing else None,
        )

    async def _record(self, wished: Wish, proposal: Proposal, *, only: bool) -> object:
        """Append the proposal, with what was read before it, and commit it unless ``only`` the wish is wanted."""
        verdict, reads = self._verdict(wished, proposal), self._reads

        def decision(state: RunState, _: int) -> Sequence[Event]:
            if proposal.operation in state.operations:
                return []
            begun = reopen_for_program(state, deadline_at=self._deadline_at()) if state.version else [self._opened]
            return [*begun, *reads, *propose(proposal, verdict)]

        if only:
            said: object = (await self._handle.decide(decision))[0]
        else:
            with self._driving(proposal.operation):
                said = await self._driver(self._handle, proposal.operation, proposal.terms.action).propose_and_commit(
                    decision
                )
        if not isinstance(said, NotApplied):
            self._reads = [read for read in self._reads if read not in reads]
        return said

    def _verdict(self, wished: Wish, proposal: Proposal) -> Verdict:
        state = self.state if self.state.version else self._as_opened()
        facts = policy_facts(
            state, verb="propose", action=proposal.terms.action, target=proposal.target, terms=proposal.terms
        )
        return self._services.judged({**facts, "amount": wished.amount})

    def _as_opened(self) -> RunState:
        facts = self._opened.facts
        return self.state._replace(
            tenant=facts["tenant"], type=facts["type"], intent=facts["intent"], principal=facts["principal"]
        )

    # --- driving -------------------------------------------------------------------------------------

    def _driver(self, handle: RunHandle, operation: str, action: str, if_version: str | None = None) -> Driver:
        sealed = self._services.sealed_as(action)
        return Driver(handle, operation, self._services, sealed, if_version=if_version)

    @contextmanager
    def _driving(self, operation: str) -> Iterator[None]:
        """While a program drives an operation itself, recovery in this process leaves it alone."""
        driven = self._services.driven
        driven[operation] = driven.get(operation, 0) + 1
        try:
            yield
        finally:
            driven[operation] -= 1
            if not driven[operation]:
                del driven[operation]

    async def _outcome_of(self, handle: RunHandle, name: str, *, if_version: str | None) -> Receipt:
        clock, patience = self._services.clock, Patience()
        waited_until = clock.budget_ms() + int(self._wait_s * 1000)
        try:
            while True:
                action = handle.state.operations[name].action
                step = await self._driver(handle, name, action, if_version).step(program=True)
                if step.do not in (Do.WAIT, Do.NOTHING):
                    continue
                left_ms = waited_until - clock.budget_ms()
                if handle.durable(name) and (step.do is Do.NOTHING or left_ms <= 0):
                    return answer(handle.id, handle.state.operations[name], waiting_for=step.reason)
                due_ms = left_ms if step.until is None else min(left_ms, step.until - clock.now_ms())
                await self._news(handle, patience, due_ms if handle.durable(name) else 1_000)
        finally:
            await self._note_joined(handle, name)

    async def _news(self, handle: RunHandle, patience: Patience, due_ms: int) -> None:
        """Wait for a change of the run by anybody, or until something is due."""
        at_most_s = max(due_ms, 0) / 1000
        if await self._services.changes.wait(handle.id, patience.pause_s(at_most_s=at_most_s)):
            patience.news()
        if self._services.ledger.version(handle.id) > handle.state.version:
            patience.news()
            handle.reload()

    async def _note_joined(self, handle: RunHandle, name: str) -> None:
        known = self.state.joined.get(name)
        now = handle.state.operations[name].state
        if known is not None and known.state is not now and (now in SETTLED or known.state is State.COMMITTING):
            await joins.record(self._handle, name, handle.id, now, self._services)


def _check_version(effect: Effect, if_version: str | None) -> None:
    if if_version is None:
        return
    if type(if_version) is not str or not if_version:
        raise errors.UsageError(
            f"if_version={if_version!r} demands nothing; pass the version that the decision rests on, or leave it out"
        )
    if effect.version_function is None:
        raise errors.UsageError(
            f"if_version={if_version!r} was demanded of {effect.name!r}, which cannot read a version: "
            f"register @{effect.name}.resource_version"
        )
