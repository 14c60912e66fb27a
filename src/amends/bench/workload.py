"""The applications that are measured: local tools that do nothing, so what is measured is Amends.

``note`` is verified by its receipt, ``checked`` by a verifying read that answers at once, and ``lost``
never answers: its caller is cancelled after the call left, which leaves an outcome unknown that its
lookup finds. Nothing here uses more than the public surface, but for the ledger's count of commits.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from amends.bench.sample import Sample
from amends.bootstrap import Amends, Run
from amends.core.contract import Contract, Lookup
from amends.core.evidence import Found, Receipt, Unsure, Verified
from amends.engines.system import SystemClock
from amends.service.call import Call

STRONG = Contract(name="bench", lookup=Lookup.STRONG, late_arrival_bound_s=0, source="it is in this process")


LATER_MS: Final = 600_000


class Later(SystemClock):
    """The machine's clock, ten minutes ahead: what waits until then is due."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, moved."""
        return super().now_ms() + LATER_MS


@dataclass(slots=True)
class Workload:
    """An open application on a ledger of its own, and how many runs it has had."""

    app: Amends
    path: Path
    note: Any
    checked: Any
    lost: Any
    left: asyncio.Semaphore
    runs: int = 0
    operations: int = field(default=0)

    def run(self) -> Any:
        """A new run."""
        self.runs += 1
        return self.app.run("bench", event=f"event:{self.runs}")

    async def once(self, run: Run, effect: Any) -> int:
        """One operation, from proposed to verified; how long it took, in nanoseconds."""
        self.operations += 1
        began = time.perf_counter_ns()
        await run.do(effect, item=f"item-{self.operations}", quantity=1)
        return time.perf_counter_ns() - began

    @property
    def commits(self) -> int:
        """Durable commits of the ledger so far."""
        return self.app.ledger.counts.commits


@asynccontextmanager
async def opened(directory: Path, name: str, *, later: bool = False) -> AsyncIterator[Workload]:
    """The application on ``directory/name.db``, opened. Its lookup finds nothing out until ``LATER_MS`` later."""
    path = directory / f"{name}.db"
    app = Amends(path, clock=Later() if later else None)
    left = asyncio.Semaphore(0)

    @app.effect("note", recovery="irreversible", target="note:{item}", owner="bench", lookup="escalate")
    async def note(call: Call, *, item: str, quantity: int) -> Receipt:
        return Receipt(resource=item, state="done", correlation=call.key)

    @app.effect("checked", recovery="irreversible", target="checked:{item}", owner="bench", lookup="escalate")
    async def checked(call: Call, *, item: str, quantity: int) -> Receipt:
        return Receipt(resource=item, state="done", correlation=call.key)

    @checked.verify
    async def look(call: Call, receipt: Receipt) -> Verified:
        return Verified()

    @app.effect("lost", recovery="irreversible", target="lost:{item}", owner="bench", destination=STRONG)
    async def lost(call: Call, *, item: str, quantity: int) -> Receipt:
        left.release()
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    @lost.lookup
    async def find(call: Call) -> Found | Unsure:
        if not later:
            return Unsure("not yet", retry_after_s=LATER_MS / 1000)
        return Found(Receipt(resource=call.target, state="done", correlation=call.key))

    async with app:
        yield Workload(app, path, note, checked, lost, left)


async def alone(load: Workload, *, operations: int, effect: Any) -> Sample:
    """Operations one after another in one open run; opening rides on the first, closing is not counted."""
    async with load.run() as run:
        commits, sample = load.commits, Sample.begin()
        latencies = [await load.once(run, effect) for _ in range(operations)]
        return sample.end(operations=operations, commits=load.commits - commits, latencies_ns=latencies)


async def together(load: Workload, *, operations: int, flight: int) -> Sample:
    """``flight`` open runs, each doing its operations one after another, all at the same time."""
    each = operations // flight
    async with AsyncExitStack() as stack:
        runs = [await stack.enter_async_context(load.run()) for _ in range(flight)]

        async def work(run: Run) -> None:
            for _ in range(each):
                await load.once(run, load.note)

        commits, sample = load.commits, Sample.begin()
        await asyncio.gather(*(work(run) for run in runs))
        return sample.end(operations=each * flight, commits=load.commits - commits)


async def whole_runs(load: Workload, *, runs: int, steps: int, flight: int) -> Sample:
    """Runs of ``steps`` operations from opening to ending; things are runs here."""
    ahead = iter(range(runs))

    async def work() -> None:
        for _ in ahead:
            async with load.run() as run:
                for _ in range(steps):
                    await load.once(run, load.note)

    commits, sample = load.commits, Sample.begin()
    await asyncio.gather(*(work() for _ in range(flight)))
    return sample.end(operations=runs, commits=load.commits - commits)


async def leave_unknown(load: Workload, *, operations: int, flight: int) -> None:
    """Leave that many outcomes unknown: callers cancelled after the call left."""

    async def caller() -> None:
        async with load.run() as run:
            await load.once(run, load.lost)

    for start in range(0, operations, flight):
        callers = [asyncio.ensure_future(caller()) for _ in range(min(flight, operations - start))]
        for _ in callers:
            await load.left.acquire()
        for task in callers:
            task.cancel()
        await asyncio.gather(*callers, return_exceptions=True)


async def recover(load: Workload, *, operations: int) -> Sample:
    """Recovery passes until none of the ``operations`` outcomes is unknown any more."""
    waiting = len(load.app.ledger.unresolved(limit=operations + 1))
    if waiting != operations:
        raise RuntimeError(f"{waiting} outcomes are unknown, not {operations}: the rate would be a lie")
    commits, sample = load.commits, Sample.begin()
    while (await load.app.recover()).runs:
        pass
    ended = sample.end(operations=operations, commits=load.commits - commits)
    rest = len(load.app.ledger.unresolved(limit=1))
    if rest:
        raise RuntimeError("recovery ended and an outcome is still unknown: the rate would be a lie")
    return ended
