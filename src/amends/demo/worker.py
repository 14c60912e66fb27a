"""A worker of the shop, as a process of its own: ``python -m amends.demo.worker DIR SCENARIO ORDER``.

It is given a business event, opens its run and does its steps; started again with the same event it goes on
where the record says. It prints one JSON line when it is done, and ends with its standard input, so that none
outlives the stage that started it.
"""

import asyncio
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import httpx  # noqa: F401 — heavy: imported here, so that no attempt's budget pays for it

from amends.bootstrap import Run
from amends.demo.clock import MovedClock
from amends.demo.scenarios import PRINCIPAL, SCENARIOS, TENANT
from amends.demo.shop import Shop
from amends.errors import AmendsError
from amends.testing.rehearsal.world import World

PATIENCE_S = 30 * 86_400.0
"""How long ``run.do`` waits for an outcome, by a clock that the stage moves."""


def end_with_stage() -> None:
    """End when standard input does."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os._exit(1)

    threading.Thread(target=watch, name="end-with-stage", daemon=True).start()


async def serve(shop: Shop, scenario: str, order: str) -> dict[str, Any]:
    """Do the run of one event; how it ended."""
    event = SCENARIOS[scenario].event.format(order=order)
    run: Run | None = None
    async with shop.app:
        try:
            async with shop.app.run(
                scenario, event=event, tenant=TENANT, principal=PRINCIPAL, wait_s=PATIENCE_S
            ) as run:
                await {"replacement-order": shop.replacement_order, "refund": shop.refund}[scenario](run, order)
        except AmendsError as error:
            return {"error": error.code, "exit_code": error.exit_code, "message": error.message}
    return {"ending": run.outcome()}


def main(arguments: list[str]) -> int:
    """Run as a program; the exit code of how it ended."""
    end_with_stage()
    directory, scenario, order = Path(arguments[0]), arguments[1], arguments[2]
    shop = Shop(directory / "ledger.db", World.attach(directory / "world"), clock=MovedClock(directory / "clock"))
    try:
        ended = asyncio.run(serve(shop, scenario, order))
    except AmendsError as error:
        ended = {"error": error.code, "exit_code": error.exit_code, "message": error.message}
    sys.stdout.write(json.dumps(ended) + "\n")
    sys.stdout.flush()
    return int(ended.get("exit_code", 0))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
