"""The only wiring: ``Amends`` puts core, ledger, service and engine together.

``Amends(path)`` stores an address and touches nothing. It starts with the first ``async with app``: the
registrations are sealed and checked together, and the ledger is opened and checked.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

from amends import errors
from amends.core.canonical import CanonicalError, canonical_hash, encode
from amends.core.contract import LOCAL, Contract
from amends.core.evidence import Receipt
from amends.core.identity import TargetTemplate, idempotency_key, intent_id, operation_id, run_id
from amends.core.matrix import Do
from amends.core.model import Event, Operation, RunState
from amends.core.proposal import Meeting, Proposal, Verdict, meet, propose, reopen_for_program
from amends.core.states import STANDS, Kind, State
from amends.core.terms import VERIFY_WITHIN_S, Recovery, Retry, Terms
from amends.engines.system import SystemClock, SystemEntropy
from amends.errors import UsageError
from amends.ledger.sqlite import SqliteLedger
from amends.ports.ledger import NotApplied, Refusal
from amends.service.driver import Driver, decoded
from amends.service.handle import RunHandle
from amends.service.registry import Effect, EffectFunction, seal_all

WAIT_S_MAX = 30.0
"""How long ``run.do`` waits for an outcome to be found out before it says *unknown*."""

POLL_S = 0.02
"""How often another process's progress is looked for."""

OPEN = Verdict(True, "none", "0")


class Amends:
    """An application: its effects, and its ledger in the SQLite file ``ledger``."""

    def __init__(self, ledger: str | os.PathLike[str]) -> None:
        self.ledger = SqliteLedger(str(ledger).removeprefix("sqlite://"))
        self.clock, self.entropy = SystemClock(), SystemEntropy()
        self._effects: dict[str, Effect] = {}
        self.sealed: dict[str, tuple[Effect, Terms]] = {}

    def effect(
        self,
        name: str,
        *,
        recovery: str,
        target: str,
        owner: str,
        destination: Contract = LOCAL,
        escalate_to: str = "",
        retry: Retry | None = None,
        execution_timeout_s: float = 20.0,
        verify_within_s: float = VERIFY_WITHIN_S,
        lookup: str | None = None,
        replay_without_lookup: bool = False,
        amount: str | None = None,
        accepts: Sequence[str] = (),
    ) -> Callable[[EffectFunction], Effect]:
        """Register an effect. ``recovery`` is required: reversible, compensatable, irreversible or unknown."""
        if self.sealed:
            raise UsageError(f"effect {name!r} comes after the start; register every effect before it")
        if name in self._effects:
            raise UsageError(f"effect {name!r} is registered twice")

        def register(function: EffectFunction) -> Effect:
            effect = Effect(
                name=name,
                function=function,
                recovery=Recovery(recovery),
                template=TargetTemplate(target),
                contract=destination,
                owner=owner,
                escalate_to=escalate_to,
                retry=retry or Retry(),
                execution_timeout_s=execution_timeout_s,
                verify_within_s=verify_within_s,
                lookup_escalates=lookup == "escalate",
                replay_without_lookup=replay_without_lookup,
                amount=amount,
                accepts=tuple(accepts),
            )
            self._effects[name] = effect
            return effect

        return register

    async def __aenter__(self) -> Self:
        self.sealed = seal_all(self._effects.values())
        await self.ledger.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.ledger.close()

    @asynccontextmanager
    async def run(
        self, type: str, *, event: str, tenant: str = "default", principal: str = "program", reason: str = ""
    ) -> AsyncIterator["Run"]:
        """Open the run of ``event``; the same event is the same run, in every process.

        An ordinary exception closes it as failed and is never hidden. An unknown outcome, cancellation
        and exit leave it open.
        """
        run = Run(self, type, event, tenant=tenant, principal=principal, reason=reason)
        try:
            yield run
        except (errors.OutcomeUnknown, errors.AwaitingApproval, errors.LedgerUnavailable):
            raise
        except Exception:
            await run.close("raised")
            raise
        else:
            await run.close("returned")

    def driver(self, handle: RunHandle, operation: str, action: str) -> Driver:
        """A driver for ``operation``, which is an ``action``."""
        effect, terms = self.sealed[action]
        return Driver(handle, operation, effect=effect, terms=terms, clock=self.clock, entropy=self.entropy)

    async def recover(self) -> int:
        """One recovery pass: drive every run whose wake is due, as far as it goes now. How many there were."""
        due = self.ledger.due(self.clock.now_ms(), limit=1_000)
        for run, _ in due:
            handle = RunHandle(run, self.ledger, self.clock, self.entropy)
            for operation in list(handle.state.operations.values()):
                if operation.action in self.sealed:
                    driver = self.driver(handle, operation.id, operation.action)
                    while (await driver.step()).do not in (Do.NOTHING, Do.WAIT):
                        pass
        return len(due)


class Run:
    """One business operation, while a program is inside it."""

    def __init__(self, app: Amends, type: str, event: str, *, tenant: str, principal: str, reason: str) -> None:
        self._app = app
        self.id, self.intent = run_id(tenant, event), intent_id(tenant, event)
        self._opened = Event(
            Kind.RUN_OPENED,
            "",
            {"tenant": tenant, "type": type, "intent": self.intent, "principal": principal},
            {"event": event, "reason": reason},
        )
        self._tenant = tenant
        self._handle = RunHandle(self.id, app.ledger, app.clock, app.entropy)
        if self.state.version and self.state.type != type:
            raise errors.Conflict(f"the run of this event is a {self.state.type!r}, not a {type!r}", run=self.id)

    @property
    def state(self) -> RunState:
        """The run as it stands."""
        return self._handle.state

    async def do(self, effect: Effect, *, again: str = "", **arguments: Any) -> Receipt:
        """Make the effect happen once, verify it, and return its receipt.

        The same call again, in any process, gets the same answer. ``again`` says "once more, on purpose"
        and is set by a program, never by a model.

        Raises:
            NotCommitted, OutcomeUnknown, VerificationFailed, Conflict, Refused: see ``amends.errors``.
        """
        proposal = await self._propose(effect, again, arguments)
        waited_until = self._app.clock.budget_ms() + int(WAIT_S_MAX * 1000)
        while True:
            operation = self.state.operations[proposal.operation]
            step = await self._app.driver(self._handle, operation.id, operation.action).step(program=True)
            if step.do is Do.NOTHING and self._handle.durable:
                return answer(self.id, self.state.operations[proposal.operation])
            if step.do in (Do.WAIT, Do.NOTHING):
                if self._handle.durable and self._app.clock.budget_ms() >= waited_until:
                    return answer(self.id, self.state.operations[proposal.operation])
                await asyncio.sleep(POLL_S)
                if self._app.ledger.version(self.id) > self.state.version:
                    self._handle.reload()

    async def _propose(self, effect: Effect, again: str, arguments: dict[str, Any]) -> Proposal:
        proposal = self._proposal(effect, again, arguments)
        while True:
            existing = self.state.operations.get(proposal.operation)
            match meet(self.state, existing, proposal):
                case Meeting.EXISTS:
                    return proposal
                case Meeting.NEW:
                    if await self._record(proposal):
                        return proposal
                case Meeting.NOTHING_HAPPENED if existing is not None:
                    proposal = self._proposal(effect, again, arguments, after=existing)
                case met:
                    recorded = decoded(existing.arguments) if existing else None
                    raise errors.Conflict(
                        f"{proposal.terms.action} on {proposal.target!r}: {met.value}; the first one stands",
                        run=self.id,
                        operation=proposal.operation,
                        key=proposal.key,
                        requested=arguments,
                        recorded=recorded,
                    )

    def _proposal(
        self, effect: Effect, again: str, arguments: dict[str, Any], after: Operation | None = None
    ) -> Proposal:
        try:
            bound = effect.parameters.bind(**arguments)
            bound.apply_defaults()
            encoded = {name: encode(value) for name, value in bound.arguments.items()}
            target = effect.template.render(bound.arguments)
            params_hash = canonical_hash(bound.arguments)
        except (TypeError, CanonicalError, ValueError) as error:
            raise errors.ArgumentsRefused(f"effect {effect.name!r}: {error}") from error
        revision = after.revision + 1 if after else 0
        key = idempotency_key(
            tenant=self._tenant,
            action=effect.name,
            target=target,
            lineage=self.intent,
            occurrence=again,
            revision=revision,
        )
        return Proposal(
            operation=operation_id(key),
            key=key,
            terms=self._app.sealed[effect.name][1],
            identity=effect.template.text,
            target=target,
            params_hash=params_hash,
            arguments=encoded,
            occurrence=again,
            revision=revision,
            previous=after.id if after else "",
        )

    async def _record(self, proposal: Proposal) -> bool:
        """Append the proposal; false when somebody else wrote to the run first."""

        def decision(state: RunState, _: int) -> list[Event]:
            if proposal.operation in state.operations:
                return []
            opened = [] if state.version else [self._opened]
            return opened + reopen_for_program(state) + propose(proposal, OPEN)

        said = await self._app.driver(self._handle, proposal.operation, proposal.terms.action).propose_and_commit(
            decision
        )
        if isinstance(said, NotApplied) and said.refusal is Refusal.OPERATION_EXISTS:
            raise errors.LedgerIntegrityError(f"operation {proposal.operation} belongs to another run")
        return not isinstance(said, NotApplied)

    async def close(self, how: str) -> None:
        """Record how the program left the run; idempotent."""

        def decision(state: RunState, _: int) -> list[Event]:
            opened = [] if state.version else [self._opened]
            return [] if state.closed == how else [*opened, Event(Kind.RUN_CLOSED, "", {"how": how})]

        while isinstance((await self._handle.decide(decision))[0], NotApplied):
            pass

    def outcome(self) -> str | None:
        """The run's ending, or ``None`` while it waits."""
        return self.state.ending


def answer(run: str, operation: Operation) -> Receipt:
    """The receipt of a verified operation; for every other state, the error that says so."""
    if operation.state in STANDS and operation.receipt is not None:
        return Receipt.from_json(operation.receipt)
    facts = {"run": run, "operation": operation.id, "key": operation.key, "state": operation.state.value}
    said = f"{operation.action} is {operation.state.value} ({operation.reason or 'no reason recorded'})"
    match operation.state:
        case State.NOT_COMMITTED | State.EXPIRED:
            raise errors.NotCommitted(f"{said}: nothing happened", **facts)
        case State.RETRYABLE if operation.wake_at is None and not operation.unknown_attempts:
            raise errors.NotCommitted(f"{said}: nothing left", **facts)
        case State.REJECTED:
            raise errors.Refused(f"{said}: policy refused it", **facts)
        case State.CANCELLED:
            raise errors.Cancelled(said, **facts)
        case State.RECONCILIATION_REQUIRED:
            raise errors.VerificationFailed(f"{said}: look at {operation.id}", **facts)
        case _:
            raise errors.OutcomeUnknown(
                f"{said}: do not repeat it by hand; recovery or a person finds out",
                resumes_at_ms=operation.wake_at,
                **facts,
            )
