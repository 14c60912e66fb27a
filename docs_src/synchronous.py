"""A program that does not await. Plain functions are given a call whose verbs block."""

from amends import Absent, Found, Money, Receipt, SyncCall
from amends.sync import Amends
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


@app.effect("charge", recovery="compensatable", target="order:{order}", owner="finance", destination=payments)
def charge(call: SyncCall, *, order: str, amount: Money) -> Receipt:
    body = {"order": order, "amount": amount.minor, "currency": "usd", "metadata": {"key": call.key}}
    made = call.post("/v1/charges", body)
    return Receipt(resource=made["id"], state=made["status"], correlation=made["metadata"]["key"])


@charge.lookup
def find_charge(call: SyncCall) -> Found | Absent:
    page = call.get("/v1/charges", order=str(call.arguments["order"]), limit="100")
    ours = [
        Receipt(resource=made["id"], correlation=call.key)
        for made in page["data"]
        if made["metadata"].get("key") == call.key
    ]
    return Found(*ours) if ours else Absent(complete=not page["has_more"])


with app, app.run("replacement", event="ticket:4711") as run:
    made = run.do(charge, order="18431", amount=Money(8500, "USD"))
print(made.resource, run.outcome(), world.payments.effects(order="18431")["charges"])
world.stop()
