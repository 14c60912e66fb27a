"""A program that does not await, as a user writes it. Type checkers read it; nothing runs it.

``assert_type`` says what a user may rely on; each ignored error is a mistake that a checker must find.
"""

from typing import Any, assert_type

from amends.sync import (
    Absent,
    Amends,
    AmendsError,
    Call,
    Effect,
    Failed,
    Found,
    HttpDestination,
    Money,
    NotCommitted,
    OutcomeUnknown,
    Partial,
    Pending,
    Receipt,
    Run,
    SyncCall,
    Unavailable,
    Unsure,
    Verified,
)

app = Amends("amends.db")
payments = app.destination(
    "payments", base_url="https://payments.example", idempotency_header="Idempotency-Key", lookup="strong"
)
assert_type(payments, HttpDestination)


@app.effect("issue_refund", recovery="compensatable", target="order:{order_id}", owner="finance", destination=payments)
def issue_refund(call: Call, *, order_id: str, amount: Money) -> Receipt:
    assert_type(call, SyncCall)
    made = call.post("/v1/refunds", {"order": order_id, "amount": amount.minor})
    if made["paid"] < amount.minor:
        raise Partial(f"{made['paid']} of {amount.minor} were paid")
    return Receipt(resource=str(made["id"]), correlation=call.key)


assert_type(issue_refund, Effect)


@issue_refund.lookup
def find_refund(call: Call) -> Found | Absent | Unsure:
    page: list[dict[str, Any]] = call.get("/v1/refunds", key=call.key)
    return Found(*[Receipt(resource=str(each["id"])) for each in page]) if page else Absent(complete=True)


@issue_refund.verify
def refund_settled(call: Call, receipt: Receipt) -> Verified | Pending | Failed | Unavailable:
    status: str = call.get(f"/v1/refunds/{receipt.resource}")["status"]
    return Verified() if status == "succeeded" else Pending(retry_after_s=5.0)


@issue_refund.resource_version
def order_version(call: Call) -> str:
    return call.request("GET", f"/v1/orders/{call.arguments['order_id']}").etag or ""


@issue_refund.capture
def order_before(call: Call) -> dict[str, Any]:
    return {"order": call.get(f"/v1/orders/{call.arguments['order_id']}")}


@app.read("account", basis="contract with the customer", destination=payments)
def account(call: Call, *, order_id: str) -> str:
    return str(call.get(f"/v1/accounts/{order_id}")["owner"])


def main() -> Receipt | None:
    with app, app.run("refund", event="ticket:4711", tenant="acme", principal="agent:support") as run:
        assert_type(run, Run)
        assert_type(run.id, str)
        assert_type(run.intent, str)
        assert_type(run.propose(issue_refund, order_id="18432", amount=Money(100, "USD")), str)
        run.read(account, order_id="18431")
        try:
            receipt = run.do(issue_refund, again="2", if_version="7", order_id="18431", amount=Money(8500, "USD"))
        except OutcomeUnknown as unknown:
            assert_type(unknown.operation, str | None)
            raise
        except NotCommitted:
            return None
        except AmendsError as error:
            assert_type(error.code, str)
            raise
        assert_type(receipt, Receipt)
        assert_type(run.outcome(), str | None)
    app.evidence("op_1", receipt)
    assert_type(app.recover().runs, int)
    return receipt


def mistakes(run: Run) -> None:
    run.do(refund_settled, order_id="18431")  # pyright: ignore[reportArgumentType]  # not an effect
    run.do(issue_refund, "18431")  # pyright: ignore[reportCallIssue]  # arguments go by keyword
    run.do(account, order_id="18431")  # pyright: ignore[reportArgumentType]  # a read is read
    run.read(issue_refund, order_id="18431")  # pyright: ignore[reportArgumentType]
    app.evidence("op_1", Absent(complete=True))  # pyright: ignore[reportArgumentType]
    app.destination("till", base_url="https://till.example", colour="red")  # pyright: ignore[reportCallIssue]
    app.destination("till", base_url="https://till.example", key_retention_s="a day")  # pyright: ignore[reportArgumentType]


def no_mapping(call: Call) -> str:
    return call.key


async def nobody_awaits(run: Run) -> None:
    await run.do(issue_refund, order_id="1")  # pyright: ignore[reportGeneralTypeIssues]
    async with app:  # pyright: ignore[reportGeneralTypeIssues]
        pass


issue_refund.capture(no_mapping)  # pyright: ignore[reportArgumentType]
issue_refund.lookup(no_mapping)  # pyright: ignore[reportArgumentType]
issue_refund.verify(find_refund)  # pyright: ignore[reportArgumentType]  # it is not given the receipt
app.effect("x", recovery="irreversible", target="x", owner="us")(no_mapping)  # pyright: ignore[reportArgumentType]
