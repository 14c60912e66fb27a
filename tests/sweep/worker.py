"""A small program: one run, three charges. ``worker.py LEDGER PORT`` prints the ending and what the charges gave."""

import asyncio
import sys

from amends.bootstrap import Amends
from amends.core.contract import Contract, Lookup, Mechanism
from amends.core.evidence import Absent, Found, Observation, Receipt
from amends.core.money import Money
from amends.core.terms import Retry
from amends.destinations.http import HttpDestination
from amends.service.call import Call

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
    execution_timeout_s=5.0,
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
    print(run.outcome(), *[receipt.resource for receipt in made])


asyncio.run(main())
