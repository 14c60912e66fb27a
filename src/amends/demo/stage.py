"""The stage: the destinations, the clock, and one run at a time with its workers.

The stage follows a run by its ledger, as any other process could. While the run only waits — for a lag, a
pause, a dead attempt's time — the stage lets time pass: it moves the clocks of workers and destinations
together to the instant that is waited for. While a call or a lookup is under way it never does.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol

import httpx

from amends.core.history import Step
from amends.core.identity import run_id
from amends.core.model import Operation, RunState
from amends.core.states import State
from amends.demo.clock import MovedClock
from amends.demo.crew import StageError, Worker
from amends.demo.scenarios import TENANT, Scenario
from amends.demo.shop import Shop
from amends.demo.words import told
from amends.errors import LedgerUnavailable
from amends.ledger.snapshot import snapshot
from amends.testing.rehearsal.world import RehearsalDestination, StartFailedError, World

POLL_S: Final = 0.02
RUN_WAIT_S: Final = 90.0
"""A run takes a second; one that is still going on after this hangs, and is told as such."""

TOLD_FROM_MS: Final = 1_000
"""Shorter waits pass without a word."""

DESTINATIONS: Final = ("carrier", "crm", "mail", "payments", "warehouse")
READS_LOST: Final = 1_000
STOCK: Final = 5
PAID: Final = {"amount": 8500, "currency": "usd"}

_UNDER_WAY: Final = frozenset({State.COMMITTING, State.RECONCILING})


class Tell(Protocol):
    """Takes one line of the story: when, by whom (``stage``, ``clock`` or ``ledger``), and what."""

    def __call__(self, at_ms: int, who: str, says: str) -> None:
        """Tell it now."""
        ...


class Stage:
    """Destinations, ledger and clock in ``directory``; a context manager that stops what it started."""

    def __init__(self, directory: Path, tell: Tell) -> None:
        self.directory: Path = directory
        self._tell = tell
        self.ledger: Path = directory / "ledger.db"
        self.world: World = World(directory / "world", destinations=DESTINATIONS)
        self.clock: MovedClock = MovedClock(directory / "clock")

    def __enter__(self) -> "Stage":
        try:
            self.world.start()
        except StartFailedError as error:
            raise self.trouble("a rehearsal destination did not start", error) from error
        try:
            asyncio.run(self._open_ledger())
        except BaseException:
            self.world.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.world.stop()

    def trouble(self, what: str, error: Exception) -> StageError:
        """What happened to the rehearsal itself, in one sentence; servers put what matters last."""
        last = str(error).strip().splitlines()[-1:] or [type(error).__name__]
        return StageError(f"{what}; is there room in {str(self.directory)!r}? {last[0]}")

    async def _open_ledger(self) -> None:
        async with Shop(self.ledger, self.world, clock=self.clock).app:
            pass

    def prepare(self, scenario: Scenario, order: str) -> None:
        """What must be there before a run: stock, or a customer and the payment that is to be refunded."""
        if scenario.name != "refund":
            self.world.warehouse.control(stock={f"A-{order}": STOCK})
            return
        contact = f"{self.world.crm.direct_url}/contacts/customer-{order}"
        httpx.put(contact, json={"fields": {"name": "Ann"}}, headers={"If-None-Match": "*"}).raise_for_status()
        httpx.post(f"{self.world.payments.direct_url}/v1/charges", json={**PAID, "order": order}).raise_for_status()

    def tell(self, who: str, says: str) -> None:
        """One line of the story, now."""
        self._tell(self.clock.now_ms(), who, says)

    def tell_recorded(self, step: Step) -> None:
        """One line of the story, as the ledger has it."""
        says = told(step)
        if says is not None:
            self._tell(step.at_ms, "ledger", says)

    def pass_time(self, ms: int, why: str) -> None:
        """Move every clock forward by ``ms``; the workers' last, since they act on theirs."""
        for name in DESTINATIONS:
            self.world[name].advance_clock(ms)
        self.clock.move(ms)
        if ms >= TOLD_FROM_MS:
            self.tell("clock", f"{_duration(ms)} pass: {why}")


class Performance:
    """One run of one scenario on ``stage``; a context manager that leaves no worker behind."""

    def __init__(self, stage: Stage, scenario: Scenario, order: str) -> None:
        self.stage: Stage = stage
        self.scenario: Scenario = scenario
        self.order: str = order
        self.event: str = scenario.event.format(order=order)
        self.run: str = run_id(TENANT, self.event)
        self._workers: list[Worker] = []
        self._told = 0

    def __enter__(self) -> "Performance":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.kill()

    @property
    def border(self) -> RehearsalDestination:
        """The destination of the first effect, where faults are armed."""
        return self.stage.world[self.scenario.steps[0].destination]

    def arm(self, mode: str, *, hold: bool = False) -> None:
        """Let the next request for the first effect meet a fault."""
        self.border.fault(mode, path=self.scenario.path, hold=hold)

    def arm_reads(self) -> None:
        """Let no read of the first effect come through until ``disarm``."""
        self.border.fault("drop_request", path=self.scenario.path, methods=["GET"], times=READS_LOST)

    def tell(self, says: str) -> None:
        """One line by the stage."""
        self.stage.tell("stage", says)

    def worker(self, said: str) -> Worker:
        """Start a worker on the event."""
        worker = Worker(self.stage.directory, self.scenario.name, self.order)
        self._workers.append(worker)
        self.tell(f"{said} (process {worker.pid}) is given the event {self.event}")
        return worker

    def held(self, worker: Worker) -> None:
        """Wait until the destination has committed and its answer is held back."""
        if not self.border.wait_held(wait_ms=30_000):
            raise StageError(f"no request of the worker (process {worker.pid}) reached {self.border.name}")
        self.look()

    def finish(self, *workers: Worker, at: Callable[[Operation], None] = lambda first: None) -> None:
        """Follow the run until ``workers`` are done, letting time pass where it only waits.

        ``at`` is shown the first effect at each look, before time passes.
        """
        until = time.monotonic() + RUN_WAIT_S
        while any(worker.running for worker in workers):
            if time.monotonic() > until:
                raise StageError(f"the run {self.run} is still going on after {RUN_WAIT_S:g} s; look at it with why")
            state = self.look()
            for first in list(state.operations.values())[:1]:
                at(first)
            self._let_time_pass(state)
            time.sleep(POLL_S)
        for worker in workers:
            worker.said()
        self.look()

    def look(self) -> RunState:
        """The run as its ledger has it; what is new is told."""
        try:
            with snapshot(self.stage.ledger) as look:
                history = look.history(self.run)
        except LedgerUnavailable:
            return RunState(self.run)  # busy for a moment
        for step in history.steps[self._told :]:
            self.stage.tell_recorded(step)
        self._told = len(history.steps)
        return history.state

    def let_dead_attempt_end(self, *, and_then_ms: int = 0, why: str = "") -> None:
        """Let the time of an attempt pass whose worker is dead."""
        state = self.look()
        ends = max(operation.attempt_ends_at for operation in state.operations.values())
        ms = ends + 1 - self.stage.clock.now_ms() + and_then_ms
        self.stage.pass_time(ms, why or "the dead worker's attempt can no longer be on its way")

    def _let_time_pass(self, state: RunState) -> None:
        unfinished = [each for each in state.unfinished.values() if each.wake_at is not None]
        if any(each.state in _UNDER_WAY or each.counted_pass for each in unfinished):
            return
        wakes = [each.wake_at for each in unfinished if each.wake_at is not None]
        ahead = min(wakes, default=0) - self.stage.clock.now_ms()
        if ahead > 0:
            self.stage.pass_time(ahead + 1, "until the run looks again")


def _duration(ms: int) -> str:
    seconds = round(ms / 1000)
    return f"{seconds} s" if seconds < 3600 else f"{seconds / 3600:.0f} h"
