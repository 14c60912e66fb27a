"""The only wiring: ``Amends`` puts core, ledger, service and engine together.

``Amends(path)`` stores an address and touches nothing. It starts with the first ``async with app``,
``app.run`` or ``recover``: the registrations are sealed and checked together, and the ledger is opened
and checked. Runs and ``recover`` then begin recovery; whoever only reads does not.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Self

from amends import errors
from amends.core.canonical import canonical_hash
from amends.core.evidence import Found, Receipt, missing
from amends.core.identity import REGISTRATIONS, run_id
from amends.core.model import Event, RunState
from amends.core.states import Kind
from amends.core.terms import Level
from amends.engines.embedded import Embedded, Recovered
from amends.engines.system import SystemClock, SystemEntropy, SystemSecrets
from amends.errors import RegistrationError, UsageError
from amends.ledger.secret_file import secret_beside
from amends.ledger.sqlite import SqliteLedger
from amends.ports.ledger import NotApplied
from amends.ports.world import Clock, PolicySource, Secrets
from amends.registering import Registering, Registrations, one_of
from amends.service import attempts, joins
from amends.service.answers import answer
from amends.service.asking import check_run, leaves_open, receipts_of
from amends.service.driver import Driver
from amends.service.registry import (
    changed_identities,
    seal_all,
)
from amends.service.run import WAIT_S_MAX, Run
from amends.service.sensitive import KEY_BYTES, Vault
from amends.service.services import AllowAll, Services

CLOSING_S: Final = 1.0
"""How long closing waits for calls in threads: the time of an ordinary call, and no more than a person bears."""

DEADLINE_S: Final = 7 * 86_400.0
"""How long a run may stay open whose program does not come back: a week covers every holiday weekend."""


class Amends(Registering):
    """An application: its effects, and its ledger.

    Args:
        ledger: a path or ``sqlite://`` URL: one file, made at the first start.
        level: how much has been adopted: ``verification``, ``idempotency``, ``ledger``, ``recovery``
            (default) or ``graph``; it decides which hooks a start demands.
        policy: what is asked before an operation is recorded and before each claim; default: allow.
        secrets: where ``Secret`` arguments are read; default: ``env:NAME`` and ``file:/path``.
        sensitive_key: 32 bytes that seal sensitive arguments; default: the file ``<ledger>.key``, made
            when it is first needed.
        clock: what time it is, for tests and rehearsals; default: the machine's clock.
    """

    def __init__(
        self,
        ledger: str | os.PathLike[str],
        *,
        level: str = Level.RECOVERY.value,
        policy: PolicySource | None = None,
        secrets: Secrets | None = None,
        sensitive_key: bytes | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(Registrations())
        self.ledger: SqliteLedger = SqliteLedger(str(ledger).removeprefix("sqlite://"))
        self.clock: Clock = clock or SystemClock()
        self.level: Level = one_of("Amends(): level", Level, level)
        self._services = Services(
            ledger=self.ledger,
            clock=self.clock,
            entropy=SystemEntropy(),
            secrets=secrets or SystemSecrets(),
            policy=policy or AllowAll(),
            vault=Vault(sensitive_key) if sensitive_key is not None else None,
        )
        self._engine = Embedded(self._services)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting: asyncio.Lock | None = None
        self._recovering = False

    # --- starting ------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Seal the registrations and open the ledger. Idempotent within one event loop.

        Raises:
            RegistrationError: the registrations do not hold together; it lists every finding.
            LedgerUnavailable, LedgerTooNew, LedgerCorrupt: see ``amends.errors``.
        """
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        if self._loop is not None and not self._loop.is_closed():
            raise UsageError("this application runs in another event loop; use amends.sync, or one loop")
        if not self.registrations.sealed:
            self._services.sealed = seal_all(self.registrations.effects.values(), self.level)
            self._services.run_types = dict(self.registrations.run_types)
            self.registrations.sealed = True
        if self._loop is not None:  # the loop it ran in was closed under it
            await self.ledger.close()
        await self.ledger.open()
        if self._services.vault is None and any(effect.sensitive for effect in self.registrations.effects.values()):
            self._services.vault = Vault(secret_beside(Path(self.ledger.path), length_bytes=KEY_BYTES))
        self._loop, self._recovering, self._starting = loop, False, asyncio.Lock()

    async def close(self) -> None:
        """End recovery, write what is queued and close the ledger. Idempotent.

        Calls in threads are waited for a second, then their connections are cut. One that goes on all the same
        keeps its attempt claimed; what came of it is looked up by the next start.
        """
        if self._loop is not asyncio.get_running_loop():
            return
        await self._engine.stop()
        await attempts.ended(self._services, CLOSING_S)
        try:
            for destination in self.registrations.destinations:
                await destination.aclose()
            await attempts.ended(self._services, CLOSING_S)
        finally:
            await self.ledger.close()
            self._loop = None

    async def begin_recovery(self) -> None:
        """Record what was sealed and begin recovering. Runs and workers do this by themselves. Idempotent."""
        await self.start()
        if self._recovering or self._starting is None:
            return
        async with self._starting:
            if not self._recovering:
                await self._record_sealing()
                self._engine.start()
                self._recovering = True

    async def _record_sealing(self) -> None:
        """Keep the identities and versions in force; refuse a changed one that names no predecessor."""
        if not self._services.sealed:
            return
        handle = self._services.handle(run_id("amends", REGISTRATIONS))
        findings = changed_identities(self._services.sealed, handle.state.sealed)
        if findings:
            raise RegistrationError(
                "the registrations do not fit this ledger: " + "; ".join(findings), findings=findings
            )

        def decision(state: RunState, _: int) -> list[Event]:
            new = {name: facts for name, facts in self._sealing().items() if state.sealed.get(name) != facts}
            if not new:
                return []
            opened = {"tenant": "amends", "type": REGISTRATIONS, "intent": "", "principal": "amends"}
            begun = [] if state.version else [Event(Kind.RUN_OPENED, "", opened)]
            closed = [] if state.closed else [Event(Kind.RUN_CLOSED, "", {"how": "returned"})]
            return [*begun, Event(Kind.EFFECTS_SEALED, "", {"effects": new}), *closed]

        while isinstance((await handle.decide(decision))[0], NotApplied):
            pass

    def _sealing(self) -> dict[str, dict[str, str]]:
        return {
            name: {
                "target": effect.template.text,
                "version": terms.version,
                "recovery": terms.recovery.value,
                "owner": terms.owner,
                "contract": terms.contract.name,
                "terms": canonical_hash(repr(terms))[:16],
            }
            for name, (effect, terms) in self._services.sealed.items()
            if name == effect.name
        }

    # --- running -------------------------------------------------------------------------------------

    @asynccontextmanager
    async def run(
        self,
        type: str,
        *,
        event: str,
        tenant: str = "default",
        principal: str = "program",
        reason: str = "",
        intent: str | None = None,
        deadline_s: float = DEADLINE_S,
        wait_s: float = WAIT_S_MAX,
    ) -> AsyncIterator[Run]:
        """Open the run of ``event``; the same event is the same run, in every process.

        An ordinary exception closes it as failed and is never hidden. An unknown outcome, a pending
        approval, cancellation and exit leave it open.

        Args:
            type: the type of run.
            event: the business event that it comes from, e.g. ``ticket:4711``.
            tenant: whose it is.
            principal: who asks.
            reason: prose; it identifies nothing.
            intent: the id of an existing intent (``run.intent``); another run of it meets its operations.
            deadline_s: after it nothing new is claimed, and a run nobody came back to is closed.
            wait_s: how long ``run.do`` waits for an outcome to be found out.
        """
        run = await self.open_run(
            type,
            event=event,
            tenant=tenant,
            principal=principal,
            reason=reason,
            intent=intent,
            deadline_s=deadline_s,
            wait_s=wait_s,
        )
        try:
            yield run
        except Exception as error:
            if not leaves_open(error):
                await run.close("raised")
            raise
        else:
            await run.close("returned")

    async def open_run(
        self,
        type: str,
        *,
        event: str,
        tenant: str,
        principal: str,
        reason: str,
        intent: str | None,
        deadline_s: float,
        wait_s: float,
    ) -> Run:
        """The run of ``event``, for whoever closes it: ``run`` does, and so does ``amends.sync``."""
        check_run(
            type=type,
            event=event,
            tenant=tenant,
            principal=principal,
            reason=reason,
            intent=intent,
            deadline_s=deadline_s,
            wait_s=wait_s,
        )
        await self.begin_recovery()
        return Run(
            self._services,
            type,
            event,
            tenant=tenant,
            principal=principal,
            reason=reason,
            intent=intent,
            deadline_s=deadline_s,
            wait_s=wait_s,
        )

    async def recover(self) -> Recovered:
        """One recovery pass: drive every run whose wake is due, as far as it goes now."""
        await self.start()
        return await self._engine.one_pass()

    async def evidence(self, operation: str, said: Receipt | Found) -> None:
        """Give evidence that came from outside: a webhook, a late response, a record that was found. Idempotent.

        It resolves the operation, cancels a planned repeat, and counts after an ending as well. A receipt
        must carry the correlation key: evidence that could be anybody's is refused.

        Args:
            operation: the operation's id, as an error, ``amends pending`` or a receipt's run names it.
            said: a receipt, or ``Found`` with every record that was found.

        Raises:
            UsageError: it is neither a receipt nor ``Found``, the operation is not known, or its effect is not
                registered here.
            Refused: the evidence does not say that it is this operation's.
        """
        receipts = receipts_of(said)
        await self.begin_recovery()
        row = self.ledger.operation(str(operation))
        if row is None:
            raise UsageError(f"no operation {operation!r} is known to {self.ledger.url}")
        sealed = self._services.sealed_as(row.action)
        for receipt in receipts:
            lacking = missing(receipt, sealed.terms.adopt_on)
            if lacking:
                raise errors.Refused(
                    f"the evidence carries no {', '.join(lacking)}: it cannot be told whose it is",
                    operation=operation,
                    run=row.run,
                )
            if receipt.correlation not in (None, row.key):
                raise errors.Refused(
                    f"the evidence carries the correlation {receipt.correlation!r}, and this operation's is "
                    f"{row.key!r}: it is about something else",
                    operation=operation,
                    run=row.run,
                )
        handle = self._services.handle(row.run)
        await Driver(handle, operation, self._services, sealed).found(receipts)
        await joins.tell(handle, self._services)


__all__ = ["Amends", "Run", "answer"]
