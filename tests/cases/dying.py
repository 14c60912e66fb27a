"""A worker that charges one order: ``dying.py DIR WORLD [POINT SIGNAL]``. It ends itself at the named point."""

import asyncio
import os
import sys
from pathlib import Path

import httpx  # noqa: F401 — heavy: imported before any attempt's budget begins

from amends.core.money import Money
from amends.demo.clock import MovedClock
from amends.demo.shop import Shop
from amends.service import points
from amends.testing.rehearsal.world import World

directory, world, *at = sys.argv[1:]


def reached(name: str) -> None:
    if at and name == at[0]:
        os.kill(os.getpid(), int(at[1]))


async def main() -> None:
    clock = MovedClock(Path(directory) / "clock")
    shop = Shop(Path(directory) / "ledger.db", World.attach(Path(world)), clock=clock)
    points.hook = reached
    async with shop.app:
        asking = asyncio.ensure_future(charge(shop))
        while not asking.done():
            if not at:
                clock.move(15_000)  # the dead worker's budget passes, and the destination's lag
            await asyncio.wait({asking}, timeout=0.2)
        print(await asking)


async def charge(shop: Shop) -> str | None:
    async with shop.app.run("order", event="order:1", wait_s=3600) as run:
        await run.do(shop.capture_payment, order="1", amount=Money(8500, "USD"))
    return run.outcome()


asyncio.run(main())
