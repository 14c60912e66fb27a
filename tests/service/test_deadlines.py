"""A run's deadline in a running application: nothing new is sent, and what is open is found out (R17, R36)."""

import asyncio
from pathlib import Path

import pytest
from shop import SetClock, Till, shop, until

from amends.bootstrap import Amends
from amends.core.contract import Contract, Lookup
from amends.core.evidence import Absent, Receipt, Unsure
from amends.core.failures import Ambiguous, NotSent
from amends.core.history import history
from amends.core.narrate import narrate
from amends.core.terms import Retry
from amends.errors import NotCommitted, OutcomeUnknown, Refused
from amends.ledger import rebuild
from amends.ports.ledger import OperationRow, RunRow
from amends.service.call import Call

UNFENCED = Contract(name="unfenced", lookup=Lookup.STRONG, late_arrival_bound_s=30)
SLOW = Retry(attempts=5, first_delay_s=900, delay_s_max=900)


def row(app: Amends, run: str) -> RunRow:
    found = app.ledger.run(run)
    assert found is not None
    return found


def only(app: Amends, run: str) -> OperationRow:
    [found] = app.ledger.search(run)
    return found


def story(app: Amends, run: str) -> str:
    steps = history(run, app.ledger.load(run)).steps
    return "\n".join(narrate(step.event, step.at_ms, step.operation) for step in steps)


async def passed(app: Amends, clock: SetClock, run: str) -> None:
    """Let the deadline pass, and wait until the application has closed the run by itself."""
    clock.forward(61)
    await until(lambda: row(app, run).closed == "deadline")


@pytest.mark.requirement("R17", "R36")
async def test_what_was_only_asked_for_expires_unsent_and_a_program_that_comes_back_does_it_once(
    tmp_path: Path,
) -> None:
    till, clock = Till(), SetClock()
    app, charge = shop(tmp_path, till, clock=clock)
    async with app:
        with pytest.raises(OutcomeUnknown):
            async with app.run("sale", event="e:1", deadline_s=60) as run:
                await run.propose(charge, name="a")
                raise OutcomeUnknown("the program goes away")
        await passed(app, clock, run.id)
        assert (only(app, run.id).state, row(app, run.id).ending) == ("expired", "failed_clean")
        assert "the run's deadline passed and its program had not come back: it was closed" in story(app, run.id)
        assert till.sent == []
        async with app.run("sale", event="e:1", deadline_s=60) as back:
            await back.do(charge, name="a")
        assert back.outcome() == "completed"
    assert len(till.made) == 1
    assert rebuild.check(tmp_path / "ledger.db") == []


@pytest.mark.requirement("R17", "R36")
async def test_a_program_that_is_still_inside_asks_for_nothing_new_after_the_deadline(tmp_path: Path) -> None:
    till, clock = Till(), SetClock()
    app, charge = shop(tmp_path, till, clock=clock)
    async with app:
        with pytest.raises(Refused, match="the deadline of its run passed"):
            async with app.run("sale", event="e:1", deadline_s=60) as run:
                first = await run.do(charge, name="a")
                await passed(app, clock, run.id)
                assert await run.do(charge, name="a") == first, "what is known is still told"
                await run.do(charge, name="b")
        assert len(till.sent) == 1
        async with app.run("sale", event="e:1", deadline_s=60) as back:
            await back.do(charge, name="b")
        assert back.outcome() == "completed"
    assert len(till.made) == 2


@pytest.mark.requirement("R17", "R18", "G10")
async def test_a_planned_retry_of_what_never_left_expires_at_the_deadline(tmp_path: Path) -> None:
    till, clock = Till(), SetClock()
    till.answers.append(NotSent("no connection"))
    app, charge = shop(tmp_path, till, clock=clock, retry=SLOW)
    async with app:
        async with app.run("sale", event="e:1", deadline_s=60, wait_s=3_600) as run:
            doing = asyncio.ensure_future(run.do(charge, name="a"))
            await until(lambda: bool(till.sent) and only(app, run.id).state == "retryable")
            await passed(app, clock, run.id)
            with pytest.raises(NotCommitted, match="run_deadline"):
                await doing
        assert row(app, run.id).ending is not None
    assert len(till.sent) == 1


@pytest.mark.requirement("R17", "R36", "G3")
async def test_a_call_that_is_on_its_way_at_the_deadline_is_let_end_and_its_result_counts(tmp_path: Path) -> None:
    till, clock, inside, go = Till(), SetClock(), asyncio.Event(), asyncio.Event()
    app, charge = shop(tmp_path, till, clock=clock, execution_timeout_s=600.0)

    async def slow(call: Call, *, name: str, size: int = 1) -> Receipt:
        inside.set()
        await go.wait()
        return await till.charge(call, name=name)

    charge.function = slow
    async with app:
        with pytest.raises(ZeroDivisionError):
            async with app.run("sale", event="e:1", deadline_s=60) as run:
                doing = asyncio.ensure_future(run.do(charge, name="a"))
                await inside.wait()
                await passed(app, clock, run.id)
                go.set()
                assert (await doing).resource == "r0-a"
                raise ZeroDivisionError
        assert only(app, run.id).state == "verified"
        assert row(app, run.id).ending == "failed_reconciliation_required", "its effect stands"
    assert len(till.made) == 1


@pytest.mark.slow
@pytest.mark.requirement("R17", "R24", "R36")
async def test_an_unknown_outcome_is_found_out_after_the_deadline(tmp_path: Path) -> None:
    till, clock = Till(), SetClock()
    app, charge = shop(tmp_path, till, clock=clock, lookups=50)

    async def lost(call: Call, *, name: str, size: int = 1) -> Receipt:
        till.sent.append(call.key)
        till.take(call.key, name)
        raise Ambiguous("no answer")

    charge.function = lost
    till.observation = Unsure("the index is away")
    async with app:
        with pytest.raises(OutcomeUnknown):
            async with app.run("sale", event="e:1", deadline_s=60, wait_s=0.0) as run:
                await run.do(charge, name="a")
        await passed(app, clock, run.id)
        till.observation = None
        clock.forward(900)
        await until(lambda: only(app, run.id).state == "verified")
    assert len(till.sent) == len(till.made) == 1


@pytest.mark.slow
@pytest.mark.requirement("R18", "R25", "G3", "G7", "G10")
async def test_what_may_still_arrive_late_is_neither_sent_again_nor_called_nothing_after_the_deadline(
    tmp_path: Path,
) -> None:
    till, clock = Till(), SetClock()
    till.answers.append(Ambiguous("no answer"))
    till.observation = Absent(complete=True)
    app, charge = shop(tmp_path, till, clock=clock, retry=SLOW, escalate_to="till-oncall")
    async with app:
        with pytest.raises(OutcomeUnknown):
            async with app.run("sale", event="e:1", deadline_s=60, wait_s=0.0) as run:
                await run.do(charge, name="a")
        clock.forward(6)  # past the attempt's own time
        await until(lambda: only(app, run.id).state == "retryable")
        await passed(app, clock, run.id)
        assert (only(app, run.id).state, row(app, run.id).ending) == ("human_required", "unknown")
        assert 'handed over to "till-oncall": the run\'s deadline passed' in story(app, run.id)
        clock.forward(2000)
        await app.recover()
        with pytest.raises(OutcomeUnknown):
            await run.do(charge, name="a")
    assert len(till.sent) == 1


@pytest.mark.slow
@pytest.mark.requirement("R18", "G3", "G10")
async def test_what_surely_never_happened_expires_although_it_was_unknown_once(tmp_path: Path) -> None:
    till, clock = Till(), SetClock()
    till.answers.append(Ambiguous("no answer"))
    till.observation = Absent(complete=True)
    app, charge = shop(tmp_path, till, clock=clock, retry=SLOW, destination=UNFENCED, lookups=50)
    async with app:
        with pytest.raises(OutcomeUnknown):
            async with app.run("sale", event="e:1", deadline_s=60, wait_s=0.0) as run:
                await run.do(charge, name="a")
        await until(lambda: only(app, run.id).state == "outcome_unknown" and till.looks > 0)
        clock.forward(40)  # past the attempt's own time and the bound on late arrival
        await until(lambda: only(app, run.id).state == "retryable")
        await passed(app, clock, run.id)
        assert (only(app, run.id).state, row(app, run.id).ending) == ("expired", "failed_clean")
    assert len(till.sent) == 1
