"""An application whose one destination is a file beside the ledger; used in process and as ``shop:app``.

Each order's name says what befalls its charge. The file counts what was made, in any process.
"""

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from amends import (
    Absent,
    Amends,
    AmendsError,
    Call,
    Contract,
    Failed,
    Found,
    Lookup,
    Mechanism,
    Money,
    Receipt,
    Rejected,
    Retry,
    Unsure,
    Verified,
)

PLACE = Path(os.environ.get("SHOP", "."))
BANK = Contract(name="bank", mechanism=Mechanism.IDEMPOTENCY_KEY, key_retention_s=86_400, lookup=Lookup.STRONG)
POST = Contract(name="post", lookup=Lookup.STRONG)
FAR_S = 900.0

app = Amends(PLACE / "ledger.db")


class Lost(Exception):
    """The answer did not come."""


def made() -> list[str]:
    """The keys under which something was made, at the destination."""
    file = PLACE / "made"
    return file.read_text(encoding="ascii").split() if file.exists() else []


def make(call: Call) -> Receipt:
    with (PLACE / "made").open("a", encoding="ascii") as file:
        file.write(call.key + "\n")
    return receipt(call)


def receipt(call: Call, number: int = 1) -> Receipt:
    return Receipt(resource=f"ch_{number}", state="succeeded", amount=Money(8500, "USD"), correlation=call.key)


@app.effect(
    "charge",
    recovery="compensatable",
    target="order:{order}",
    destination=BANK,
    owner="billing",
    escalate_to="billing-oncall",
    retry=Retry(attempts=2, first_delay_s=0.001, delay_s_max=0.01),
)
async def charge(call: Call, *, order: str, amount: Money, note: str = "") -> Receipt:
    if order == "declined":
        raise Rejected("the card was declined \x1b[31m[red]now[/red]\u202e", status=402, code="card_declined")
    done = make(call)
    if order in ("lost", "several", "unsure"):
        raise Lost
    if order == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    return done


@charge.lookup
async def find_charge(call: Call) -> Found | Absent | Unsure:
    if call.arguments["order"] == "unsure":
        return Unsure("the index is being rebuilt", retry_after_s=FAR_S)
    if call.arguments["order"] == "several":
        return Found(receipt(call, 1), receipt(call, 2))
    return Found(receipt(call)) if call.key in made() else Absent(complete=True)


@charge.verify
async def charge_settled(call: Call, receipt: Receipt) -> Verified | Failed:
    if call.arguments["order"] == "reversed":
        return Failed("the charge was reversed by the bank")
    return Verified(evidence={"state": "succeeded"})


@app.effect(
    "parcel", recovery="irreversible", target="parcel:{order}", destination=POST, owner="dispatch", lookup="escalate"
)
async def parcel(call: Call, *, order: str) -> Receipt:
    raise Lost


async def run_one(order: str) -> None:
    """One run with one charge, or with one parcel where nothing can be looked up."""
    try:
        async with app.run(
            "sale", event=f"order:{order}", tenant="acme", principal="agent:till", reason="asked"
        ) as run:
            if order == "unlooked":
                await run.do(parcel, order=order)
            else:
                await run.do(charge, order=order, amount=Money(8500, "USD"), note="hello")
    except AmendsError:
        pass


async def until_looked(order: str) -> None:
    """Start the run of ``order`` and leave it once a lookup has settled nothing."""
    caller = asyncio.ensure_future(run_one(order))
    async with asyncio.timeout(30):
        while not any(row.reason == "unsure" for row in app.ledger.unresolved()):
            await asyncio.sleep(0)
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)


async def sell(orders: Sequence[str]) -> None:
    async with app:
        for order in orders:
            await (until_looked(order) if order == "unsure" else run_one(order))


if __name__ == "__main__":
    import sys

    asyncio.run(sell(sys.argv[1:]))
