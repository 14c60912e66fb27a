"""Many callers on one ledger; run in several processes at once. Effects are lines in a file that all append to.

``racer.py same LEDGER EFFECTS TASKS`` lets so many tasks ask for one effect at once, each in a run of its own
making; it prints the receipts.
``racer.py busy LEDGER EFFECTS SECONDS NAME CALLERS`` makes effects on runs of its own and on runs that all share until
the time is over or a file EFFECTS.stop is there; it prints how many callers got all their receipts.

It says ``ready`` and begins with the first line of its input. Whatever a caller got instead of a receipt is
printed as ``SURFACED``.
"""

import asyncio
import itertools
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

from amends.bootstrap import Amends
from amends.core.contract import Contract, Lookup, Mechanism
from amends.core.evidence import Absent, Found, Observation, Receipt
from amends.service.call import Call
from amends.service.registry import Effect

MODE, LEDGER, EFFECTS = sys.argv[1], sys.argv[2], Path(sys.argv[3])
SHARED_PER_S = 20
SHARED = 5
"""How many effects of one shared run a process asks for, and so do all the others."""


def wired() -> tuple[Amends, Effect]:
    app = Amends(LEDGER)
    file = os.open(EFFECTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    contract = Contract(name="file", mechanism=Mechanism.IDEMPOTENCY_KEY, key_retention_s=3600, lookup=Lookup.STRONG)

    @app.effect("make", recovery="compensatable", target="thing:{name}", owner="us", destination=contract)
    async def make(call: Call, *, name: str) -> Receipt:
        call.about_to_send("a line")
        os.write(file, f"{call.key}\n".encode())
        await asyncio.sleep(0)
        return Receipt(resource=f"made for {name}", correlation=call.key)

    @make.lookup
    async def find(call: Call) -> Observation:
        found = call.key in EFFECTS.read_text(encoding="ascii").split()
        return Found(Receipt(resource="found", correlation=call.key)) if found else Absent(complete=True)

    return app, make


async def asked(app: Amends, make: Effect, event: str, names: list[str]) -> list[str]:
    """The receipts of one caller."""
    try:
        async with app.run("race", event=event) as run:
            made = await asyncio.gather(*(run.do(make, name=name) for name in names))
    except Exception as error:  # whatever reaches a caller is what this program is to show
        print("SURFACED", type(error).__name__, error, flush=True)
        return []
    return [f"{receipt.resource} {receipt.correlation}" for receipt in made]


async def same(app: Amends, make: Effect) -> None:
    callers = (asked(app, make, "order:1", ["the one"]) for _ in range(int(sys.argv[4])))
    for receipts in await asyncio.gather(*callers):
        print("\n".join(receipts))


async def work(name: str) -> AsyncIterator[tuple[str, list[str]]]:
    """Events and things, without end: by turns one of this process alone and one that all ask for just now."""
    for n in itertools.count():
        yield f"{name}:{n}", [f"{name}-{n}-{m}" for m in range(2)]
        now = int(time.monotonic() * SHARED_PER_S)
        yield f"shared:{now}", [f"shared-{now}-{m}" for m in range(SHARED)]


async def busy(app: Amends, make: Effect) -> None:
    ends, todo, got = time.monotonic() + float(sys.argv[4]), work(sys.argv[5]), 0
    stop = EFFECTS.with_suffix(".stop")

    async def caller() -> None:
        nonlocal got
        async for event, names in until_the_end():
            receipts = await asked(app, make, event, names)
            got += len(receipts) == len(names)

    async def until_the_end() -> AsyncIterator[tuple[str, list[str]]]:
        while time.monotonic() < ends and not stop.exists():
            yield await anext(todo)

    await asyncio.gather(*(caller() for _ in range(int(sys.argv[6]))))
    print(got)


async def main() -> None:
    app, make = wired()
    async with app:
        print("ready", flush=True)
        sys.stdin.readline()
        await (same if MODE == "same" else busy)(app, make)


asyncio.run(main())
