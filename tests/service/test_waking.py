"""Who waits for an operation that somebody else drives is woken, in this process at once, by others soon."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from shop import Till, shop, until

from amends.bootstrap import Amends
from amends.core.evidence import Receipt, Unsure
from amends.core.failures import Ambiguous
from amends.errors import OutcomeUnknown
from amends.ports.ledger import Answer, Append
from amends.service import changes
from amends.service.call import Call
from amends.service.changes import Changes, Patience
from amends.service.registry import Effect

NEVER_S = 3_600.0


class Gate:
    """Holds the till's charge until it is opened."""

    def __init__(self, till: Till) -> None:
        self.till, self.inside, self.open = till, asyncio.Event(), asyncio.Event()

    async def charge(self, call: Call, *, name: str, size: int = 1) -> Receipt:
        self.inside.set()
        await self.open.wait()
        return await self.till.charge(call, name=name)


def counted(app: Amends) -> Callable[[], int]:
    """How often the ledger is asked for a run's version."""
    version, asked = app.ledger.version, 0

    def counting(run: str) -> int:
        nonlocal asked
        asked += 1
        return version(run)

    app.ledger.version = counting  # type: ignore[method-assign]
    return lambda: asked


async def charged(app: Amends, charge: Effect, **options: float) -> Receipt:
    async with app.run("sale", event="e:1", **options) as run:
        return await run.do(charge, name="a")


@pytest.mark.requirement("R8", "R12", "G2")
async def test_a_waiting_caller_is_woken_by_the_change_and_not_by_looking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "POLL_FIRST_S", NEVER_S)
    monkeypatch.setattr(changes, "POLL_S_MAX", NEVER_S)
    till = Till()
    app, charge = shop(tmp_path, till)
    gate = Gate(till)
    charge.function = gate.charge
    async with app:
        first = asyncio.ensure_future(charged(app, charge))
        await gate.inside.wait()
        others = [asyncio.ensure_future(charged(app, charge)) for _ in range(20)]
        for _ in range(20):
            await asyncio.sleep(0)
        asked = counted(app)
        gate.open.set()
        async with asyncio.timeout(60):
            assert {await each for each in [first, *others]} == {await first}
        assert asked() <= 20 * 4, "a look for each change, and no more"
    assert len(till.sent) == 1


@pytest.mark.requirement("R12", "R24")
async def test_evidence_from_outside_wakes_whoever_waits_for_the_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "POLL_FIRST_S", NEVER_S)
    monkeypatch.setattr(changes, "POLL_S_MAX", NEVER_S)
    till = Till()
    till.answers.append(Ambiguous("no answer"))
    till.observation = Unsure("away", retry_after_s=NEVER_S)
    app, charge = shop(tmp_path, till)
    async with app:
        caller = asyncio.ensure_future(charged(app, charge, wait_s=NEVER_S))
        await until(lambda: till.looks > 0 and any(r.reason == "unsure" for r in app.ledger.unresolved()))
        [row] = app.ledger.unresolved()
        await app.evidence(row.id, Receipt(resource="r9", correlation=row.key))
        async with asyncio.timeout(60):
            assert (await caller).resource == "r9"


@pytest.mark.requirement("R12")
async def test_the_progress_of_another_process_is_seen_by_looking(tmp_path: Path) -> None:
    till = Till()
    one, charge = shop(tmp_path, till)
    two, same = shop(tmp_path, till)  # another ledger object: as another process has it
    gate = Gate(till)
    charge.function = gate.charge
    async with one, two:
        first = asyncio.ensure_future(charged(one, charge))
        await gate.inside.wait()
        second = asyncio.ensure_future(charged(two, same))
        asked = counted(two)
        await until(lambda: asked() > 2)
        gate.open.set()
        assert await first == await second
    assert len(till.sent) == 1


def test_looks_at_the_ledger_become_slower_and_news_makes_them_quick_again() -> None:
    patience = Patience()
    pauses = [patience.pause_s(at_most_s=100) for _ in range(10)]
    assert pauses[0] == changes.POLL_FIRST_S
    assert pauses == sorted(pauses)
    assert pauses[-1] == changes.POLL_S_MAX
    patience.news()
    assert patience.pause_s(at_most_s=100) == pauses[0]
    assert patience.pause_s(at_most_s=0) > 0, "no loop that never gives way"


async def test_a_wait_that_ends_leaves_nothing_behind() -> None:
    told = Changes()
    assert not await told.wait("run_1", 0.001)
    waiting = asyncio.ensure_future(told.wait("run_1", NEVER_S))
    other = asyncio.ensure_future(told.wait("run_2", NEVER_S))
    await asyncio.sleep(0)
    told.happened("run_1")
    assert await waiting
    other.cancel()
    await asyncio.gather(other, return_exceptions=True)
    assert told._waiting == {}


@pytest.mark.requirement("R8", "R13", "G1")
async def test_a_cancelled_append_is_told_to_nobody_before_it_is_durable(tmp_path: Path) -> None:
    till, asked, durable = Till(), asyncio.Event(), asyncio.Event()
    app, charge = shop(tmp_path, till)
    append = app.ledger.append

    async def slow(entry: Append) -> Answer:
        asked.set()
        await durable.wait()
        return await append(entry)

    async with app, app.run("sale", event="e:1") as run:
        app.ledger.append = slow  # type: ignore[method-assign]
        wish = asyncio.ensure_future(run.propose(charge, name="a"))
        await asked.wait()
        wish.cancel()
        with pytest.raises(asyncio.CancelledError):
            await wish
        [operation] = run.state.operations
        assert not run._handle.durable(operation)
        durable.set()
        await until(lambda: run._handle.durable(operation))
        assert len(app.ledger.load(run.id)) == run.state.version == 1


@pytest.mark.requirement("R17")
async def test_a_caller_waits_no_longer_than_it_said(tmp_path: Path) -> None:
    till = Till()
    till.answers.append(Ambiguous("no answer"))
    till.observation = Unsure("away", retry_after_s=NEVER_S)
    app, charge = shop(tmp_path, till)
    async with app:
        with pytest.raises(OutcomeUnknown):
            async with asyncio.timeout(60):
                await charged(app, charge, wait_s=0.05)
