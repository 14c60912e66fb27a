"""A program as a user writes it. Type checkers read it; nothing runs it.

Each ``assert_type`` says what a user may rely on; each ignored error is a mistake that a checker must find (an
ignore that is not needed is an error as well).
"""

from collections.abc import Mapping
from typing import Any, assert_type

from amends import (
    Absent,
    Ambiguous,
    Amends,
    AmendsError,
    AwaitingApproval,
    Call,
    Conflict,
    Contract,
    Effect,
    Failed,
    Found,
    HttpDestination,
    Lookup,
    Mechanism,
    Money,
    NotCommitted,
    NotSent,
    OutcomeUnknown,
    Partial,
    Pending,
    Receipt,
    Refused,
    Rejected,
    Retry,
    Run,
    Secret,
    SyncCall,
    Unavailable,
    Unsure,
    VerificationFailed,
    Verified,
)

app = Amends("amends.db", level="recovery")

payments = app.destination(
    "payments",
    base_url="https://payments.example",
    headers={"Authorization": "Bearer ..."},
    idempotency_header="Idempotency-Key",
    key_retention_s=86_400,
    lookup="strong",
)
assert_type(payments, HttpDestination)
assert_type(payments.contract, Contract)

by_hand = HttpDestination(
    "https://till.example",
    Contract(
        name="till", mechanism=Mechanism.IDEMPOTENCY_KEY, idempotency_header="Idempotency-Key", lookup=Lookup.STRONG
    ),
)


@app.effect(
    "issue_refund",
    recovery="compensatable",
    target="order:{order_id}",
    owner="finance",
    destination=payments,
    retry=Retry(attempts=5, first_delay_s=1.0, delay_s_max=60.0),
    amount="amount",
    accepts=["succeeded"],
    evidence=["resource", "amount"],
)
async def issue_refund(call: Call, *, order_id: str, amount: Money, note: str = "") -> Receipt:
    refund = await call.post("/v1/refunds", {"order": order_id, "amount": amount.minor, "note": note})
    if refund["status"] == "refused":
        raise Rejected(refund["reason"], retryable=False, status=402)
    if refund["status"] == "closed":
        raise NotSent("the till was closed")
    if "id" not in refund:
        raise Ambiguous("no id came back")
    return Receipt(
        resource=str(refund["id"]),
        state=str(refund["status"]),
        amount=Money(int(refund["amount"]), "USD"),
        correlation=call.key,
    )


@issue_refund.lookup
async def find_refund(call: Call) -> Found | Absent | Unsure:
    page = await call.get("/v1/refunds", key=call.key)
    if page["more"]:
        return Unsure("there is another page", retry_after_s=2.0)
    matches = [Receipt(resource=str(match["id"])) for match in page["refunds"]]
    return Found(*matches) if matches else Absent(complete=True, read="all refunds of the key")


@issue_refund.verify
async def refund_settled(call: Call, receipt: Receipt) -> Verified | Pending | Failed | Unavailable:
    refund: Mapping[str, Any] = await call.get(f"/v1/refunds/{receipt.resource}")
    match refund["status"]:
        case "succeeded":
            return Verified(evidence=refund)
        case "pending":
            return Pending(retry_after_s=5.0)
        case "failed":
            return Failed("the bank refused it")
        case _:
            return Unavailable("the status is not known")


@issue_refund.resource_version
async def order_version(call: Call) -> str:
    assert_type(call.key, str)
    assert_type(call.attempt, int)
    assert_type(call.remaining_s, float)
    return str((await call.get(f"/v1/orders/{call.arguments['order_id']}"))["version"])


@issue_refund.capture
async def order_before(call: Call) -> dict[str, Any]:
    return {"order": await call.get(f"/v1/orders/{call.arguments['order_id']}")}


@app.read("account_context", basis="contract with the customer", destination=payments)
async def account_context(call: Call, *, order_id: str) -> tuple[str, str]:
    account = await call.get(f"/v1/accounts/{order_id}")
    return str(account["owner"]), str(account["version"])


async def main() -> None:
    async with (
        app,
        app.run("refund", event="ticket:4711", tenant="acme", principal="agent:support", reason="broken") as run,
    ):
        assert_type(run, Run)
        assert_type(run.id, str)
        assert_type(run.intent, str)
        receipt = await run.do(issue_refund, order_id="18431", amount=Money(8500, "USD"))
        assert_type(receipt, Receipt)
        assert_type(receipt.amount, Money | None)
        assert_type(receipt.resource, str)
        assert_type(await run.propose(issue_refund, order_id="18432", amount=Money(100, "USD")), str)
        await run.do(issue_refund, again="2", if_version="7", order_id="18431", amount=Money(8500, "USD"))
        await run.read(account_context, order_id="18431")
        assert_type(run.outcome(), str | None)
    await app.evidence("op_1", receipt)
    await app.evidence("op_1", Found(receipt))


async def told(run: Run) -> str:
    try:
        await run.do(issue_refund, order_id="18431", amount=Money(8500, "USD"))
    except Conflict as conflict:
        assert_type(conflict.requested, dict[str, Any] | None)
        return conflict.code
    except OutcomeUnknown as unknown:
        assert_type(unknown.operation, str | None)
        return unknown.message
    except (AwaitingApproval, NotCommitted, Refused, VerificationFailed) as error:
        assert_type(error.exit_code, int)
        return str(error)
    except AmendsError as error:
        assert_type(error.facts, dict[str, Any])
        return error.code
    return "done"


async def mistakes(run: Run) -> None:
    await run.do(refund_settled, order_id="18431")  # pyright: ignore[reportArgumentType]  # not an effect
    await run.do(issue_refund, "18431")  # pyright: ignore[reportCallIssue]  # arguments go by keyword
    await run.do(issue_refund, again=2, order_id="1")  # pyright: ignore[reportArgumentType]
    await app.evidence("op_1", Absent(complete=True))  # pyright: ignore[reportArgumentType]
    Receipt("re_1")  # pyright: ignore[reportCallIssue]
    Receipt(resource=7)  # pyright: ignore[reportArgumentType]
    Receipt(resource="re_1", amount=85.0)  # pyright: ignore[reportArgumentType]
    Absent()  # pyright: ignore[reportCallIssue]
    Absent(complete="no")  # pyright: ignore[reportArgumentType]
    Found("re_1")  # pyright: ignore[reportArgumentType]
    Money(85.0, "USD")  # pyright: ignore[reportArgumentType]
    app.destination("till", base_url="https://till.example", colour="red")  # pyright: ignore[reportCallIssue]
    app.destination("till", base_url="https://till.example", lookup_lag_s="none")  # pyright: ignore[reportArgumentType]
    issue_refund.lookup(order_version)  # pyright: ignore[reportArgumentType]  # a version is no observation
    issue_refund.verify(find_refund)  # pyright: ignore[reportArgumentType]  # it is not given the receipt
    issue_refund.capture(order_version)  # pyright: ignore[reportArgumentType]  # a version is no state
    app.operation_type("refund", end_state=refund_settled)  # pyright: ignore[reportArgumentType]  # asked of the run


@app.effect("pay_all", recovery="irreversible", target="batch:{batch}", owner="finance", lookup="escalate")
def pay_all(call: SyncCall, *, batch: str, token: Secret) -> Receipt:
    assert_type(call.reveal(token), str)
    made = call.post("/v1/batches", {"batch": batch})
    if made["paid"] < made["asked"]:
        raise Partial(f"{made['paid']} of {made['asked']} were paid")
    return Receipt(resource=str(made["id"]))


assert_type(pay_all, Effect)
