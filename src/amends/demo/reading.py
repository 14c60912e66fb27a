"""How the shop reads its destinations: lookups by the operation's key, and the reads that verify.

A lookup follows every page and gives back every record that carries the key, never the first one. A verifying
read asks for the record itself, apart from the answer, and compares the two. Receipts are made from what the
destination says, in one place for answers, lookups and verifying reads.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final
from urllib.parse import quote

from amends.core.evidence import Absent, Failed, Found, Observation, Pending, Receipt, Verification, Verified
from amends.core.money import Money
from amends.destinations.smtp import key_of, message_id
from amends.service.call import Call

PAGE: Final = 100
PAGES_MAX: Final = 20
MAIL_DOMAIN: Final = "shop.invalid"
SETTLING_S: Final = 0.5
"""When a verifying read that came too early is made again."""


async def charge_of(call: Call, *, order: str) -> str:
    """The id of the order's charge."""
    rows, _ = await _rows(call, "/v1/charges", order=order)
    return str(rows[-1]["id"])


def payment(made: dict[str, Any]) -> Receipt:
    return Receipt(
        resource=made["id"],
        state=made["status"],
        amount=Money(made["amount"], made["currency"].upper()),
        correlation=made["metadata"].get("key"),
    )


def by_reference(made: dict[str, Any]) -> Receipt:
    return Receipt(resource=made["id"], state=made.get("status"), correlation=made["reference"])


def mail(made: dict[str, Any]) -> Receipt:
    return Receipt(resource=made["id"], correlation=key_of(made["message_id"]))


ReadReceipt = Callable[[dict[str, Any]], Receipt]


def _filters(call: Call, by: str) -> dict[str, str]:
    """What a list is narrowed by; never more than the destination can."""
    known = {"reference": call.key, "message_id": message_id(call.key, MAIL_DOMAIN)}
    return {by: known[by] if by in known else str(call.arguments[by])}


def lookup(path: str, receipt: ReadReceipt, *, by: str = "reference") -> Callable[[Call], Any]:
    """The authoritative read: every page, and every record that carries our key."""

    async def find(call: Call) -> Observation:
        rows, complete = await _rows(call, path, **_filters(call, by))
        ours = [found for found in map(receipt, rows) if found.correlation == call.key]
        return Found(*ours) if ours else Absent(complete=complete, read=f"{len(rows)} records of {path}")

    return find


async def _rows(call: Call, path: str, **filters: str) -> tuple[list[dict[str, Any]], bool]:
    """All records, newest first, and whether every page was read."""
    rows: list[dict[str, Any]] = []
    after: dict[str, str] = {}
    for _ in range(PAGES_MAX):
        page = await call.get(path, limit=str(PAGE), **filters, **after)
        rows += page.get("data", page.get("messages", []))
        if not page["has_more"]:
            return rows, True
        after = {"starting_after": rows[-1]["id"]}
    return rows, False


def verify_by_id(path: str, receipt: ReadReceipt) -> Callable[[Call, Receipt], Any]:
    """Read the record itself again, apart from the answer."""

    async def verify(call: Call, given: Receipt) -> Verification:
        read = await call.get(path.replace("{id}", quote(given.resource, safe="")))
        return _compared(given, receipt(read))

    return verify


def verify_by_list(path: str, receipt: ReadReceipt, *, by: str = "reference") -> Callable[[Call, Receipt], Any]:
    """The same where a record can only be listed: exactly one has our key."""

    async def verify(call: Call, given: Receipt) -> Verification:
        rows, _ = await _rows(call, path, **_filters(call, by))
        ours = [found for found in map(receipt, rows) if found.correlation == call.key]
        if len(ours) > 1:
            return Failed(f"{len(ours)} records carry our key", evidence={"resources": _resources(ours)})
        return _compared(given, ours[0]) if ours else Pending(retry_after_s=SETTLING_S)

    return verify


def _compared(given: Receipt, read: Receipt) -> Verification:
    evidence = read.to_json()
    if read.state == "pending":
        return Pending(retry_after_s=SETTLING_S, evidence=evidence)
    same = (read.resource, read.state, read.amount, read.correlation) == (
        given.resource,
        given.state,
        given.amount,
        given.correlation,
    )
    return Verified(evidence=evidence) if same else Failed("the record differs from the answer", evidence=evidence)


def _resources(receipts: Iterable[Receipt]) -> list[str]:
    return [receipt.resource for receipt in receipts]
