"""Runs of one intent share an operation: what happens to it later, they all follow (R6, G7)."""

from pathlib import Path

import pytest
from shop import SetClock, Till, kinds, shop

from amends.bootstrap import Amends
from amends.core.evidence import Receipt, Unsure
from amends.core.failures import Ambiguous
from amends.errors import OutcomeUnknown
from amends.ledger import rebuild
from amends.service import joins
from amends.service.handle import RunHandle
from amends.service.registry import Effect
from amends.service.run import Run
from amends.service.services import Services


async def shared(app: Amends, charge: Effect) -> tuple[Run, Run]:
    """Two runs of one intent, both completed by one charge."""
    async with app.run("sale", event="e:1") as first:
        await first.do(charge, name="a")
    async with app.run("sale", event="e:2", intent=first.intent) as second:
        await second.do(charge, name="a")
    assert (ending(app, first), ending(app, second)) == ("completed", "completed")
    return first, second


def ending(app: Amends, run: Run) -> str | None:
    row = app.ledger.run(run.id)
    assert row is not None
    return row.ending


async def contradict(app: Amends, run: Run) -> None:
    """Somebody finds a second charge under the key."""
    [operation] = run.state.operations.values()
    await app.evidence(operation.id, Receipt(resource="another", correlation=operation.key))


@pytest.mark.requirement("R6", "R24", "G7")
async def test_a_run_that_was_completed_by_joining_follows_when_the_operation_is_contradicted(tmp_path: Path) -> None:
    till = Till()
    app, charge = shop(tmp_path, till)
    async with app:
        first, second = await shared(app, charge)
        await contradict(app, first)
        assert ending(app, first) == ending(app, second) == "failed_reconciliation_required"
    assert len(till.sent) == 1
    assert rebuild.check(tmp_path / "ledger.db") == []


@pytest.mark.requirement("R6", "R24", "G7")
async def test_it_follows_although_whoever_recorded_the_contradiction_died_before_it_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    till = Till()
    app, charge = shop(tmp_path, till)

    async def died(_: RunHandle, __: Services) -> None:
        return

    async with app:
        first, second = await shared(app, charge)
        await app._engine.stop()
        with monkeypatch.context() as dying:
            dying.setattr(joins, "tell", died)
            await contradict(app, first)
        assert ending(app, second) == "completed", "nobody has told it"
    later, _ = shop(tmp_path, till)
    async with later:
        assert (await later.recover()).runs == 1
        assert ending(later, second) == "failed_reconciliation_required"
        assert (await later.recover()).runs == 0, "told once"
    assert rebuild.check(tmp_path / "ledger.db") == []


@pytest.mark.requirement("R6", "G7")
async def test_a_join_costs_one_entry_in_each_run_and_a_repeat_of_it_none(tmp_path: Path) -> None:
    till = Till()
    app, charge = shop(tmp_path, till)
    async with app:
        first, second = await shared(app, charge)
        before = [len(app.ledger.load(run.id)) for run in (first, second)]
        async with app.run("sale", event="e:2", intent=first.intent) as again:
            await again.do(charge, name="a")
        assert [len(app.ledger.load(run.id)) for run in (first, second)] == before
        assert kinds(app, first.id).count("run.joined_by") == 1


@pytest.mark.requirement("R6", "R25", "G7")
async def test_a_run_that_joined_an_unknown_operation_waits_and_is_told_how_it_ended(tmp_path: Path) -> None:
    till, clock = Till(), SetClock()
    till.answers.append(Ambiguous("no answer"))
    till.observation = Unsure("away", retry_after_s=3_600)
    app, charge = shop(tmp_path, till, clock=clock)
    async with app:
        with pytest.raises(OutcomeUnknown):
            async with app.run("sale", event="e:1", wait_s=0.0) as first:
                await first.do(charge, name="a")
        async with app.run("sale", event="e:2", intent=first.intent, wait_s=0.0) as second:
            with pytest.raises(OutcomeUnknown):
                await second.do(charge, name="a")
        assert ending(app, second) is None
        [operation] = first.state.operations.values()
        await app.evidence(operation.id, Receipt(resource="r9", correlation=operation.key))
        assert ending(app, second) == "completed", "it did not have to look"
    assert rebuild.check(tmp_path / "ledger.db") == []
