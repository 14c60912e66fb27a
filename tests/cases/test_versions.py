"""R12: the version of what is changed, held by the destination itself (ETag, If-Match), over a real warehouse."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from amends.bootstrap import Amends
from amends.core.contract import Contract, Lookup, Mechanism
from amends.core.evidence import Absent, Found, Observation, Receipt
from amends.demo.clock import MovedClock
from amends.errors import AmendsError, NotCommitted, OutcomeUnknown, VerificationFailed
from amends.service.call import Call
from amends.service.registry import Effect
from amends.testing.rehearsal.world import World

pytestmark = pytest.mark.slow

BY_VERSION = Contract(
    name="warehouse.items",
    mechanism=Mechanism.COMPARE_AND_SET,
    lookup=Lookup.STRONG,
    lookup_lag_s=0.0,
    source="amends.testing.rehearsal.warehouse",
)


def wired(path: Path, world: World, clock: MovedClock) -> tuple[Amends, Effect]:
    """``set_stock`` writes an item's stock under the version that was read before the claim."""
    app = Amends(path / "ledger.db", clock=clock)
    warehouse = app.destination("warehouse", base_url=world.warehouse.url, contract=BY_VERSION)

    @app.effect(
        "set_stock",
        recovery="reversible",
        compensate="escalate",
        target="item:{sku}:{units}",
        owner="stock",
        destination=warehouse,
        execution_timeout_s=5.0,
    )
    async def set_stock(call: Call, *, sku: str, units: int) -> Receipt:
        made = await call.put(f"/items/{sku}", {"available": units}, if_match=call.resource_version)
        return Receipt(resource=sku, version=str(made["version"]), state=str(made["available"]), correlation=call.key)

    @set_stock.resource_version
    async def version(call: Call) -> str:
        reply = await call.request("GET", f"/items/{call.arguments['sku']}")
        assert reply.etag is not None
        return reply.etag

    @set_stock.capture
    async def before(call: Call) -> dict[str, Any]:
        return {"item": await call.get(f"/items/{call.arguments['sku']}")}

    @set_stock.lookup
    async def find(call: Call) -> Observation:
        item = await call.get(f"/items/{call.arguments['sku']}")
        if item["available"] != call.arguments["units"]:
            return Absent(complete=True, read=f"the stock is {item['available']}")
        return Found(Receipt(resource=item["sku"], version=str(item["version"]), correlation=call.key))

    return app, set_stock


def writes(world: World) -> int:
    return world.warehouse.effects()["item_writes"]


@pytest.mark.requirement("R12")
async def test_of_two_actions_on_one_version_one_commits_and_the_other_stops(
    tmp_path: Path, world: World, clock: MovedClock
) -> None:
    app, set_stock = wired(tmp_path, world, clock)
    world.warehouse.fault("latency", hold=True)
    async with app, app.run("count", event="count:1", wait_s=5) as run:
        doing = [asyncio.ensure_future(run.do(set_stock, sku="A-1", units=units)) for units in (7, 9)]
        assert await asyncio.to_thread(world.warehouse.wait_held) >= 1
        world.warehouse.disarm()
        while not all(each.done() for each in doing):
            await asyncio.to_thread(world.warehouse.release)
            await asyncio.wait(doing, timeout=0.1)
        told = [each.exception() for each in doing]
    assert told.count(None) == 1
    [refused] = [each for each in told if each is not None]
    assert isinstance(refused, NotCommitted | OutcomeUnknown | VerificationFailed)
    assert writes(world) == 1


@pytest.mark.requirement("R12", "R5")
async def test_a_decision_that_rests_on_an_older_version_sends_nothing(
    tmp_path: Path, world: World, clock: MovedClock
) -> None:
    app, set_stock = wired(tmp_path, world, clock)
    async with app:
        with pytest.raises(NotCommitted, match="state_fresh"):
            async with app.run("count", event="count:1") as run:
                await run.do(set_stock, sku="A-1", units=7, if_version='"99"')
        async with app.run("count", event="count:2") as run:
            await run.do(set_stock, sku="A-1", units=7)
    assert writes(world) == 1


@pytest.mark.requirement("R12", "R22", "G3")
async def test_a_repeat_is_fenced_by_the_version_of_the_first_attempt(
    tmp_path: Path, world: World, clock: MovedClock
) -> None:
    """The first request is on its way. Meanwhile a colleague moves the item on, and the lookup sees no write of ours.

    A repeat under the new version would be a second write beside the late original: the first version has to hold.
    """
    app, set_stock = wired(tmp_path, world, clock)
    world.warehouse.fault("late", hold=True)
    async with app:
        with contextlib.suppress(AmendsError):
            async with app.run("count", event="count:1", wait_s=0) as run:
                await run.do(set_stock, sku="A-1", units=7)
        colleague = await _put(world, "A-1", 3)
        assert colleague == 200
        clock.move(60_000)
        for _ in range(3):
            await app.recover()
            clock.move(60_000)
        await asyncio.to_thread(world.warehouse.release)
        for _ in range(3):
            await app.recover()
            clock.move(60_000)
    assert writes(world) == 1, "the colleague's: ours was refused, whenever it arrived"


async def _put(world: World, sku: str, units: int) -> int:
    import httpx

    async with httpx.AsyncClient(trust_env=False) as http:
        etag = (await http.get(f"{world.warehouse.direct_url}/items/{sku}")).headers["etag"]
        url = f"{world.warehouse.direct_url}/items/{sku}"
        return (await http.put(url, json={"available": units}, headers={"If-Match": etag})).status_code
