"""An application for synchronous callers: ``amends.Amends`` in an event loop of its own.

There is no second implementation. Each verb is handed to the one there is, in a thread that runs the loop, while
the caller waits. Registering is the same code; plain functions run in threads, and coroutines run in the loop.
"""

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from amends import bootstrap
from amends.bootstrap import DEADLINE_S
from amends.core.evidence import Found, Receipt
from amends.core.terms import Level
from amends.engines.embedded import Recovered
from amends.errors import UsageError
from amends.ledger.sqlite import SqliteLedger
from amends.ports.world import Clock, PolicySource, Secrets
from amends.registering import Registering
from amends.service.asking import leaves_open
from amends.service.run import WAIT_S_MAX
from amends.sync.loop import LoopThread
from amends.sync.run import Run


class Amends(Registering):
    """An application: its effects, and its ledger. ``amends.Amends`` for a program that does not await.

    It starts with the first ``with app`` or ``app.run``: an event loop in a thread of its own, which ends with
    the block, with ``close``, or with the process. Safe to share between threads. After a fork it has to be made
    or started anew in the child.

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
        self.asynchronous: bootstrap.Amends = bootstrap.Amends(
            ledger, level=level, policy=policy, secrets=secrets, sensitive_key=sensitive_key, clock=clock
        )
        super().__init__(self.asynchronous.registrations)
        self._loop: LoopThread | None = None
        self._closed = False
        self._starting = threading.Lock()

    @property
    def ledger(self) -> SqliteLedger:
        """The ledger, for those who read it."""
        return self.asynchronous.ledger

    @property
    def clock(self) -> Clock:
        """What time it is."""
        return self.asynchronous.clock

    @property
    def level(self) -> Level:
        """How much has been adopted."""
        return self.asynchronous.level

    # --- starting ------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Seal the registrations, open the ledger and start the loop. Idempotent; after ``close`` it starts anew.

        Raises:
            RegistrationError: the registrations do not hold together; it lists every finding.
            LedgerUnavailable, LedgerTooNew, LedgerCorrupt: see ``amends.errors``.
        """
        if self._loop is not None:
            self._loop.check()
        with self._starting:
            self._closed = False
            self._started()

    def close(self) -> None:
        """End recovery, write what is queued, close the ledger and join the loop. Idempotent.

        What other threads still wait for is cancelled: it is recorded where it stands, and they are told so.
        """
        loop = self._loop
        if loop is None:
            return
        try:
            loop.end()
        finally:
            if loop.ended:
                self._closed, self._loop = True, None
                atexit.unregister(self._at_exit)

    def begin_recovery(self) -> None:
        """Record what was sealed and begin recovering. Runs do this by themselves. Idempotent."""
        self._running().wait(self.asynchronous.begin_recovery)

    # --- running -------------------------------------------------------------------------------------

    @contextmanager
    def run(
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
    ) -> Iterator[Run]:
        """Open the run of ``event``; the same event is the same run, in every process.

        An ordinary exception closes it as failed and is never hidden. An unknown outcome, a pending approval,
        ``KeyboardInterrupt`` and ``SystemExit`` leave it open.

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
        loop = self._running()
        run = loop.wait(
            lambda: self.asynchronous.open_run(
                type,
                event=event,
                tenant=tenant,
                principal=principal,
                reason=reason,
                intent=intent,
                deadline_s=deadline_s,
                wait_s=wait_s,
            )
        )
        try:
            yield Run(run, loop)
        except Exception as error:
            if not leaves_open(error) and loop.usable:
                loop.wait(lambda: run.close("raised"))
            raise
        else:
            loop.wait(lambda: run.close("returned"))

    def recover(self) -> Recovered:
        """One recovery pass: drive every run whose wake is due, as far as it goes now."""
        return self._running().wait(self.asynchronous.recover)

    def evidence(self, operation: str, said: Receipt | Found) -> None:
        """Give evidence that came from outside: a webhook, a late response, a record that was found. Idempotent.

        Raises:
            UsageError: it is neither a receipt nor ``Found``, the operation is not known, or its effect is not
                registered here.
            Refused: the evidence does not say that it is this operation's.
        """
        self._running().wait(lambda: self.asynchronous.evidence(operation, said))

    # --- the loop ------------------------------------------------------------------------------------

    def _running(self) -> LoopThread:
        """The loop, started if it is not yet there."""
        loop = self._loop
        if loop is not None and not self._closed:
            loop.check()
            return loop
        with self._starting:
            if self._closed:
                raise UsageError(
                    "this application was closed and is used again: use it inside its block, or start it anew with "
                    "`with app:`"
                )
            return self._started()

    def _started(self) -> LoopThread:
        """The loop with the application started in it; a start that fails leaves none. The caller holds the lock."""
        if self._loop is not None:
            return self._loop
        loop = LoopThread(self.asynchronous.close)
        try:
            loop.wait(self.asynchronous.start)
        except BaseException:
            loop.end()
            raise
        self._loop = loop
        atexit.register(self._at_exit)
        return loop

    def _at_exit(self) -> None:
        loop = self._loop
        if loop is not None and loop.usable:
            self.close()
