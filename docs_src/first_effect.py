"""One effect with its lookup and its verification, over a payment service that runs on this machine."""

import asyncio

from amends import Absent, Amends, Call, Failed, Found, Money, Receipt, Verified
from amends.testing.rehearsal.world import World

world = World("rehearsal", destinations=["payments"]).start()
app = Amends("amends.db")
payments = app.destination(
    "payments",
    base_url=world.payments.url,
    idempotency_header="Idempotency-Key",
    key_retention_s=86_400,
    lookup="strong",
)


@app.effect(
    "charge", recovery="compensatable", target="order:{order}", owner="finance", destination=payments, amount="amount"
)
async def charge(call: Call, *, order: str, amount: Money) -> Receipt:
    body = {"order": order, "amount": amount.minor, "currency": "usd", "metadata": {"key": call.key}}
    return receipt(await call.post("/v1/charges", body))


@charge.lookup
async def find_charge(call: Call) -> Found | Absent:
    page = await call.get("/v1/charges", order=str(call.arguments["order"]), limit="100")
    ours = [receipt(made) for made in page["data"] if made["metadata"].get("key") == call.key]
    return Found(*ours) if ours else Absent(complete=not page["has_more"])


@charge.verify
async def charge_stands(call: Call, given: Receipt) -> Verified | Failed:
    made = await call.get(f"/v1/charges/{given.resource}")
    return Verified() if made["status"] == "succeeded" else Failed(f"it is {made['status']}")


def receipt(made: dict) -> Receipt:
    """The destination's own values, never an echo of the request."""
    amount = Money(made["amount"], made["currency"].upper())
    return Receipt(resource=made["id"], state=made["status"], amount=amount, correlation=made["metadata"]["key"])


async def main() -> None:
    async with app, app.run("replacement", event="ticket:4711") as run:
        made = await run.do(charge, order="18431", amount=Money(8500, "USD"))
    print(made.resource, run.outcome(), world.payments.effects(order="18431")["charges"])


try:
    asyncio.run(main())
finally:
    world.stop()
