"""The worker under the kill sweep: the demo's replacement order, killed at the N-th named point when asked to be.

``order.py WORLD LEDGER CLOCK ORDER [POINT_NUMBER]`` prints the run's ending and the names of the points it passed.
The shop is the demo's own, and so is its code; only the points are listened to.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import httpx  # noqa: F401 — imported here, so that no attempt's budget pays for it

from amends.demo.clock import MovedClock
from amends.demo.scenarios import PRINCIPAL, SCENARIOS, TENANT
from amends.demo.shop import Shop
from amends.ledger import points as ledger_points
from amends.service import points
from amends.testing.rehearsal.world import World

passed: list[str] = []
world, ledger, clock, order = sys.argv[1:5]
kill_at = int(sys.argv[5]) if len(sys.argv) > 5 else 0


def reached(name: str) -> None:
    passed.append(name)
    if len(passed) == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)


async def main() -> None:
    shop = Shop(Path(ledger), World.attach(Path(world)), clock=MovedClock(Path(clock)))
    event = SCENARIOS["replacement-order"].event.format(order=order)
    points.hook = ledger_points.hook = reached
    async with shop.app, shop.app.run("replacement-order", event=event, tenant=TENANT, principal=PRINCIPAL) as run:
        await shop.replacement_order(run, order)
    print(json.dumps({"ending": run.outcome(), "points": passed}))


asyncio.run(main())
