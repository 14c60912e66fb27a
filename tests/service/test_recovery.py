"""Recovery inside an application, and what one application's trouble does to the rest.

The destination is an object beside the application; it counts the effects that were made.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from terms import FENCED, QUICK

from amends.bootstrap import Amends
from amends.core.evidence import Absent, Found, Observation, Receipt, Unsure
from amends.core.failures import Ambiguous
from amends.errors import OutcomeUnknown
from amends.service.call import Call

LATER_MS = 4_000_000_000_000
WITHIN_S = 60


class Lossy:
    """Makes the effect, and loses every answer. It tells what it holds once ``tells`` is set."""

    def __init__(self) -> None:
        self.made: list[Receipt] = []
        self.tells = True

    async def make(self, call: Call, *, name: str) -> Receipt:
        self.made.append(Receipt(resource=name, correlation=call.key))
        raise Ambiguous("no answer")

    async def find(self, call: Call) -> Observation:
        if not self.tells:
            return Unsure("not yet")
        ours = [receipt for receipt in self.made if receipt.correlation == call.key]
        return Found(*ours) if ours else Absent(complete=True)


def application(path: Path, place: Lossy, *names: str) -> Amends:
    """An application on the ledger at ``path`` with an effect of each of ``names``."""
    app = Amends(path / "ledger.db")
    for name in names:
        effect = app.effect(
            name, recovery="compensatable", target="thing:{name}", owner="us", destination=FENCED, retry=QUICK
        )(place.make)
        effect.lookup(place.find)
    return app


async def lose(app: Amends, action: str, event: str) -> str:
    """Do ``action`` and have its answer lost; the operation's id."""
    with pytest.raises(OutcomeUnknown) as unknown:
        async with app.run("job", event=event, wait_s=0.0) as run:
            await run.do(app.registrations.effects[action], name=event)
    return str(unknown.value.operation)


async def verified(app: Amends, operation: str) -> None:
    """Wait until the application has found ``operation`` out by itself."""
    async with asyncio.timeout(WITHIN_S):
        while (row := app.ledger.operation(operation)) is None or row.state != "verified":
            await asyncio.sleep(0)


@pytest.mark.requirement("R24", "G1")
async def test_an_open_application_finds_a_lost_outcome_by_itself(tmp_path: Path) -> None:
    place = Lossy()
    place.tells = False
    async with application(tmp_path, place, "make") as app:
        operation = await lose(app, "make", "e:1")
        place.tells = True
        await verified(app, operation)
    assert len(place.made) == 1


@pytest.mark.requirement("R24")
async def test_an_error_in_a_pass_is_told_and_the_next_pass_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place = Lossy()
    place.tells = False
    app = application(tmp_path, place, "make")
    due, failures = app.ledger.due, iter([True])

    def failing_once(*args: Any, **options: Any) -> Any:
        if next(failures, False):
            raise RuntimeError("hunter2")
        return due(*args, **options)

    monkeypatch.setattr(app.ledger, "due", failing_once)
    async with app:
        operation = await lose(app, "make", "e:1")
        place.tells = True
        await verified(app, operation)
    assert "a recovery pass failed: RuntimeError" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.requirement("R24")
async def test_a_pass_goes_on_past_a_run_whose_effect_is_not_registered_and_puts_it_off(tmp_path: Path) -> None:
    place = Lossy()
    place.tells = False
    async with application(tmp_path, place, "other", "make") as app:
        foreign, ours = await lose(app, "other", "e:1"), await lose(app, "make", "e:2")
    place.tells = True
    later = application(tmp_path, place, "make")
    later.clock.now_ms = lambda: LATER_MS  # type: ignore[method-assign]
    async with later:
        first, second = await later.recover(), await later.recover()
        rows = {name: later.ledger.operation(name) for name in (foreign, ours)}
    [(run, reason)] = first.failed.items()
    assert (first.runs, rows[foreign] and rows[foreign].run) == (2, run)
    assert "not registered" in reason
    assert second == (0, {}), "it is put off, and holds up nobody"
    assert {name: row and row.state for name, row in rows.items()} == {foreign: "outcome_unknown", ours: "verified"}
    assert len(place.made) == 2


@pytest.mark.requirement("F13")
async def test_an_effect_has_no_more_calls_at_once_than_it_allows(tmp_path: Path) -> None:
    app, inside, let = Amends(tmp_path / "ledger.db"), list[str](), asyncio.Semaphore(0)
    most = 0

    @app.effect(
        "make",
        recovery="compensatable",
        target="thing:{name}",
        owner="us",
        destination=FENCED,
        lookup="escalate",
        max_in_flight=2,
    )
    async def make(call: Call, *, name: str) -> Receipt:
        nonlocal most
        inside.append(name)
        most = max(most, len(inside))
        await let.acquire()
        inside.remove(name)
        return Receipt(resource=name, correlation=call.key)

    async with app, app.run("job", event="e:1") as run:
        doing = [asyncio.ensure_future(run.do(make, name=str(number))) for number in range(6)]
        for _ in doing:
            while not inside:
                await asyncio.sleep(0)
            let.release()
        receipts = await asyncio.gather(*doing)
    assert most == 2
    assert sorted(receipt.resource for receipt in receipts) == list("012345")
