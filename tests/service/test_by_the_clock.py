"""What hours do to an operation, with a clock in the test's hand: planned repeats, deadlines of verification."""

from pathlib import Path

import pytest

from amends.bootstrap import Amends
from amends.core.contract import Contract, Lookup, Mechanism
from amends.core.evidence import Absent, Failed, Pending, Receipt, Unavailable, Verification, Verified
from amends.core.failures import Ambiguous
from amends.core.terms import Retry
from amends.errors import OutcomeUnknown, VerificationFailed
from amends.service.call import Call
from amends.service.registry import Effect

HOUR_MS = 3_600_000
KEYED = Contract(
    name="keyed",
    mechanism=Mechanism.IDEMPOTENCY_KEY,
    idempotency_header="Idempotency-Key",
    key_retention_s=86_400,
    lookup=Lookup.STRONG,
)


class HandClock:
    """A clock that stands still until the test moves it."""

    def __init__(self) -> None:
        self.ms = 1_800_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def budget_ms(self) -> int:
        return self.ms


class Lost:
    """An effect whose answer is lost each time, and which no lookup shows yet."""

    def __init__(self, app: Amends) -> None:
        self.keys: list[str] = []

        @app.effect(
            "make",
            recovery="compensatable",
            compensate="escalate",
            target="thing",
            owner="us",
            destination=KEYED,
            retry=Retry(attempts=3, first_delay_s=900, delay_s_max=900),
        )
        async def make(call: Call) -> Receipt:
            self.keys.append(call.key)
            raise Ambiguous("no answer")

        @make.lookup
        async def find(call: Call) -> Absent:
            return Absent(complete=True)

        self.effect: Effect = make


@pytest.mark.requirement("R24")
@pytest.mark.parametrize("webhook", [True, False])
async def test_late_evidence_cancels_the_repeat_that_was_planned(tmp_path: Path, webhook: bool) -> None:
    clock = HandClock()
    app = Amends(tmp_path / "l.db", clock=clock)
    lost = Lost(app)
    async with app:
        with pytest.raises(OutcomeUnknown) as unknown:
            async with app.run("job", event="e:1", wait_s=0.0) as run:
                await run.do(lost.effect)
        operation = str(unknown.value.operation)
        clock.ms += 60_000
        await app.recover()
        planned = app.ledger.operation(operation)
        assert planned is not None
        assert (planned.state, planned.attempts) == ("retryable", 1)
        assert (planned.wake_at or 0) > clock.ms
        if webhook:
            await app.evidence(operation, Receipt(resource="r1", correlation=lost.keys[0]))
        clock.ms += 2 * HOUR_MS
        await app.recover()
        row = app.ledger.operation(operation)
    assert row is not None
    assert len(lost.keys) == (1 if webhook else 2)
    assert len(set(lost.keys)) == 1
    assert row.state == ("verified" if webhook else "outcome_unknown")


@pytest.mark.requirement("R20")
@pytest.mark.parametrize(
    ("said", "state", "reason"),
    [
        (Verified(), "verified", ""),
        (Failed("gone"), "reconciliation_required", "postcondition"),
        (Pending(), "reconciliation_required", "verification_pending"),
        (Unavailable("down"), "reconciliation_required", "verification_unavailable"),
    ],
)
async def test_a_postcondition_is_read_again_until_it_is_settled_or_its_time_is_over(
    tmp_path: Path, said: Verification, state: str, reason: str
) -> None:
    clock, reads = HandClock(), []
    app = Amends(tmp_path / "l.db", clock=clock)

    @app.effect(
        "make",
        recovery="compensatable",
        compensate="escalate",
        target="thing",
        owner="us",
        destination=KEYED,
        lookup="escalate",
        verify_within_s=60,
    )
    async def make(call: Call) -> Receipt:
        return Receipt(resource="r1", correlation=call.key)

    @make.verify
    async def read_back(call: Call, receipt: Receipt) -> Verification:
        reads.append(clock.ms)
        return said if len(reads) > 1 or isinstance(said, Failed) else Pending(retry_after_s=10)

    async with app:
        async with app.run("job", event="e:1") as run:
            operation = await run.propose(make)
        with pytest.raises((OutcomeUnknown, VerificationFailed)):
            async with app.run("job", event="e:1", wait_s=0.0) as run:
                await run.do(make)
        for _ in range(10):
            clock.ms += 10_000
            await app.recover()
        row = app.ledger.operation(operation)
    assert row is not None
    assert (row.state, row.reason) == (state, reason)
    assert len(reads) == {"verified": 2, "postcondition": 1}.get(reason or state, len(reads))
    assert len(reads) > 2 or isinstance(said, Verified | Failed)
