"""When a receipt is read back, and what of it survives a crash: recorded first, counted, then read."""

from pathlib import Path

import pytest
from terms import FENCED

from amends.bootstrap import Amends
from amends.core.evidence import Receipt, Verified
from amends.service.call import Call


@pytest.mark.requirement("R20", "R12", "C01")
async def test_the_receipt_is_durable_and_the_pass_counted_before_the_verifying_read(tmp_path: Path) -> None:
    app, seen = Amends(tmp_path / "ledger.db"), []

    @app.effect(
        "make", recovery="compensatable", target="thing:{name}", owner="us", destination=FENCED, lookup="escalate"
    )
    async def make(call: Call, *, name: str) -> Receipt:
        return Receipt(resource="r1", correlation=call.key)

    @make.verify
    async def read_back(call: Call, receipt: Receipt) -> Verified:
        row = app.ledger.operation(call.operation)
        seen.append((row and row.state, row and row.resource, receipt.resource))
        return Verified()

    async with app, app.run("job", event="e:1") as run:
        await run.do(make, name="a")
    assert seen == [("verifying", "r1", "r1")], "asked of the ledger's file from inside the read"
