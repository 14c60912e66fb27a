"""A run type's valid end state, asked of a destination by a running application (R36)."""

import asyncio
import contextlib
from pathlib import Path

import pytest
from shop import SetClock, Till, kinds, shop, until

from amends.bootstrap import Amends
from amends.core.evidence import Failed, Pending, Unavailable, Verification, Verified
from amends.core.failures import Ambiguous
from amends.errors import OutcomeUnknown
from amends.ledger import rebuild
from amends.service.call import Call
from amends.service.closing import EndedRun
from amends.service.registry import Effect


class Auditor:
    """Says what the till holds for a run; ``says`` is what it says before."""

    def __init__(self, till: Till, *says: Verification) -> None:
        self.till, self.says, self.asked = till, list(says), list[EndedRun]()

    async def end_state(self, call: Call, run: EndedRun) -> Verification:
        self.asked.append(run)
        if self.says:
            return self.says.pop(0)
        held = {receipt.resource for receipt in self.till.made}
        missing = {receipt.resource for receipt in run.receipts.values()} - held
        return Failed(f"the till does not hold {sorted(missing)}") if missing else Verified()


def audited(
    path: Path, till: Till, *says: Verification, clock: SetClock | None = None, within_s: float = 120.0
) -> tuple[Amends, Effect, Auditor]:
    app, charge = shop(path, till, clock=clock)
    auditor = Auditor(till, *says)
    app.operation_type("sale", end_state=auditor.end_state, within_s=within_s)
    return app, charge, auditor


@pytest.mark.requirement("R36")
async def test_a_run_is_completed_when_its_end_state_was_read_at_the_destination(tmp_path: Path) -> None:
    till = Till()
    app, charge, auditor = audited(tmp_path, till)
    async with app:
        async with app.run("sale", event="e:1") as run:
            await run.do(charge, name="a")
        assert run.outcome() == "completed"
    [asked] = auditor.asked
    assert [receipt.resource for receipt in asked.receipts.values()] == ["r0-a"]
    assert set(asked.actions.values()) == {"charge"}


@pytest.mark.requirement("R36", "R8")
async def test_an_end_state_that_holds_later_is_found_by_the_running_application_and_the_leaving_is_told_once(
    tmp_path: Path,
) -> None:
    till, clock = Till(), SetClock()
    app, charge, auditor = audited(tmp_path, till, Pending(), Unavailable("the till is closed"), clock=clock)
    async with app:
        async with app.run("sale", event="e:1") as run:
            await run.do(charge, name="a")
        assert run.outcome() is None, "not yet is no ending"
        clock.forward(3)
        await until(lambda: len(auditor.asked) == 2)
        clock.forward(6)
        await until(lambda: (row := app.ledger.run(run.id)) is not None and row.ending == "completed")
        told = kinds(app, run.id)
    assert told.count("run.closed") == 1
    assert told.count("run.end_state_started") == told.count("run.end_state_asked") == 3
    assert rebuild.check(tmp_path / "ledger.db") == []


@pytest.mark.requirement("R36", "R25")
async def test_a_no_of_the_end_state_is_an_ending_that_stays_open_until_a_program_asks_again(tmp_path: Path) -> None:
    till = Till()
    app, charge, auditor = audited(tmp_path, till)
    async with app:
        async with app.run("sale", event="e:1") as run:
            await run.do(charge, name="a")
            lost = till.made.pop()
        assert run.outcome() == "failed_reconciliation_required"
        assert (run.state.end_state.said, run.state.end_state.why) == ("failed", "end_state")
        assert "r0-a" in str(run.state.end_state.detail)
        await app.recover()
        assert len(auditor.asked) == 1, "no is an answer"
        till.made.append(lost)
        async with app.run("sale", event="e:1") as again:
            await again.do(charge, name="a")
        assert again.outcome() == "completed"
    assert len(till.sent) == 1


@pytest.mark.requirement("R36", "R25")
async def test_an_end_state_that_nobody_confirms_within_its_time_is_a_no(tmp_path: Path) -> None:
    till, clock = Till(), SetClock()
    app, charge, auditor = audited(tmp_path, till, *[Pending()] * 99, clock=clock, within_s=30)
    async with app:
        async with app.run("sale", event="e:1") as run:
            await run.do(charge, name="a")
        for _ in range(20):
            clock.forward(5)
            await app.recover()
        ending = app.ledger.run(run.id)
        asked = len(auditor.asked)
    assert ending is not None
    assert ending.ending == "failed_reconciliation_required"
    assert 3 <= asked <= 8, "the pauses grow, and the last question is asked when the time is up"


@pytest.mark.requirement("R36", "G7")
async def test_the_end_state_is_not_asked_while_an_operation_is_not_settled(tmp_path: Path) -> None:
    till, clock = Till(), SetClock()
    app, charge, auditor = audited(tmp_path, till, clock=clock)
    till.answers.append(Ambiguous("no answer"))
    till.observation = None
    async with app:
        async with app.run("sale", event="e:1", wait_s=0.0) as run:
            with pytest.raises(OutcomeUnknown):
                await run.do(charge, name="a")
        assert auditor.asked == []
        clock.forward(6)
        await until(lambda: (row := app.ledger.run(run.id)) is not None and row.ending == "completed")
    assert len(auditor.asked) == 1
    assert len(till.made) == 1


@pytest.mark.requirement("R36", "R11")
async def test_a_query_that_ends_its_process_each_time_is_not_asked_for_ever(tmp_path: Path) -> None:
    till, asked = Till(), 0

    class Killed(BaseException):
        pass

    async def deadly(_: Call, __: EndedRun) -> Verification:
        nonlocal asked
        asked += 1
        raise Killed

    def started(clock: SetClock) -> tuple[Amends, Effect]:
        app, charge = shop(tmp_path, till, clock=clock)
        app.operation_type("sale", end_state=deadly, within_s=120.0)
        return app, charge

    clock = SetClock()
    app, charge = started(clock)
    await app.start()
    with pytest.raises(Killed):
        async with app.run("sale", event="e:1") as run:
            await run.do(charge, name="a")
    await app.close()
    for _ in range(20):
        clock.forward(31)
        app, _ = started(clock)
        await app.start()
        with contextlib.suppress(BaseExceptionGroup):  # the one of the query
            await app.recover()
        row = app.ledger.run(run.id)
        await app.close()
    assert row is not None
    assert row.ending == "failed_reconciliation_required"
    assert asked <= 6


@pytest.mark.requirement("R36")
async def test_a_process_that_does_not_know_the_query_completes_nothing(tmp_path: Path) -> None:
    till, clock = Till(), SetClock()
    app, charge, _ = audited(tmp_path, till, Pending(), clock=clock)
    async with app, app.run("sale", event="e:1") as run:
        await run.do(charge, name="a")
    clock.forward(10)
    other, _ = shop(tmp_path, till, clock=clock)
    async with other:
        recovered = await other.recover()
        row = other.ledger.run(run.id)
    assert "operation_type" in recovered.failed[run.id]
    assert row is not None
    assert row.ending is None


@pytest.mark.requirement("R36")
async def test_two_workers_ask_an_end_state_once(tmp_path: Path) -> None:
    till, clock = Till(), SetClock()
    one, charge, first = audited(tmp_path, till, Pending(), clock=clock)
    async with one, one.run("sale", event="e:1") as run:
        await run.do(charge, name="a")
    clock.forward(10)
    one, _, first = audited(tmp_path, till, clock=clock)
    two, _, second = audited(tmp_path, till, clock=clock)
    async with one, two:
        await asyncio.gather(one.recover(), two.recover())
        row = one.ledger.run(run.id)
    assert len(first.asked) + len(second.asked) == 1
    assert row is not None
    assert row.ending == "completed"
