"""The program under the sweep: one run, three charges. Killed at the N-th named point when asked to be.

``worker.py LEDGER PORT [POINT_NUMBER]`` prints how many points it passed and what the three charges gave.
"""

import asyncio
import os
import signal
import sys

from amends.bootstrap import Amends
from amends.core.contract import Contract, Lookup, Mechanism
from amends.core.evidence import Absent, Found, Observation, Receipt
from amends.core.money import Money
from amends.core.terms import Retry
from amends.destinations.http import HttpDestination
from amends.ledger import points as ledger_points
from amends.service import points
from amends.service.call import Call

passed: list[str] = []
kill_at = int(sys.argv[3]) if len(sys.argv) > 3 else 0


def reached(name: str) -> None:
    passed.append(name)
    if len(passed) == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)


points.hook = ledger_points.hook = reached
contract = Contract(
    name="till",
    mechanism=Mechanism.IDEMPOTENCY_KEY,
    idempotency_header="Idempotency-Key",
    key_retention_s=3600,
    replays_success=True,
    lookup=Lookup.STRONG,
    late_arrival_bound_s=60,
)
till = HttpDestination(f"http://127.0.0.1:{sys.argv[2]}", contract)
app = Amends(sys.argv[1])


@app.effect(
    "charge",
    recovery="compensatable",
    target="order:{order}",
    owner="finance",
    destination=contract,
    execution_timeout_s=1.0,
    amount="amount",
    retry=Retry(first_delay_s=0.01),
)
async def charge(call: Call, *, order: str, amount: Money) -> Receipt:
    made = await till.post(call, "/charges", {"amount": amount.minor})
    return receipt(made)


@charge.lookup
async def find_charge(call: Call) -> Observation:
    made = await till.get(call, "/charges", key=call.key)
    return Found(*map(receipt, made)) if made else Absent(complete=True)


def receipt(made: dict[str, object]) -> Receipt:
    amount = Money(int(str(made["amount"])), "USD")
    return Receipt(resource=str(made["id"]), amount=amount, correlation=str(made["key"]))


async def main() -> None:
    async with app, app.run("sweep", event="order:18431") as run:
        made = [await run.do(charge, order=f"18431-{n}", amount=Money(100 + n, "USD")) for n in range(3)]
    print(len(passed), run.outcome(), *[receipt.resource for receipt in made])


asyncio.run(main())
