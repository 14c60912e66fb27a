"""Areas B, E, F and G: finding out what happened, and what is kept of it."""

import asyncio
import contextlib
import json
import logging
import signal
import subprocess
import sys
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from amends.bootstrap import Amends
from amends.core.contract import Contract, Lookup
from amends.core.evidence import Absent, Found, Observation, Receipt, Verification
from amends.core.failures import Ambiguous, NotSent, Rejected
from amends.core.money import Money
from amends.core.terms import Retry
from amends.demo.clock import MovedClock
from amends.demo.shop import MAIL_DOMAIN, PAYMENTS, Shop
from amends.destinations.smtp import Mail, SmtpClient, key_of
from amends.errors import AmendsError, LedgerUnavailable, NotCommitted, OutcomeUnknown, VerificationFailed
from amends.ledger import points as ledger_points
from amends.service.call import Call
from amends.testing.rehearsal.world import World

PRICE = Money(8500, "USD")
WORKER = Path(__file__).parent / "dying.py"
pytestmark = pytest.mark.slow


async def stock(shop: Shop, wait_s: float = 60) -> str:
    async with shop.app.run("order", event="order:1", wait_s=wait_s) as run:
        return (await run.do(shop.reserve_stock, order="1", sku="A-1")).resource


@pytest.mark.requirement("E03", "E01", "R21", "R23")
@pytest.mark.parametrize("fault", ["drop_response", "drop_request", "cut", "late", "duplicate"])
async def test_a_name_of_our_own_clears_an_unknown_create_by_itself(
    tmp_path: Path, world: World, clock: MovedClock, fault: str
) -> None:
    """The reservation is created under our key as its name: a second create is refused by the warehouse itself."""
    first = Shop(tmp_path / "ledger.db", world, clock=clock)
    world.warehouse.fault(fault, **({"delay_ms": 1} if fault == "late" else {}))
    async with first.app:
        with contextlib.suppress(OutcomeUnknown):
            await stock(first, wait_s=0)
    clock.move(60_000)
    second = Shop(tmp_path / "ledger.db", world, clock=clock)
    async with second.app:
        await second.app.recover()
        await stock(second)
    assert world.warehouse.effects(sku="A-1")["reservations"] == 1


@pytest.mark.requirement("E06", "R8", "R13", "R20")
async def test_an_id_that_was_accepted_and_is_pending_is_stored_at_once(
    tmp_path: Path, world: World, clock: MovedClock
) -> None:
    world.payments.control(created_status="pending")

    def opened() -> Shop:
        shop = Shop(tmp_path / "ledger.db", world, clock=clock)
        shop.capture_payment.accepts = ("succeeded", "pending")
        shop.capture_payment.verify_within_s = 3600
        return shop

    first = opened()
    async with first.app:
        with pytest.raises(OutcomeUnknown):
            async with first.app.run("order", event="order:1", wait_s=0) as run:
                await run.do(first.capture_payment, order="1", amount=PRICE)
        [row] = first.app.ledger.unresolved()
        assert row.resource is not None
        assert row.resource.startswith("ch_")
    second = opened()
    async with second.app:
        clock.move(60_000)
        await second.app.recover()
        with pytest.raises(OutcomeUnknown):
            async with second.app.run("order", event="order:1", wait_s=0) as run:
                await run.do(second.capture_payment, order="1", amount=PRICE)
    assert len(world.payments.arrivals(method="POST")) == 1


@pytest.mark.requirement("F13", "R18", "R35")
async def test_a_wave_of_failures_comes_back_spread_out_and_never_more_at_once_than_declared(tmp_path: Path) -> None:
    app, inside, most, wave = Amends(tmp_path / "ledger.db"), 0, 0, 300

    @app.effect(
        "ping",
        recovery="irreversible",
        target="host:{host}",
        owner="us",
        lookup="escalate",
        max_in_flight=7,
        retry=Retry(attempts=3, first_delay_s=600.0, delay_s_max=900.0),
    )
    async def ping(call: Call, *, host: str) -> Receipt:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0)
        inside -= 1
        raise NotSent("the network is down")

    async with app:
        async with app.run("wave", event="e:1", wait_s=0) as run:
            told = await asyncio.gather(*[run.do(ping, host=str(n)) for n in range(wave)], return_exceptions=True)
        due = [operation.wake_at or 0 for operation in run.state.operations.values()]
    assert all(isinstance(each, OutcomeUnknown | NotCommitted) for each in told)
    assert most == 7
    spread = max(due) - min(due)
    assert spread > 60_000, f"{wave} retries fall within {spread} ms"
    fullest = max(Counter(each // 10_000 for each in due).values())
    assert fullest < wave / 4, f"{fullest} of {wave} come back within ten seconds"


@pytest.mark.requirement("F15", "R4", "R14")
@pytest.mark.parametrize("bad", [0, 2, 4])
async def test_one_refused_recipient_takes_no_other_mail_back_and_sends_none_twice(
    tmp_path: Path, world: World, bad: int
) -> None:
    """One operation a recipient: each is recorded right after its effect."""
    app = Amends(tmp_path / "ledger.db")
    relay = SmtpClient(*world.mail.smtp_address, domain=MAIL_DOMAIN)

    @app.effect("mail", recovery="irreversible", target="mail:{to}", owner="us", lookup="escalate")
    async def mail(call: Call, *, to: str) -> Receipt:
        if to.startswith("bad"):
            raise Rejected("no such mailbox", status=550)
        sent = await relay.send(call, Mail(sender="a@b.invalid", to=to, subject="hello", text="hello"))
        return Receipt(resource=sent.message_id, correlation=key_of(sent.message_id))

    everybody = [f"{'bad' if n == bad else 'good'}{n}@b.invalid" for n in range(5)]
    async with app:
        for _ in range(3):
            async with app.run("letter", event="letter:1") as run:
                told = [await one(run.do(mail, to=to)) for to in everybody]
            assert [isinstance(each, NotCommitted) for each in told] == [n == bad for n in range(5)]
    assert world.mail.effects()["messages"] == 4


async def one(doing: Any) -> object:
    try:
        return await doing
    except NotCommitted as error:
        return error


@pytest.mark.requirement("B13", "R11", "R25", "R52")
def test_an_attempt_without_an_end_shows_and_says_whom_it_waits_for(tmp_path: Path, world: World) -> None:
    command = [sys.executable, str(WORKER), str(tmp_path), str(world.directory)]
    subprocess.run([*command, "call.after", str(int(signal.SIGKILL))], timeout=60, check=False, capture_output=True)
    shown = amends("pending", "--ledger", str(tmp_path / "ledger.db"), code=1)
    [waiting] = [json.loads(line) for line in shown.splitlines()]
    assert waiting["action"] == "capture_payment"
    assert waiting["waits_for"] in ("call", "recovery")


@pytest.mark.requirement("case-G11", "R13", "R14")
async def test_every_effect_says_who_did_it_in_which_run_with_which_tool_and_attempt(
    tmp_path: Path, shop: Shop
) -> None:
    async with shop.app, shop.app.run("order", event="order:1", principal="agent:7", reason="asked by phone") as run:
        made = await run.do(shop.capture_payment, order="1", amount=PRICE)
    text = amends("show", made.resource, "--ledger", str(tmp_path / "ledger.db"))
    for fact in (made.resource, run.id, "agent:7", "capture_payment", '"attempt"', made.correlation):
        assert str(fact) in text


@pytest.mark.requirement("case-G11", "R21")
async def test_a_record_that_somebody_else_made_under_our_key_is_not_ours(
    tmp_path: Path, world: World, clock: MovedClock
) -> None:
    shop = Shop(tmp_path / "ledger.db", world, clock=clock)
    shop.capture_payment.contract = PAYMENTS.with_(creator="acct_ours", lookup_lag_s=0.0)
    lost, find = shop.capture_payment.function, shop.capture_payment.lookup_function
    assert find is not None

    async def theirs(call: Call) -> Observation:
        found = await find(call)
        assert isinstance(found, Found)
        return Found(
            *[Receipt(**{**match.to_json(), "amount": PRICE, "creator": "acct_theirs"}) for match in found.matches]
        )

    async def losing(call: Call, **arguments: Any) -> Receipt:
        await lost(call, **arguments)
        raise Ambiguous("lost")

    shop.capture_payment.lookup_function, shop.capture_payment.function = theirs, losing
    async with shop.app:
        with pytest.raises(VerificationFailed, match="found_not_as_expected"):
            async with shop.app.run("order", event="order:1") as run:
                await run.do(shop.capture_payment, order="1", amount=PRICE)
    assert run.outcome() == "failed_reconciliation_required"


@pytest.mark.requirement("case-G12", "R14")
async def test_the_ledger_shows_that_something_was_not_done(tmp_path: Path, shop: Shop) -> None:
    async with shop.app, shop.app.run("order", event="order:1") as run:
        await run.do(shop.capture_payment, order="1", amount=PRICE)
    ledger = str(tmp_path / "ledger.db")
    amends("show", "ch_99999999", "--ledger", ledger, code=1)
    amends("doctor", "--rebuild-check", "--ledger", ledger)


def amends(*arguments: str, code: int = 0) -> str:
    """The command line's JSON; it ended with ``code``."""
    command = [sys.executable, "-m", "amends", *arguments, "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == code, (ran.returncode, ran.stdout, ran.stderr)
    return ran.stdout


@pytest.mark.requirement("B16", "R8", "R14")
async def test_a_ledger_that_fails_during_recovery_leaves_nothing_pending_for_ever(
    tmp_path: Path, world: World, clock: MovedClock
) -> None:
    """Each commit of the recovery fails once; a later sweep picks everything up again."""
    world.payments.fault("drop_response", times=6)
    world.payments.control(lookup_down=True)
    first = Shop(tmp_path / "ledger.db", world, clock=clock)
    async with first.app:
        for n in range(6):
            with pytest.raises(OutcomeUnknown):
                async with first.app.run("order", event=f"order:{n}", wait_s=0) as run:
                    await run.do(first.capture_payment, order=str(n), amount=PRICE)
    world.payments.control(lookup_down=False)
    clock.move(60_000)
    failures = iter(range(4))

    def fail(point: str) -> None:
        if point == "ledger.before_commit" and next(failures, None) is not None:
            raise LedgerUnavailable("the disk is away")

    second = Shop(tmp_path / "ledger.db", world, clock=clock)
    ledger_points.hook = fail
    try:
        async with second.app:
            for _ in range(12):
                with contextlib.suppress(LedgerUnavailable):
                    await second.app.recover()
                clock.move(1_000_000)
            states = [row.state for row in second.app.ledger.unresolved()]
    finally:
        ledger_points.hook = None
    assert states == []
    assert world.payments.effects()["charges"] == 6


@pytest.mark.requirement("B17", "R12")
async def test_two_incarnations_of_one_worker_have_different_names_and_strand_nothing(
    tmp_path: Path, world: World, clock: MovedClock
) -> None:
    old, new = (Shop(tmp_path / "ledger.db", world, clock=clock) for _ in range(2))
    async with new.app:
        async with old.app, old.app.run("order", event="order:1") as run:
            await run.propose(old.capture_payment, order="1", amount=PRICE)
        async with new.app.run("order", event="order:1") as run:
            await run.do(new.capture_payment, order="1", amount=PRICE)
        entries = [json.loads(entry.body) for entry in new.app.ledger.load(run.id)]
    workers = {json.dumps(entry.get("worker", entry)) for entry in entries}
    assert len(workers) >= 2
    assert world.payments.effects()["charges"] == 1


# --- canaries ---------------------------------------------------------------------------------------------

WHEN = datetime(2026, 3, 29, 1, 30, 15, 123456, tzinfo=UTC)
CANARIES: dict[str, Any] = {
    "text": "sk_live_canary_4711",
    "lines": "first canary line\nsecond canary line",
    "instant": WHEN,
    "day": date(1961, 7, 14),
    "id": UUID("8c5f2a52-9d0a-4a71-b1f7-90e7c1d8aa01"),
    "bytes": b"canary\x00bytes",
    "number": 47114711471147,
    "decimal": Decimal("12345.678901"),
    "money": Money(123456789, "USD"),
    "span": timedelta(seconds=987654),
    "nested": {"card": {"number": "4111-canary-1111"}, "codes": ["canary-one", "canary-two"]},
}
SPELLINGS: dict[str, list[str]] = {
    "text": ["sk_live_canary_4711"],
    "lines": ["first canary line", "second canary line"],
    "instant": [WHEN.isoformat(), str(WHEN), "2026-03-29T01:30:15", "2026-03-29 01:30:15"],
    "day": ["1961-07-14"],
    "id": [str(CANARIES["id"]), CANARIES["id"].hex],
    "bytes": ["canary\\x00bytes", b"canary\x00bytes".hex(), "Y2FuYXJ5AGJ5dGVz"],
    "number": ["47114711471147", f"{47114711471147:x}"],
    "decimal": ["12345.678901"],
    "money": ["123456789", "1234567.89"],
    "span": ["987654"],
    "nested": ["4111-canary-1111", "canary-one", "canary-two"],
}


@pytest.mark.requirement("G06", "R15", "G12")
@pytest.mark.parametrize("kind", CANARIES)
@pytest.mark.parametrize("where", ["receipt", "refusal", "exception", "lookup", "verification"])
async def test_a_canary_is_nowhere_but_in_the_process_that_uses_it(
    tmp_path: Path, kind: str, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    app = Amends(tmp_path / "ledger.db")
    said = " ".join([repr(CANARIES[kind]), str(CANARIES[kind]), *SPELLINGS[kind]])

    @app.effect(
        "tell",
        recovery="irreversible",
        target="thing:{name}",
        owner="us",
        sensitive=["secret"],
        lookups=1,
        destination=Contract(name="place", lookup=Lookup.STRONG),
    )
    async def tell(call: Call, *, name: str, secret: Any) -> Receipt:
        assert secret == CANARIES[kind]
        if where == "refusal":
            raise Rejected(f"refused: {said}", code=said)
        if where in ("exception", "lookup"):
            raise ValueError(said)
        detail = {"said": said, said[:40]: [said]} if where == "receipt" else None
        return Receipt(resource="r1", correlation=call.key, detail=detail)

    async def find(call: Call) -> Observation:
        if where == "lookup":
            raise Ambiguous(said)
        return Absent(complete=False, read=said[:500])

    async def verify(call: Call, receipt: Receipt) -> Verification:
        if where == "verification":
            raise ValueError(said)
        raise Ambiguous(said)

    tell.lookup(find)
    if where == "verification":
        tell.verify(verify)
        tell.verify_within_s = 0.001
    told = ""
    async with app:
        try:
            async with app.run("job", event="e:1", wait_s=0) as run:
                await run.do(tell, name="a", secret=CANARIES[kind])
        except AmendsError as error:
            told = f"{error!r} {error}"
    shown = amends("show", run.id, "--ledger", str(tmp_path / "ledger.db"))
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("ledger.db*") if path.suffix != ".key")
    for spelling in SPELLINGS[kind]:
        for place, text in (("error", told), ("log", caplog.text), ("show", shown)):
            assert spelling not in text, (place, spelling)
        assert spelling.encode() not in stored, ("ledger", spelling)
