"""``runs``, ``show``, ``why`` and ``pending`` on a ledger that the shop left."""

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from commanding import ORDERS, call, on_a_terminal, rest_slow, sell

from amends.cli import pending, runs, show, why
from amends.core.states import State

ESCAPE = "\x1b"


def records(place: Path, *arguments: str) -> list[dict[str, Any]]:
    ran = call(*arguments, "--ledger", str(place / "ledger.db"), "--json")
    assert ran.err == ""
    return [json.loads(line) for line in ran.out.splitlines()]


def test_runs_are_listed_newest_first_with_their_endings_and_operations(sold: Path) -> None:
    found = records(sold, "runs")
    assert [each["event"] for each in found] == [f"order:{order}" for order in ("killed", *reversed(ORDERS))]
    endings = {each["event"].removeprefix("order:"): each["ending"] for each in found}
    assert endings == {
        "ok": "completed",
        "declined": "failed_clean",
        "lost": "completed",
        "several": "failed_reconciliation_required",
        "unsure": "waiting",
        "reversed": "failed_reconciliation_required",
        "unlooked": "unknown",
        "killed": "waiting",
    }
    assert found[-1]["operations"] == {"verified": 1}
    assert all(list(each) == list(runs.KEYS) for each in found)


def test_runs_are_chosen_by_ending_and_tenant(sold: Path) -> None:
    assert {each["event"] for each in records(sold, "runs", "--ending", "waiting")} == {"order:unsure", "order:killed"}
    assert len(records(sold, "runs", "--tenant", "acme")) == len(ORDERS) + 1
    assert records(sold, "runs", "--tenant", "other") == []
    refused = call("runs", "--ending", "fine", "--ledger", str(sold / "ledger.db"))
    assert refused.code == 2
    assert "name one of completed" in refused.err


def test_pages_follow_on_from_each_other_and_lose_nothing(sold: Path) -> None:
    paged: list[str] = []
    page = records(sold, "runs", "--limit", "3")
    while page:
        paged += [each["run"] for each in page]
        page = records(sold, "runs", "--limit", "3", "--before", paged[-1])
    assert paged == [each["run"] for each in records(sold, "runs")]
    unknown = call("runs", "--before", "run_x", "--ledger", str(sold / "ledger.db"))
    assert (unknown.code, "there is no run 'run_x'" in unknown.err) == (1, True)


@pytest.mark.requirement("R13")
def test_one_operation_is_found_by_id_key_target_resource_and_run(sold: Path) -> None:
    [each] = records(sold, "show", "order:reversed")
    assert list(each) == list(show.KEYS)
    for name in ("operation", "key", "run"):
        assert records(sold, "show", each[name]) == [each]
    assert each["operation"] in {found["operation"] for found in records(sold, "show", "ch_1")}


def in_tenants(place: Path, *tenants: str) -> None:
    """One run of the event ``ticket:4711`` in each of ``tenants``."""
    import asyncio

    from amends import Amends, Call, Receipt

    app = Amends(place / "ledger.db")

    @app.effect("greet", recovery="irreversible", target="person:{name}", owner="us", lookup="escalate")
    async def greet(call: Call, *, name: str) -> Receipt:
        return Receipt(resource=f"greeting_{name}")

    async def main() -> None:
        async with app:
            for tenant in tenants:
                async with app.run("greeting", event="ticket:4711", tenant=tenant) as run:
                    await run.do(greet, name=tenant)
                    await run.do(greet, name="everybody")

    asyncio.run(main())


@pytest.mark.requirement("R52")
def test_a_run_is_found_by_its_business_event(tmp_path: Path) -> None:
    in_tenants(tmp_path, "acme", "zenith", "default")
    found = records(tmp_path, "runs", "--event", "ticket:4711")
    assert [each["tenant"] for each in found] == ["default", "zenith", "acme"]
    assert [each["tenant"] for each in records(tmp_path, "runs", "--event", "ticket:4711", "--tenant", "acme")] == [
        "acme"
    ]
    for other in ("ticket:471", "ticket:47111", "TICKET:4711", "ticket:%", "x" * 5_000):
        assert records(tmp_path, "runs", "--event", other) == []
    for command in ("show", "why"):
        told = records(tmp_path, command, "ticket:4711", "--tenant", "zenith")
        assert {each["run"] for each in told} == {found[1]["run"]}
        assert len({each["operation"] for each in told} - {""}) == 2, "an event means every operation of its run"
        every = records(tmp_path, command, "ticket:4711")
        assert {each["run"] for each in every} == {each["run"] for each in found}
        said = call(command, "ticket:4711", "--ledger", str(tmp_path / "ledger.db")).out
        assert said.startswith("'ticket:4711' is in 3 runs\nRUN ")
        assert said.count("  ticket:4711") >= 3
        one = call(command, "ticket:4711", "--tenant", "acme", "--ledger", str(tmp_path / "ledger.db")).out
        assert "is in" not in one.splitlines()[0]
    nobody = call("why", "ticket:4711", "--tenant", "nobody", "--ledger", str(tmp_path / "ledger.db"))
    assert (nobody.code, "nothing of tenant 'nobody'" in nobody.err) == (1, True)


@pytest.mark.requirement("R15", "R52")
def test_a_run_whose_event_was_erased_is_still_found_by_who_knows_event_and_tenant(tmp_path: Path) -> None:
    import asyncio

    from amends.ledger.sqlite import SqliteLedger

    in_tenants(tmp_path, "acme", "default")
    runs_of = {each["tenant"]: each["run"] for each in records(tmp_path, "runs", "--event", "ticket:4711")}

    async def erase() -> None:
        ledger = SqliteLedger(tmp_path / "ledger.db")
        await ledger.open()
        for run in runs_of.values():
            await ledger.erase(run)
        await ledger.close()

    asyncio.run(erase())
    [each] = records(tmp_path, "runs", "--event", "ticket:4711", "--tenant", "acme")
    assert (each["run"], each["event"]) == (runs_of["acme"], None)
    assert {each["run"] for each in records(tmp_path, "why", "ticket:4711")} == {runs_of["default"]}


@pytest.mark.requirement("R13", "R14")
def test_a_record_shows_attempts_lookups_verification_receipt_and_what_is_owed(sold: Path) -> None:
    [each] = records(sold, "show", "order:lost")
    [attempt] = each["attempts"]
    assert (attempt["end"], attempt["reason"], attempt["attempt"]) == ("unknown", "unclassified", 1)
    assert attempt["claimed_at"] <= attempt["ended_at"] < attempt["budget_ends_at"]
    assert [(look["pass"], look["found"]) for look in each["lookups"]] == [(1, "found")]
    verified = [(check["result"], check.get("by")) for check in each["verification"]]
    assert verified == [("started", None), ("verified", "read")], "a read is counted before its code runs"
    assert (each["receipt"]["resource"], each["resource"]) == ("ch_1", "ch_1")
    assert (each["state"], each["owed"], each["waits_for"]) == ("verified", [], "nobody")
    assert each["arguments"]["note"] == "hello"


def test_a_record_in_words_shows_money_as_money_and_foreign_text_escaped(sold: Path) -> None:
    said = call("show", "order:declined", "--ledger", str(sold / "ledger.db"))
    assert said.code == 0
    assert "amount  USD 85.00" in said.out
    assert r"the card was declined \u{1b}[31m[red]now[/red]\u{202e}" in said.out
    assert ESCAPE not in said.out
    assert "\u202e" not in said.out


@pytest.mark.parametrize("command", ["show", "why"])
def test_what_is_not_there_is_answered_with_no(sold: Path, command: str) -> None:
    said = call(command, "op_nothing\x1b[31m", "--ledger", str(sold / "ledger.db"))
    assert (said.code, said.out) == (1, "")
    assert "nothing in" in said.err
    assert ESCAPE not in said.err


def test_pending_says_what_waits_for_whom_the_most_urgent_first(sold: Path) -> None:
    found = records(sold, "pending")
    assert [(each["target"], each["waits_for"]) for each in found][:4] == [
        ("order:several", "person"),
        ("order:reversed", "person"),
        ("parcel:unlooked", "person"),
        ("order:unsure", "recovery"),
    ]
    assert found[4]["target"] == "order:killed"
    assert all(list(each) == list(pending.KEYS) for each in found)
    assert found[2]["owner"] == "dispatch"
    assert found[3]["next_look_at"] > found[3]["since"]


@pytest.mark.parametrize(
    ("orders", "code"),
    rest_slow(
        [(("reversed", "unsure"), 5), ((), 0), (("ok", "lost", "declined"), 0), (("reversed",), 4), (("unsure",), 5)]
    ),
)
def test_pending_leaves_with_the_least_settled(tmp_path: Path, orders: tuple[str, ...], code: int) -> None:
    assert sell(tmp_path, *orders) == 0
    said = call("pending", "--ledger", str(tmp_path / "ledger.db"))
    assert said.code == code, said.out + said.err
    assert (said.out == "nothing is pending\n") == (code == 0)


def test_why_ends_with_where_it_stands_and_who_must_act(sold: Path) -> None:
    story = records(sold, "why", "parcel:unlooked")
    assert all(list(each) == list(why.KEYS) for each in story)
    assert [each["record"] for each in story][-2:] == ["standing", "ending"]
    assert story[-2]["owner"] == "dispatch"
    assert story[-2]["situation"] == "reconciliation_never_ran"
    assert {each["state"] for each in story if each["operation"]} <= {state.value for state in State}


def test_in_a_pipe_nothing_is_coloured_cut_or_folded(sold: Path) -> None:
    ids = [each["run"] for each in records(sold, "runs")]
    said = call("runs", "--ledger", str(sold / "ledger.db"), FORCE_COLOR="1", TERM="xterm")
    assert ESCAPE not in said.out
    lines = said.out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ids
    assert max(map(len, lines)) > 80


def test_on_a_narrow_terminal_ids_stay_whole_and_markup_is_not_obeyed(sold: Path) -> None:
    ids = [each["run"] for each in records(sold, "runs")]
    said = on_a_terminal("runs", "--ledger", str(sold / "ledger.db"), columns=60)
    assert ESCAPE in said.out
    assert all(run in said.out for run in ids)
    shown = on_a_terminal("show", "order:declined", "--ledger", str(sold / "ledger.db"))
    assert "[red]now[/red]" in re.sub(r"\x1b\[[0-9;]*m|\s", "", shown.out)
    assert "\x1b[31m" not in shown.out


def test_a_ledger_is_named_by_option_url_or_environment(sold: Path) -> None:
    path = str(sold / "ledger.db")
    by_option = call("runs", "--ledger", path).out
    assert call("runs", "--ledger", f"sqlite://{path}").out == by_option
    assert call("runs", AMENDS_LEDGER=path).out == by_option
    assert by_option


@pytest.mark.parametrize("locale", ["C", "POSIX"])
def test_text_the_terminal_cannot_encode_is_escaped_and_does_not_fail(sold: Path, locale: str) -> None:
    encoding = {"LC_ALL": locale, "PYTHONIOENCODING": "ascii"}
    assert call("show", "order:lost", "--ledger", str(sold / "ledger.db"), **encoding).code == 0


def test_a_reading_command_changes_and_makes_nothing(shop: Path) -> None:
    before = {entry.name: (shop / entry.name).read_bytes() for entry in os.scandir(shop)}
    for command in (
        ["runs"],
        ["show", "order:lost"],
        ["why", "order:unsure"],
        ["pending"],
        ["doctor", "--rebuild-check"],
    ):
        call(*command, "--ledger", str(shop / "ledger.db"))
    after = {entry.name: (shop / entry.name).read_bytes() for entry in os.scandir(shop)}
    for name in ("ledger.db", "made"):
        assert after[name] == before[name]
    assert after.get("ledger.db-wal", b"") == before.get("ledger.db-wal", b"")


@pytest.mark.requirement("R25", "R36", "R52")
def test_everything_pending_says_why_also_after_a_kill_and_what_a_person_can_do(sold: Path) -> None:
    found = records(sold, "pending")
    why = {each["target"]: each["because"] for each in found}
    assert all(why.values())
    assert why["order:killed"] == "attempt 1 is claimed and has no recorded end"
    assert why["order:unsure"] == 'the lookup could not tell ("the index is being rebuilt")'
    assert all(each["can_be_done"] for each in found if each["waits_for"] == "person")


def left(ledger: Path) -> None:
    """Runs that are open although none of their operations is."""
    from amends import Amends, Call, Conflict, Contract, Failed, Lookup, Receipt

    app = Amends(ledger)

    @app.effect(
        "charge",
        recovery="compensatable",
        target="order:{order}",
        owner="billing",
        lookup="escalate",
        destination=Contract(name="bank", lookup=Lookup.STRONG),
    )
    async def charge(call: Call, *, order: str, amount: int = 1) -> Receipt:
        return Receipt(resource="ch_1", correlation=call.key)

    async def end_state(call: Call, run: object) -> Failed:
        return Failed("the parcel is not in the list")

    app.operation_type("audited", end_state=end_state)

    async def program() -> None:
        async with app:
            async with app.run("audited", event="e:audited") as run:
                await run.do(charge, order="audited")
            with pytest.raises(ZeroDivisionError):
                async with app.run("sale", event="e:raised") as run:
                    await run.do(charge, order="raised")
                    raise ZeroDivisionError
            for _ in range(2):
                with pytest.raises(Conflict):
                    async with app.run("sale", event="e:conflict") as run:
                        await run.do(charge, order="conflict")
                        await run.do(charge, order="conflict", amount=2)
            async with app.run("sale", event="e:done") as run:
                await run.do(charge, order="done")
            with pytest.raises(Conflict):
                async with app.run("sale", event="e:done") as run:
                    await run.do(charge, order="done", amount=2)

    asyncio.run(program())


@pytest.mark.requirement("R25", "R36", "G7")
def test_a_run_that_is_open_though_its_operations_are_settled_is_pending_and_says_why(tmp_path: Path) -> None:
    left(tmp_path / "ledger.db")
    found = {each["target"]: each for each in records(tmp_path, "pending")}
    assert set(found) == {"e:audited", "e:raised", "e:conflict"}
    assert "the parcel is not in the list" in found["e:audited"]["because"]
    assert (
        "its program left it with an exception, and what it had done stands: charge op_" in found["e:raised"]["because"]
    )
    assert {each["reason"] for each in found.values()} == {"end_state", "effects_stand"}
    assert all(each["state"] == "failed_reconciliation_required" for each in found.values())
    for each in found.values():
        assert each["because"] in records(tmp_path, "why", each["run"])[-1]["says"]
    said = call("pending", "--ledger", str(tmp_path / "ledger.db"))
    assert said.code == 4
    assert "the parcel is not in the list" in said.out


@pytest.mark.requirement("R36", "R5", "G7")
def test_a_refused_request_for_something_else_leaves_a_completed_run_completed(tmp_path: Path) -> None:
    left(tmp_path / "ledger.db")
    endings = {each["event"]: each["ending"] for each in records(tmp_path, "runs")}
    assert endings["e:done"] == "completed"
