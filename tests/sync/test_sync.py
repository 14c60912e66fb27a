"""``amends.sync``: the same truth for programs that do not await. Effects are counted at the payment service."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from till import event, till

from amends import sync
from amends.errors import Conflict, OutcomeUnknown, Refused, UsageError
from amends.sync import Amends, Call, Money, NotCommitted, Receipt, Run
from amends.testing.rehearsal.world import World

AMOUNT = Money(8500, "USD")
WITHIN_S = 20


def loops() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "amends-loop"]


def test_it_has_the_same_names_and_none_is_a_coroutine() -> None:
    import amends

    assert sync.__all__ == amends.__all__
    shared = {name for name in dir(amends.Amends) if not name.startswith("_")} - {"open_run"}
    assert shared <= set(dir(sync.Amends))
    assert {name for name in dir(amends.Run) if not name.startswith("_")} <= set(dir(Run))


@pytest.mark.requirement("R3", "R4", "R12")
def test_a_plain_program_charges_once_however_often_it_runs(world: World, tmp_path: Path) -> None:
    receipts = []
    for _ in range(2):
        app, charge = till(tmp_path / "ledger.db", world.payments.url)
        with app, app.run("sale", event=event("1")) as run:
            receipts.append(run.do(charge, order="1", amount=AMOUNT))
        assert run.outcome() == "completed"
        assert loops() == []
    assert receipts[0] == receipts[1]
    assert world.payments.effects(order="1")["charges"] == 1


@pytest.mark.requirement("G3", "R21")
def test_a_lost_answer_is_found_by_a_plain_lookup(world: World, tmp_path: Path) -> None:
    world.payments.fault("drop_response", times=1, methods=["POST"])
    app, charge = till(tmp_path / "ledger.db", world.payments.url)
    with app, app.run("sale", event=event("1")) as run:
        made = run.do(charge, order="1", amount=AMOUNT)
    assert made.correlation == next(iter(run.state.operations.values())).key
    assert world.payments.effects(order="1")["charges"] == 1


@pytest.mark.requirement("R12", "G2")
def test_many_threads_share_one_application_and_one_wish_makes_one_charge(world: World, tmp_path: Path) -> None:
    app, charge = till(tmp_path / "ledger.db", world.payments.url)

    def ask(number: int) -> Receipt:
        order = str(number % 4)
        with app.run("sale", event=event(order)) as run:
            return run.do(charge, order=order, amount=AMOUNT)

    with app, ThreadPoolExecutor(16) as threads:
        receipts = list(threads.map(ask, range(40)))
    assert len({receipt.resource for receipt in receipts}) == 4
    assert world.payments.effects()["charges"] == 4


def test_threads_that_use_an_application_first_at_the_same_time_start_it_once(world: World, tmp_path: Path) -> None:
    app, charge = till(tmp_path / "ledger.db", world.payments.url)
    barrier = threading.Barrier(8)

    def ask(_: int) -> Receipt:
        barrier.wait(WITHIN_S)
        with app.run("sale", event=event("1")) as run:
            return run.do(charge, order="1", amount=AMOUNT)

    with ThreadPoolExecutor(8) as threads:
        receipts = set(threads.map(ask, range(8)))
    assert loops() == ["amends-loop"]
    app.close()
    assert len(receipts) == 1
    assert loops() == []


def test_an_ordinary_exception_closes_the_run_and_is_not_hidden(world: World, tmp_path: Path) -> None:
    app, charge = till(tmp_path / "ledger.db", world.payments.url)
    with app:
        with pytest.raises(ZeroDivisionError), app.run("sale", event=event("1")) as run:
            run.do(charge, order="1", amount=AMOUNT)
            raise ZeroDivisionError
        assert run.state.closed == "raised"


@pytest.mark.parametrize("leaving", [KeyboardInterrupt, SystemExit])
def test_an_interruption_leaves_the_run_open(world: World, tmp_path: Path, leaving: type[BaseException]) -> None:
    app, charge = till(tmp_path / "ledger.db", world.payments.url)
    with app:
        with pytest.raises(leaving), app.run("sale", event=event("1")) as run:
            run.do(charge, order="1", amount=AMOUNT)
            raise leaving
        assert run.state.closed is None
        with app.run("sale", event=event("1")) as again:
            again.do(charge, order="1", amount=AMOUNT)
    assert again.outcome() == "completed"
    assert world.payments.effects(order="1")["charges"] == 1


@pytest.mark.requirement("R11")
def test_closing_while_another_thread_waits_records_what_left_and_tells_that_thread(
    world: World, tmp_path: Path
) -> None:
    app, charge = till(tmp_path / "ledger.db", world.payments.url)
    world.payments.fault("hang", times=1, methods=["POST"])
    app.start()

    def ask() -> None:
        with app.run("sale", event=event("1")) as run:
            run.do(charge, order="1", amount=AMOUNT)

    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(ask)
        world.payments.wait_held(1)
        app.close()
        with pytest.raises(UsageError, match="was closed"):
            asked.result(WITHIN_S)
    assert states(tmp_path / "ledger.db") == {"outcome_unknown"}
    world.payments.release()
    again, charge = till(tmp_path / "ledger.db", world.payments.url)
    with again, again.run("sale", event=event("1")) as run:
        run.do(charge, order="1", amount=AMOUNT)
    assert world.payments.effects(order="1")["charges"] == 1


def states(ledger: Path) -> set[str]:
    import sqlite3

    with sqlite3.connect(ledger) as db:
        found = {str(row[0]) for row in db.execute("SELECT state FROM operations")}
    db.close()
    return found


def uses(app: Amends, run: Run, charge: object) -> list[Callable[[], object]]:
    def opened() -> None:
        with app.run("sale", event="other"):
            pass

    return [
        opened,
        app.recover,
        app.begin_recovery,
        lambda: app.evidence("op_1", Receipt(resource="r")),
        lambda: run.do(charge, order="1", amount=AMOUNT),  # type: ignore[arg-type]
        lambda: run.propose(charge, order="2", amount=AMOUNT),  # type: ignore[arg-type]
    ]


def test_use_after_close_is_refused_and_says_what_to_do(world: World, tmp_path: Path) -> None:
    app, charge = till(tmp_path / "ledger.db", world.payments.url)
    with app, app.run("sale", event=event("1")) as run:
        run.do(charge, order="1", amount=AMOUNT)
    for use in uses(app, run, charge):
        with pytest.raises(UsageError, match=r"was closed.*with app:"):
            use()
    assert loops() == []
    app.close()
    with app, app.run("sale", event=event("1")) as anew:
        anew.do(charge, order="1", amount=AMOUNT)
    assert world.payments.effects(order="1")["charges"] == 1


def test_use_from_its_own_event_loop_is_refused_instead_of_waiting_for_ever(tmp_path: Path) -> None:
    app = Amends(tmp_path / "ledger.db")
    said: list[str] = []

    @app.effect("charge", recovery="compensatable", target="order:{order}", owner="billing", lookup="escalate")
    async def charge(call: object, *, order: str) -> Receipt:
        for use in [*uses(app, run, charge), app.close, app.start]:
            try:
                use()
            except UsageError as error:
                said.append(error.message)
        return Receipt(resource="r")

    with app, app.run("sale", event="1") as run:
        run.do(charge, order="1")
    assert len(said) == 8
    assert all("its own event loop" in each for each in said)


def test_a_plain_effect_may_ask_for_another_one(tmp_path: Path) -> None:
    app = Amends(tmp_path / "ledger.db")

    @app.effect("inner", recovery="compensatable", target="order:{order}", owner="billing", lookup="escalate")
    def inner(call: Call, *, order: str) -> Receipt:
        return Receipt(resource=f"inner-{order}")

    @app.effect("outer", recovery="compensatable", target="order:{order}", owner="billing", lookup="escalate")
    def outer(call: Call, *, order: str) -> Receipt:
        return Receipt(resource="outer", state=run.do(inner, order=order).resource)

    with app, app.run("sale", event="1") as run:
        assert run.do(outer, order="1").state == "inner-1"


def test_use_after_a_fork_is_refused(tmp_path: Path) -> None:
    app = Amends(tmp_path / "ledger.db")

    @app.effect("charge", recovery="compensatable", target="order:{order}", owner="billing", lookup="escalate")
    def charge(call: Call, *, order: str) -> Receipt:
        return Receipt(resource="r")

    with app, app.run("sale", event="1") as run:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            said = []
            for use in [*uses(app, run, charge), app.close, app.start]:
                try:
                    use()
                except UsageError as error:
                    said.append("fork" in error.message)
            os.write(write, b"".join(b"1" if each else b"0" for each in said))
            os._exit(0)
        os.waitpid(child, 0)
        os.close(write)
        assert os.read(read, 100) == b"1" * 8
        os.close(read)
        run.do(charge, order="1")
    assert run.outcome() == "completed"


def test_a_start_that_fails_leaves_no_loop_behind(tmp_path: Path) -> None:
    app = Amends(tmp_path / "ledger.db")

    @app.effect("charge", recovery="compensatable", target="order:{order}", owner="")
    def charge(call: Call, *, order: str) -> Receipt:
        return Receipt(resource="r")

    with pytest.raises(UsageError, match="has no owner"), app:
        pass
    assert loops() == []


def test_errors_come_to_the_caller_as_they_are(world: World, tmp_path: Path) -> None:
    app, charge = till(tmp_path / "ledger.db", world.payments.url)
    with app, app.run("sale", event=event("1")) as run:
        run.do(charge, order="1", amount=AMOUNT)
        with pytest.raises(Conflict) as conflict:
            run.do(charge, order="1", amount=Money(1, "USD"))
        assert conflict.value.recorded == {"order": "1", "amount": AMOUNT}
        with pytest.raises(NotCommitted):
            run.do(charge, order="2", amount=Money(-5, "USD"))
        with pytest.raises(Refused):
            app.evidence(next(iter(run.state.operations)), Receipt(resource="x"))


def test_a_wish_is_recorded_and_driven_later(world: World, tmp_path: Path) -> None:
    app, charge = till(tmp_path / "ledger.db", world.payments.url)
    with app:
        with app.run("sale", event=event("1")) as run:
            operation = run.propose(charge, order="1", amount=AMOUNT)
        assert world.payments.effects(order="1")["charges"] == 0
        with app.run("sale", event=event("1")) as run:
            run.do(charge, order="1", amount=AMOUNT)
        assert list(run.state.operations) == [operation]
    assert world.payments.effects(order="1")["charges"] == 1


def test_a_thread_that_never_returns_does_not_keep_the_application(tmp_path: Path) -> None:
    app = Amends(tmp_path / "ledger.db")
    forever = threading.Event()

    @app.effect(
        "charge",
        recovery="compensatable",
        target="order:{order}",
        owner="billing",
        lookup="escalate",
        execution_timeout_s=0.05,
    )
    def charge(call: Call, *, order: str) -> Receipt:
        forever.wait(WITHIN_S)
        return Receipt(resource="r")

    with pytest.raises(OutcomeUnknown), app, app.run("sale", event="1") as run:
        run.do(charge, order="1")
    assert loops() == []
    assert states(tmp_path / "ledger.db") == {"human_required"}
    forever.set()
