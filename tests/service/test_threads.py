"""Synchronous effects, in real threads: a thread cannot be cancelled, so its attempt lives until it ends (R24)."""

import asyncio
import logging
import threading
from pathlib import Path

import pytest
from shop import WITHIN_S, SetClock, Till, kinds, shop, until

from amends.bootstrap import Amends
from amends.core.evidence import Absent, Receipt
from amends.core.failures import Rejected
from amends.errors import NotCommitted, OutcomeUnknown
from amends.ledger import rebuild
from amends.service.call import SyncCall
from amends.service.registry import Effect


class Slow:
    """A synchronous charge that arrives at the till and answers when it is let."""

    def __init__(self, till: Till, end: Exception | None = None) -> None:
        self.till, self.end = till, end
        self.inside, self.let, self.over = threading.Event(), threading.Event(), threading.Event()

    def charge(self, call: SyncCall, *, name: str, size: int = 1) -> Receipt:
        self.till.sent.append(call.key)
        if self.end is None:
            receipt = self.till.take(call.key, name)
        self.inside.set()
        try:
            assert self.let.wait(WITHIN_S)
            if self.end is not None:
                raise self.end
            return receipt
        finally:
            self.over.set()


def slow_shop(
    path: Path, till: Till, *, clock: SetClock | None = None, timeout_s: float = 600.0, end: Exception | None = None
) -> tuple[Amends, Effect, Slow]:
    app, charge = shop(path, till, clock=clock, execution_timeout_s=timeout_s)
    slow = Slow(till, end)
    charge.function = slow.charge
    return app, charge, slow


async def arrived(slow: Slow) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not slow.inside.is_set():
            await asyncio.sleep(0.001)


async def charged(app: Amends, charge: Effect, wait_s: float = 30.0) -> Receipt:
    async with app.run("sale", event="e:1", wait_s=wait_s) as run:
        return await run.do(charge, name="a")


async def left_alone(app: Amends, charge: Effect, slow: Slow) -> str:
    """Begin a charge, and cancel its caller while the thread is inside; the operation."""
    caller = asyncio.ensure_future(charged(app, charge))
    await arrived(slow)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    [operation] = [row for run in app.ledger.runs() if run.type == "sale" for row in app.ledger.search(run.id)]
    return operation.id


def state(app: Amends, operation: str) -> str:
    row = app.ledger.operation(operation)
    assert row is not None
    return row.state


@pytest.mark.requirement("R11", "R24", "G2")
async def test_a_thread_goes_on_without_its_caller_and_what_it_brings_in_time_is_its_answer(tmp_path: Path) -> None:
    till = Till()
    app, charge, slow = slow_shop(tmp_path, till)
    async with app:
        operation = await left_alone(app, charge, slow)
        assert (await app.recover()).failed == {}
        assert state(app, operation) == "committing", "it is alive: nobody calls it unknown"
        slow.let.set()
        await until(lambda: state(app, operation) == "verified")
        assert (await charged(app, charge)).resource == "r0-a"
        run = app.ledger.operation(operation)
        assert run is not None
        assert "operation.outcome_unknown" not in kinds(app, run.run)
    assert (len(till.sent), till.looks) == (1, 0)
    assert rebuild.check(tmp_path / "ledger.db") == []


@pytest.mark.requirement("R17", "R24")
async def test_a_refusal_that_a_thread_brings_without_its_caller_is_one(tmp_path: Path) -> None:
    till = Till()
    app, charge, slow = slow_shop(tmp_path, till, end=Rejected("declined", status=402))
    async with app:
        operation = await left_alone(app, charge, slow)
        slow.let.set()
        await until(lambda: state(app, operation) == "not_committed")
        with pytest.raises(NotCommitted):
            await charged(app, charge)
    assert (len(till.sent), len(till.made)) == (1, 0)


@pytest.mark.requirement("R11", "R24", "G3")
@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_receipt_that_comes_after_the_bound_is_late_evidence_and_plans_no_second_call(
    tmp_path: Path, cancelled: bool
) -> None:
    till = Till()
    app, charge, slow = slow_shop(tmp_path, till, timeout_s=0.2)
    charge.lookup_function, charge.lookup_escalates = None, True
    async with app:
        if cancelled:
            operation = await left_alone(app, charge, slow)
            await until(lambda: state(app, operation) == "human_required")
        else:
            with pytest.raises(OutcomeUnknown) as unknown:
                await charged(app, charge)
            operation = str(unknown.value.operation)
        assert app.ledger.runs(ending="unknown"), "nobody knows, and it says so"
        slow.let.set()
        await until(lambda: state(app, operation) == "verified")
        assert (await charged(app, charge)).resource == "r0-a"
        assert [run.ending for run in app.ledger.runs() if run.type == "sale"] == ["completed"]
    assert len(till.sent) == 1


@pytest.mark.requirement("R24", "R12", "G3")
async def test_a_receipt_that_comes_after_it_was_found_changes_nothing(tmp_path: Path) -> None:
    till = Till()
    app, charge, slow = slow_shop(tmp_path, till, timeout_s=0.2)
    async with app:
        receipt = await charged(app, charge)
        slow.let.set()
        run = next(run.id for run in app.ledger.runs() if run.type == "sale")
        await until(lambda: "operation.evidence_recorded" in kinds(app, run))
        assert await charged(app, charge) == receipt
    assert (len(till.sent), len(till.made)) == (1, 1)


@pytest.mark.slow
@pytest.mark.requirement("R11", "R24", "G3")
async def test_closing_the_application_declares_no_living_thread_unknown_and_the_next_one_looks_it_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    till, clock = Till(), SetClock()
    app, charge, slow = slow_shop(tmp_path, till, clock=clock)
    with caplog.at_level(logging.WARNING, "amends.attempts"):
        async with app:
            operation = await left_alone(app, charge, slow)
        slow.let.set()
        await until(lambda: "could not be recorded" in caplog.text)
    assert operation in caplog.text
    next_app, next_charge, _ = slow_shop(tmp_path, till, clock=clock)
    async with next_app:
        assert state(next_app, operation) == "committing"
        with pytest.raises(OutcomeUnknown):
            await charged(next_app, next_charge, wait_s=0.0)
        clock.forward(601)
        assert (await charged(next_app, next_charge)).resource == "r0-a"
    assert (len(till.sent), till.looks) == (1, 1)


@pytest.mark.slow
@pytest.mark.requirement("R24")
async def test_an_application_that_is_opened_again_in_the_same_loop_is_told_what_its_thread_brings(
    tmp_path: Path,
) -> None:
    till = Till()
    app, charge, slow = slow_shop(tmp_path, till)
    async with app:
        operation = await left_alone(app, charge, slow)
    async with app:
        slow.let.set()
        await until(lambda: state(app, operation) == "verified")
    assert len(till.sent) == 1


@pytest.mark.slow
@pytest.mark.requirement("R11", "R24", "G3")
def test_a_thread_that_outlives_its_event_loop_is_logged_and_looked_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    till, clock = Till(), SetClock()
    app, charge, slow = slow_shop(tmp_path, till, clock=clock)

    async def begin() -> str:
        async with app:
            return await left_alone(app, charge, slow)

    operation = asyncio.run(begin())
    with caplog.at_level(logging.WARNING, "amends.attempts"):
        slow.let.set()
        assert slow.over.wait(WITHIN_S)
        for thread in threading.enumerate():
            if thread.name.startswith(f"amends-{operation}"):
                thread.join(WITHIN_S)
    assert f"attempt 1 of {operation} ended after its application did" in caplog.text

    async def go_on() -> Receipt:
        later, again, _ = slow_shop(tmp_path, till, clock=clock)
        clock.forward(601)
        async with later:
            return await charged(later, again)

    assert asyncio.run(go_on()).resource == "r0-a"
    assert len(till.sent) == 1


@pytest.mark.requirement("R12", "R24", "G3")
async def test_a_thread_that_ends_while_a_second_attempt_runs_makes_no_third(tmp_path: Path) -> None:
    till = Till()
    app, charge, slow = slow_shop(tmp_path, till, timeout_s=0.2)
    till.observation = Absent(complete=True)
    second = Slow(till)
    calls = iter([slow.charge, second.charge])

    def charge_next(call: SyncCall, *, name: str, size: int = 1) -> Receipt:
        return next(calls)(call, name=name, size=size)

    charge.function = charge_next

    def take(key: str, name: str) -> Receipt:
        if not till.made:
            till.made.append(Receipt(resource="r0-a", correlation=key))
        return till.made[0]

    till.take = take  # type: ignore[method-assign]
    async with app:
        caller = asyncio.ensure_future(charged(app, charge))
        await arrived(slow)
        await arrived(second)
        slow.let.set()
        run = next(run.id for run in app.ledger.runs() if run.type == "sale")
        await until(lambda: "operation.evidence_recorded" in kinds(app, run) or caller.done())
        second.let.set()
        assert (await caller).resource == "r0-a"
    assert next(calls, None) is None, "both were called, and no third"
    assert (len(till.sent), len(till.made)) == (2, 1)
