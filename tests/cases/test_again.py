"""Areas A, C and H: what runs again. The same event is one run, the same wish one effect; a deliberate one acts."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amends.core.money import Money
from amends.demo.clock import MovedClock
from amends.demo.shop import PAYMENTS, Shop
from amends.errors import Conflict, OutcomeUnknown
from amends.service import points
from amends.testing.rehearsal.world import World

HOUR_MS = 3_600_000
PRICE = Money(8500, "USD")
LOSSES = ["drop_response", "cut", "duplicate", "late", "drop_request", "refuse"]
"""Ways in which a request or its answer is lost on the way; after each the destination decides what happened."""

WORKER = Path(__file__).parent / "dying.py"
pytestmark = pytest.mark.slow


def charges(world: World) -> int:
    return world.payments.effects()["charges"]


def posts(world: World) -> int:
    return len(world.payments.arrivals(method="POST"))


async def charge(shop: Shop, event: str = "order:1", *, amount: Money = PRICE, again: str = "", **facts: Any) -> str:
    async with shop.app.run("order", event=event, wait_s=60, **facts) as run:
        return (await run.do(shop.capture_payment, again=again, order="1", amount=amount)).resource


@pytest.mark.requirement("A01", "H09", "R3", "R11", "R21")
@pytest.mark.parametrize("fault", LOSSES)
async def test_a_lost_answer_and_three_retries_of_the_task_make_one_charge(
    shop: Shop, world: World, fault: str
) -> None:
    options = {"delay_ms": 1} if fault == "late" else {}
    world.payments.fault(fault, **options)
    shop.capture_payment.execution_timeout_s = 5.0
    async with shop.app:
        told = {await charge(shop) for _ in range(3)}
    assert len(told) == 1
    assert charges(world) == 1


@pytest.mark.requirement("A01", "B20", "E15", "H09", "R8", "R11")
@pytest.mark.parametrize("ends", [signal.SIGKILL, signal.SIGTERM], ids=lambda each: each.name)
@pytest.mark.parametrize("where", ["claim.after", "call.before_send", "call.after", "result.after"])
def test_a_worker_that_ends_around_its_call_is_finished_by_the_next_one(
    tmp_path: Path, world: World, where: str, ends: signal.Signals
) -> None:
    def worker(*more: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, str(WORKER), str(tmp_path), str(world.directory), *more]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert worker(where, str(int(ends))).returncode == -int(ends)
    again = worker()
    assert again.stdout.split() == ["completed"], again.stderr
    assert charges(world) == 1


@pytest.mark.requirement("A03", "C19", "R3", "R12")
async def test_a_job_that_is_kicked_off_twice_by_two_crews_charges_once(
    tmp_path: Path, world: World, clock: MovedClock
) -> None:
    crews = [Shop(tmp_path / "ledger.db", world, clock=clock) for _ in range(4)]
    for crew in crews:
        await crew.app.start()
    told = await asyncio.gather(*[charge(crew, principal=f"crew:{n}") for n, crew in enumerate(crews)])
    for crew in crews:
        await crew.app.close()
    assert len(set(told)) == 1
    assert charges(world) == 1


@pytest.mark.requirement("A03", "A16", "C08", "R4")
async def test_another_event_or_another_occurrence_is_another_charge(shop: Shop, world: World) -> None:
    async with shop.app:
        told = [await charge(shop), await charge(shop, "order:2"), await charge(shop, again="2")]
        assert await charge(shop, again="2") == told[2]
    assert len(set(told)) == 3
    assert charges(world) == 3


@pytest.mark.requirement("A03", "R6")
async def test_two_runs_of_one_intent_meet_in_one_operation(shop: Shop, world: World) -> None:
    async with shop.app:
        async with shop.app.run("order", event="ticket:1") as first:
            one = await first.do(shop.capture_payment, order="1", amount=PRICE)
        two = await charge(shop, "mail:77", intent=first.intent)
    assert one.resource == two
    assert charges(world) == 1


FORGETFUL: dict[str, Callable[[], dict[str, Any]]] = {
    "another reason": lambda: {"reason": "the customer wrote again, quite upset"},
    "another agent": lambda: {"principal": "agent:second"},
    "a reason that says again": lambda: {"reason": "again, on purpose, occurrence 2"},
}


@pytest.mark.requirement("A15", "R6")
@pytest.mark.parametrize("words", FORGETFUL)
async def test_an_agent_that_forgot_gets_the_recorded_result_whatever_it_says(
    tmp_path: Path, world: World, clock: MovedClock, words: str
) -> None:
    first = Shop(tmp_path / "ledger.db", world, clock=clock)
    async with first.app:
        made = await charge(first, reason="shipment lost")
    second = Shop(tmp_path / "ledger.db", world, clock=clock)
    async with second.app:
        assert await charge(second, **FORGETFUL[words]()) == made
    assert posts(world) == 1


@pytest.mark.requirement("A15", "R5", "R6")
@pytest.mark.parametrize("amount", [Money(8501, "USD"), Money(8500, "EUR"), Money(1, "USD")])
async def test_an_agent_that_asks_for_something_else_under_one_key_is_shown_both(
    shop: Shop, world: World, amount: Money
) -> None:
    async with shop.app:
        await charge(shop)
        with pytest.raises(Conflict) as conflict:
            await charge(shop, amount=amount)
    assert conflict.value.recorded == {"order": "1", "amount": PRICE}
    assert conflict.value.requested == {"order": "1", "amount": amount}
    assert posts(world) == 1


@pytest.mark.requirement("A20", "E07", "R21")
@pytest.mark.parametrize("fault", LOSSES)
async def test_before_anything_is_placed_again_it_is_looked_up_by_our_reference(
    shop: Shop, world: World, clock: MovedClock, fault: str
) -> None:
    """A carrier knows no keys: placing again would ship twice."""
    world.carrier.fault(fault, **({"delay_ms": 1} if fault == "late" else {}))
    async with shop.app:
        run = asyncio.ensure_future(_ship(shop))
        while not run.done():  # the bound on late arrival passes for the shop, whose clock moves
            clock.move(20_000)
            await asyncio.wait({run}, timeout=0.2)
        await run if fault != "duplicate" else asyncio.gather(run, return_exceptions=True)
    shipped = world.carrier.effects()["shipments"]
    assert shipped == (2 if fault == "duplicate" else 1), "a duplicated packet is not ours to prevent, only to tell"
    log = world.carrier.proxy_log()
    sent = [entry["method"] for entry in log]
    if sent.count("POST") > 1:
        first, second = [place for place, method in enumerate(sent) if method == "POST"][:2]
        refused = fault == "refuse"  # no byte of it was read: nothing could have been placed
        assert refused or "GET" in sent[first:second]


async def _ship(shop: Shop) -> str:
    async with shop.app.run("order", event="order:1", wait_s=600) as run:
        return (await run.do(shop.create_shipment, order="1", reservation="r1")).resource


@pytest.mark.requirement("C01", "R13", "R23")
async def test_a_day_later_our_own_record_answers_and_the_forgotten_key_is_not_tried(
    shop: Shop, world: World, clock: MovedClock
) -> None:
    async with shop.app:
        made = await charge(shop)
        clock.move(25 * HOUR_MS)
        world.payments.advance_clock(25 * HOUR_MS)
        assert await charge(shop) == made
    assert posts(world) == 1


@pytest.mark.requirement("C01", "C02", "R22", "R23", "G3")
@pytest.mark.parametrize("made", [True, False], ids=["it had been made", "it had never arrived"])
async def test_a_day_later_an_unknown_charge_is_looked_up_before_anything_is_sent(
    tmp_path: Path, world: World, clock: MovedClock, made: bool
) -> None:
    world.payments.fault("drop_response" if made else "drop_request")
    world.payments.control(lookup_down=True)
    first = Shop(tmp_path / "ledger.db", world, clock=clock)
    async with first.app:
        with pytest.raises(OutcomeUnknown):
            async with first.app.run("order", event="order:1", wait_s=0) as run:
                await run.do(first.capture_payment, order="1", amount=PRICE)
    clock.move(25 * HOUR_MS)
    world.payments.advance_clock(25 * HOUR_MS)
    world.payments.control(lookup_down=False)
    before = len(world.payments.proxy_log())
    second = Shop(tmp_path / "ledger.db", world, clock=clock)
    async with second.app:
        await charge(second)
    methods = [entry["method"] for entry in world.payments.proxy_log()[before:]]
    assert methods[0] == "GET"
    assert methods.count("POST") == (0 if made else 1)
    assert charges(world) == 1


@pytest.mark.requirement("C02", "R23", "G3")
@pytest.mark.parametrize(("age_s", "sent"), [(0, 2), (40, 2), (55, 1), (61, 1), (90_000, 1)])
async def test_under_a_key_older_than_its_retention_nothing_is_sent_again(
    tmp_path: Path, world: World, clock: MovedClock, age_s: int, sent: int
) -> None:
    """Retention 60 s, an attempt's budget 10 s: a repeat must end before the key does."""
    shop = Shop(tmp_path / "ledger.db", world, clock=clock)
    kept = PAYMENTS.with_(key_retention_s=60.0, late_arrival_bound_s=None, lookup_lag_s=0.0)
    shop.capture_payment.contract = kept
    world.payments.fault("drop_request")
    world.payments.control(lookup_down=True)
    async with shop.app:
        with pytest.raises(OutcomeUnknown):
            async with shop.app.run("order", event="order:1", wait_s=0) as run:
                await run.do(shop.capture_payment, order="1", amount=PRICE)
    clock.move(max(age_s, 11) * 1000)  # the attempt's own budget has to pass in any case
    world.payments.control(lookup_down=False)
    later = Shop(tmp_path / "ledger.db", world, clock=clock)
    later.capture_payment.contract = kept
    async with later.app:
        if sent == 2:
            await charge(later)
        else:
            with pytest.raises(OutcomeUnknown, match="human_required"):
                await charge(later)
    assert len([entry for entry in world.payments.proxy_log() if entry["method"] == "POST"]) == sent
    assert charges(world) == sent - 1


@pytest.mark.requirement("C06", "R13")
@pytest.mark.parametrize("fault", ["none", "drop_response"])
async def test_the_reference_that_finds_a_charge_is_in_the_first_request(shop: Shop, world: World, fault: str) -> None:
    if fault != "none":
        world.payments.fault(fault)
    async with shop.app:
        async with shop.app.run("order", event="order:1") as run:
            await run.do(shop.capture_payment, order="1", amount=PRICE)
        [operation] = run.state.operations.values()
    assert posts(world) == 1
    assert operation.receipt is not None
    assert operation.receipt["correlation"] == operation.key
    assert world.payments.arrivals()[0]["key"] == operation.key


@pytest.mark.requirement("C15", "C14", "R25")
async def test_a_request_that_the_destination_still_works_on_is_resolved_without_a_person(
    shop: Shop, world: World, clock: MovedClock
) -> None:
    world.payments.control(hold_times=1)
    shop.capture_payment.execution_timeout_s = 5.0
    async with shop.app:
        asking = asyncio.ensure_future(charge(shop))
        assert await asyncio.to_thread(world.payments.wait_held_inside) == 1
        clock.move(6_000)  # our attempt's budget is over; the destination still holds the request
        await asyncio.wait({asking}, timeout=0.3)
        await asyncio.to_thread(world.payments.release_inside)
        while not asking.done():
            clock.move(20_000)
            await asyncio.wait({asking}, timeout=0.2)
        await asking
    assert charges(world) == 1


@pytest.mark.requirement("C15", "R11", "R25")
@pytest.mark.parametrize("where", ["claim.after", "call.after"])
def test_what_a_dead_worker_held_is_free_again_without_editing_a_row(tmp_path: Path, world: World, where: str) -> None:
    command = [sys.executable, str(WORKER), str(tmp_path), str(world.directory)]
    subprocess.run([*command, where, str(int(signal.SIGKILL))], timeout=60, check=False, capture_output=True)
    again = subprocess.run(command, timeout=60, check=False, capture_output=True, text=True)
    assert again.stdout.split() == ["completed"], again.stderr
    assert charges(world) == 1


@pytest.mark.requirement("C18", "C19", "B23", "R12", "G2")
async def test_losing_the_race_for_a_key_is_no_failure_of_the_store(
    tmp_path: Path, world: World, clock: MovedClock
) -> None:
    shops = [Shop(tmp_path / "ledger.db", world, clock=clock) for _ in range(8)]
    for shop in shops:
        await shop.app.start()
    told = await asyncio.gather(*[charge(shop) for shop in shops for _ in range(5)], return_exceptions=True)
    for shop in shops:
        await shop.app.close()
    assert len(set(map(str, told))) == 1
    assert posts(world) == 1, "the claim is durable before the dispatch, so one of them sent"


@pytest.mark.requirement("B22", "R18")
async def test_a_slow_call_with_no_retries_is_sent_once(shop: Shop, world: World, clock: MovedClock) -> None:
    from amends.core.terms import Retry

    shop.capture_payment.retry = Retry(attempts=1)
    shop.capture_payment.execution_timeout_s = 5.0
    world.payments.fault("hang")
    async with shop.app:
        asking = asyncio.ensure_future(charge(shop))
        assert await asyncio.to_thread(world.payments.wait_held) == 1
        while not asking.done():
            clock.move(10_000)
            await shop.app.recover()
            await asyncio.wait({asking}, timeout=0.2)
        await asking
    assert posts(world) == charges(world) == 1
    world.payments.release()


@pytest.mark.requirement("B14", "R12", "G2")
async def test_recovery_leaves_a_call_alone_that_is_still_running(
    tmp_path: Path, world: World, clock: MovedClock
) -> None:
    shop, other = (Shop(tmp_path / "ledger.db", world, clock=clock) for _ in range(2))
    world.payments.fault("latency", hold=True)
    async with shop.app, other.app:
        asking = asyncio.ensure_future(charge(shop))
        assert await asyncio.to_thread(world.payments.wait_held) == 1
        for app in (shop.app, other.app):
            for _ in range(3):
                await app.recover()
        await asyncio.to_thread(world.payments.release)
        await asking
    assert posts(world) == 1


@pytest.mark.requirement("H10", "R19", "R25", "G7")
async def test_recovered_is_never_said_without_evidence(shop: Shop, world: World, clock: MovedClock) -> None:
    """The first try had committed; the third "succeeded". Nothing may be told until a read has shown it."""
    world.payments.fault("drop_response", times=4)
    world.payments.control(lookup_down=True)
    async with shop.app:
        with pytest.raises(OutcomeUnknown):
            async with shop.app.run("order", event="order:1", wait_s=0) as run:
                await run.do(shop.capture_payment, order="1", amount=PRICE)
        assert run.outcome() != "completed"
        world.payments.control(lookup_down=False)
        clock.move(20_000)
        await charge(shop)
        [operation] = (await _opened(shop)).operations.values()
    assert operation.receipt is not None
    assert operation.receipt["correlation"] == operation.key
    assert charges(world) == 1


async def _opened(shop: Shop) -> Any:
    async with shop.app.run("order", event="order:1") as run:
        return run.state


@pytest.fixture(autouse=True)
def _no_hook() -> Any:
    yield
    points.hook = None
