"""What every ledger does: one suite over all of them."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from building import Run, claimed, life, opened, proposed, responded

from amends.core.chain import GENESIS, unseal
from amends.core.identity import idempotency_key, operation_id
from amends.core.model import Event, RunState, fold
from amends.core.states import SETTLED, Kind, State
from amends.errors import LedgerIntegrityError, UsageError
from amends.ledger.memory import BEFORE_CALL
from amends.ledger.sql import QUERIES
from amends.ledger.sqlite import SqliteLedger
from amends.ports.ledger import Applied, NotApplied, Refusal

With = Callable[[Callable[[Any], Awaitable[None]]], None]
CONFLICT = NotApplied(Refusal.VERSION_CONFLICT)


@pytest.mark.requirement("R8", "R14", "G9")
def test_appended_entries_load_and_fold_to_the_rows(with_ledger: With) -> None:
    async def body(ledger: Any) -> None:
        appends = life("run_1", "op_1")
        for append in appends:
            assert await ledger.append(append) == Applied()
        entries = ledger.load("run_1")
        assert entries == [append.entry for append in appends]
        state, head = RunState(id="run_1"), GENESIS
        for entry in entries:
            header, events = unseal(entry, head)
            state, head = fold(state, events, header.at_ms), entry.hash
        assert ledger.version("run_1") == state.version == 4
        assert ledger.run("run_1") == appends[-1].run
        assert ledger.operation("op_1") == appends[-1].operations[0]
        assert ledger.operation("op_1").state == state.operations["op_1"].state == "verified"
        assert ledger.counts.appends == 4

    with_ledger(body)


def test_what_is_not_known_is_empty(with_ledger: With) -> None:
    async def body(ledger: Any) -> None:
        assert ledger.load("x") == []
        assert ledger.version("x") == 0
        assert ledger.run("x") is None
        assert ledger.operation("x") is None
        assert ledger.due(10**15, limit=10) == []
        assert ledger.next_wake() is None
        assert ledger.runs() == []
        assert list(ledger.search("x")) == []
        assert list(ledger.unresolved()) == []

    with_ledger(body)


@pytest.mark.requirement("R12", "G2")
def test_of_two_appends_to_one_place_the_first_wins_and_the_other_is_not_written(with_ledger: With) -> None:
    async def body(ledger: Any) -> None:
        run = Run("run_1")
        await ledger.append(run.opened())
        one = run.peek(proposed("op_1"), append_id="one")
        two = run.peek(proposed("op_2"), append_id="two")
        assert await asyncio.gather(ledger.append(one), ledger.append(two)) == [Applied(), CONFLICT]
        assert ledger.load("run_1")[1:] == [one.entry]
        assert ledger.operation("op_2") is None
        assert ledger.run("run_1") == one.run

    with_ledger(body)


def test_an_append_beyond_the_end_is_a_version_conflict(with_ledger: With) -> None:
    async def body(ledger: Any) -> None:
        first, second, third, _ = life("run_1", "op_1")
        assert await ledger.append(second) == CONFLICT
        assert await ledger.append(first) == Applied()
        assert await ledger.append(third) == CONFLICT
        assert ledger.version("run_1") == 1

    with_ledger(body)


@pytest.mark.requirement("R8", "R14")
def test_the_same_append_id_again_is_applied_and_writes_nothing(with_ledger: With) -> None:
    async def body(ledger: Any) -> None:
        appends = life("run_1", "op_1")
        for append in appends[:2]:
            await ledger.append(append)
        before = ledger.counts
        assert await ledger.append(appends[0]) == Applied(repeated=True)
        assert await ledger.append(appends[1]) == Applied(repeated=True)
        assert ledger.counts == before
        assert len(ledger.load("run_1")) == 2

    with_ledger(body)


def test_a_repeat_in_the_same_batch_is_applied_once(with_ledger: With) -> None:
    async def body(ledger: Any) -> None:
        first = life("run_1", "op_1")[0]
        answers = await asyncio.gather(ledger.append(first), ledger.append(first))
        assert answers == [Applied(), Applied(repeated=True)]

    with_ledger(body)


@pytest.mark.requirement("R12")
def test_an_operation_that_exists_in_any_run_refuses_the_append_that_proposes_it(with_ledger: With) -> None:
    async def body(ledger: Any) -> None:
        for append in life("run_1", "op_1"):
            await ledger.append(append)
        other = Run("run_2")
        await ledger.append(other.opened())
        refused = await ledger.append(other.peek(proposed("op_1")))
        assert refused == NotApplied(Refusal.OPERATION_EXISTS, "op_1")
        assert ledger.version("run_2") == 1
        assert ledger.operation("op_1").run == "run_1"

    with_ledger(body)


@pytest.mark.requirement("R12")
def test_a_lock_is_held_until_it_is_released(with_ledger: With) -> None:
    async def body(ledger: Any) -> None:
        one, two = Run("run_1"), Run("run_2")
        for run, operation in ((one, "op_1"), (two, "op_2")):
            await ledger.append(run.opened())
            await ledger.append(run.next(proposed(operation)))
        assert await ledger.append(one.next(claimed("op_1"), acquire=(("order:1", "op_1"),))) == Applied()
        claim = two.peek(claimed("op_2"), acquire=(("free", "op_2"), ("order:1", "op_2")))
        assert await ledger.append(claim) == NotApplied(Refusal.LOCK_HELD, "op_1")
        assert ledger.version("run_2") == 2
        await ledger.append(one.next(responded("op_1"), release=("op_1",)))
        assert await ledger.append(claim) == Applied()

    with_ledger(body)


def test_a_lock_is_taken_again_by_its_holder_and_handed_over_in_one_append(with_ledger: With) -> None:
    async def body(ledger: Any) -> None:
        run = Run("run_1")
        await ledger.append(run.opened())
        await ledger.append(run.next(proposed("op_1"), acquire=(("a", "op_1"),)))
        assert await ledger.append(run.next(proposed("op_2"), acquire=(("a", "op_1"),))) == Applied()
        handed = run.next(claimed("op_1"), release=("op_1",), acquire=(("a", "op_2"),))
        assert await ledger.append(handed) == Applied()
        taken = run.peek(claimed("op_2"), acquire=(("a", "op_1"),))
        assert await ledger.append(taken) == NotApplied(Refusal.LOCK_HELD, "op_2")
        twice = run.peek(claimed("op_2"), acquire=(("b", "op_2"), ("b", "op_1")))
        assert await ledger.append(twice) == NotApplied(Refusal.LOCK_HELD, "op_2")

    with_ledger(body)


def test_of_several_refusals_the_first_in_precedence_is_given(with_ledger: With) -> None:
    async def body(ledger: Any) -> None:
        one, two = Run("run_1"), Run("run_2")
        await ledger.append(one.opened())
        await ledger.append(one.next(proposed("op_1"), acquire=(("a", "op_1"),)))
        await ledger.append(two.opened())
        everything = two.peek(proposed("op_1"), append_id="late", acquire=(("a", "op_9"),))
        assert await ledger.append(everything) == NotApplied(Refusal.OPERATION_EXISTS, "op_1")
        await ledger.append(two.next(proposed("op_2")))
        assert await ledger.append(everything) == CONFLICT

    with_ledger(body)


@pytest.mark.requirement("R8", "R12", "G2")
def test_what_was_built_on_a_refused_append_is_refused_as_a_conflict_too(with_ledger: With) -> None:
    async def body(ledger: Any) -> None:
        ours, theirs = Run("run_1"), Run("run_1")
        follower = [ours.opened(), ours.next(proposed("op_1"))]
        first = theirs.peek([opened()], append_id="theirs")
        assert await ledger.append(first) == Applied()
        onto = [GENESIS, follower[0].entry.hash]
        queued = [replace(append, previous=head) for append, head in zip(follower, onto, strict=True)]
        answers = await asyncio.gather(*map(ledger.append, queued))
        assert answers == [CONFLICT] * 2
        assert ledger.load("run_1") == [first.entry]

    with_ledger(body)


@pytest.mark.requirement("G9")
def test_an_entry_that_was_sealed_onto_something_else_is_refused(with_ledger: With) -> None:
    async def body(ledger: Any) -> None:
        run = Run("run_1")
        await ledger.append(run.opened())
        run.head = b"\x01" * 32
        with pytest.raises(LedgerIntegrityError, match="'run_1' was refused: its hash does not follow"):
            await ledger.append(run.peek(proposed("op_1")))
        assert ledger.version("run_1") == 1

    with_ledger(body)


@pytest.mark.requirement("R12", "F01")
def test_a_refused_append_does_not_disturb_its_neighbours(with_ledger: With) -> None:
    async def body(ledger: Any) -> None:
        runs = [Run(f"run_{n}") for n in range(4)]
        await asyncio.gather(*(ledger.append(run.opened()) for run in runs))
        batch = [runs[n].next(proposed("op_same" if n in {0, 2} else f"op_{n}")) for n in range(4)]
        batch.append(runs[2].next(claimed("op_same")))
        answers = await asyncio.gather(*(ledger.append(append) for append in batch))
        exists = NotApplied(Refusal.OPERATION_EXISTS, "op_same")
        assert answers == [Applied(), Applied(), exists, Applied(), CONFLICT]
        assert [ledger.version(run.id) for run in runs] == [2, 2, 1, 2]

    with_ledger(body)


def test_appends_of_one_turn_keep_their_order(with_ledger: With) -> None:
    async def body(ledger: Any) -> None:
        lives = [life(f"run_{n}", f"op_{n}") for n in range(20)]
        answers = await asyncio.gather(*(ledger.append(append) for each in lives for append in each))
        assert set(answers) == {Applied()}
        assert ledger.counts.appends == 80

    with_ledger(body)


@pytest.mark.requirement("R11", "F02")
@pytest.mark.parametrize("neighbours", [0, 3])
def test_a_cancelled_waiter_does_not_withdraw_its_append(with_ledger: With, neighbours: int) -> None:
    async def body(ledger: Any) -> None:
        waiter = asyncio.ensure_future(ledger.append(life("run_1", "op_1")[0]))
        others = [asyncio.ensure_future(ledger.append(life(f"n_{n}", "-")[0])) for n in range(neighbours)]
        await asyncio.sleep(0)
        waiter.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiter
        assert await asyncio.gather(*others) == [Applied()] * neighbours
        assert await ledger.append(life("last", "-")[0]) == Applied()
        assert ledger.version("run_1") == 1

    with_ledger(body)


def test_close_writes_what_is_queued_and_both_ends_are_idempotent(make: Callable[[], Any]) -> None:
    async def main() -> None:
        ledger = make()
        await ledger.open()
        await ledger.open()
        waiting = [asyncio.ensure_future(ledger.append(life(f"run_{n}", "-")[0])) for n in range(5)]
        await asyncio.sleep(0)
        await ledger.close()
        await ledger.close()
        assert await asyncio.gather(*waiting) == [Applied()] * 5
        with pytest.raises(UsageError, match="is not open"):
            ledger.version("run_1")
        with pytest.raises(UsageError, match="is not open"):
            await ledger.append(life("run_9", "-")[0])
        await ledger.open()
        assert [ledger.version(f"run_{n}") for n in range(5)] == [1] * 5
        await ledger.close()

    asyncio.run(main())


def test_due_runs_come_oldest_first_and_leave_when_their_wake_does(with_ledger: With) -> None:
    async def body(ledger: Any) -> None:
        runs = {name: Run(name) for name in ("late", "soon", "never")}
        for name, wake in (("late", 900), ("soon", 500), ("never", None)):
            await ledger.append(runs[name].opened())
            await ledger.append(runs[name].next(proposed(f"op_{name}")))
            await ledger.append(runs[name].next(claimed(f"op_{name}", wake_at=wake)))
        assert ledger.next_wake() == 500
        assert ledger.due(499, limit=9) == []
        assert ledger.due(900, limit=9) == [("soon", 500), ("late", 900)]
        assert ledger.due(900, limit=1) == [("soon", 500)]
        await ledger.append(runs["soon"].next(responded("op_soon")))
        assert ledger.due(900, limit=9) == [("late", 900)]
        assert ledger.next_wake() == 900

    with_ledger(body)


def test_runs_are_listed_newest_first_filtered_and_paged(with_ledger: With) -> None:
    async def body(ledger: Any) -> None:
        for n in range(5):
            run = Run(f"run_{n}", at=1000 * n, tenant="acme" if n % 2 else "other")
            await ledger.append(run.opened())
            if n < 2:
                await ledger.append(run.next([Event(Kind.RUN_ENDED, "", {"ending": "done"})]))
        ids = [row.id for row in ledger.runs()]
        assert ids == ["run_4", "run_3", "run_2", "run_1", "run_0"]
        assert [row.id for row in ledger.runs(tenant="acme")] == ["run_3", "run_1"]
        assert [row.id for row in ledger.runs(ending="done", tenant="acme")] == ["run_1"]
        page = ledger.runs(limit=2)
        assert [row.id for row in ledger.runs(limit=2, before=page[-1].opened_at)] == ["run_2", "run_1"]

    with_ledger(body)


def test_search_finds_exact_words_only(with_ledger: With) -> None:
    async def body(ledger: Any) -> None:
        for append in life("run_1", "op_1") + life("run_2", "op_2")[:2]:
            await ledger.append(append)
        found = {t: [row.id for row in ledger.search(t)] for t in ("op_1", "key-op_2", "run_1", "re_1")}
        assert found == {"op_1": ["op_1"], "key-op_2": ["op_2"], "run_1": ["op_1"], "re_1": ["op_1"]}
        assert [row.id for row in ledger.search("order:18431")] == ["op_1", "op_2"]
        assert len(ledger.search("order:18431", limit=1)) == 1
        assert list(ledger.search("order:%")) == []

    with_ledger(body)


def test_an_operation_is_found_by_its_key_alone(with_ledger: With) -> None:
    key = idempotency_key(tenant="acme", action="refund", target="order:1", lineage="int_1")
    events = proposed(operation_id(key))
    events[0] = events[0]._replace(facts={**events[0].facts, "key": key})

    async def body(ledger: Any) -> None:
        run = Run("run_1")
        await ledger.append(run.opened())
        await ledger.append(run.next(events))
        assert [row.id for row in ledger.search(key)] == [operation_id(key)]
        assert list(ledger.search(key[:-1] + "a")) == []

    with_ledger(body)


@pytest.mark.parametrize("wake_at", [9_000, None])
def test_a_call_that_is_on_its_way_is_unresolved_with_a_wake_and_without(
    with_ledger: With, wake_at: int | None
) -> None:
    async def body(ledger: Any) -> None:
        for n in range(3):
            run = Run(f"run_{n}", at=100 * (3 - n))
            for events in ([opened()], proposed(f"op_{n}"), claimed(f"op_{n}", wake_at=wake_at)):
                await ledger.append(run.next(events))
        assert [row.id for row in ledger.unresolved()] == ["op_2", "op_1", "op_0"]
        assert [row.id for row in ledger.unresolved(limit=2)] == ["op_2", "op_1"]
        await ledger.append(run.next(responded("op_2")))
        assert [row.id for row in ledger.unresolved()] == ["op_1", "op_0"]

    with_ledger(body)


def test_searches_and_lists_read_indexes_and_not_whole_tables(tmp_path: Path) -> None:
    async def body() -> list[str]:
        ledger = SqliteLedger(tmp_path / "ledger.db")
        await ledger.open()
        await ledger.close()
        with sqlite3.connect(tmp_path / "ledger.db") as db:
            asked = (("search", ("x", "", 1)), ("unresolved", (1,)), ("due", (1, 1, -1, "")), ("operation", ("x",)))
            plans = [
                row[3] for name, values in asked for row in db.execute(f"EXPLAIN QUERY PLAN {QUERIES[name]}", values)
            ]
        db.close()
        return plans

    tables = [line for line in asyncio.run(body()) if line.startswith("SCAN") and "INDEX" not in line]
    assert tables == []


@pytest.mark.requirement("R14")
def test_unresolved_are_those_neither_settled_nor_at_rest_before_a_call(with_ledger: With) -> None:
    async def body(ledger: Any) -> None:
        for n in range(4):
            for append in life(f"run_{n}", f"op_{n}", at=100 * n)[: n + 1]:
                await ledger.append(append)
        assert [row.id for row in ledger.unresolved()] == ["op_2"]
        assert list(ledger.unresolved(limit=0)) == []

    with_ledger(body)


def test_the_states_left_out_in_sql_are_those_of_the_core() -> None:
    left_out = QUERIES["unresolved"].split("NOT IN")[1].split(")")[0]
    assert {name.strip("' \n(") for name in left_out.split(",")} == {s.value for s in SETTLED | BEFORE_CALL}
    assert State.RETRYABLE not in SETTLED | BEFORE_CALL


@pytest.mark.requirement("R13", "G9")
def test_erased_content_is_gone_and_the_fold_stands(with_ledger: With) -> None:
    async def body(ledger: Any) -> None:
        for append in life("run_1", "op_1"):
            await ledger.append(append)
        assert await ledger.erase("run_1", ["0.argument.note"]) == 3
        assert ledger.operation("op_1").target == "order:18431"
        assert await ledger.erase("run_1", ["0.argument.note"]) == 0
        assert await ledger.erase("run_1") == 3
        assert await ledger.erase("run_1") == 0
        assert await ledger.erase("unknown") == 0
        assert ledger.run("run_1").event is None
        row = ledger.operation("op_1")
        assert (row.target, row.resource, row.state) == (None, None, "verified")
        assert not any(b"18431" in (entry.content or b"") for entry in ledger.load("run_1"))
        head = GENESIS
        for entry in ledger.load("run_1"):
            unseal(entry, head)
            head = entry.hash

    with_ledger(body)


def test_a_stale_writer_does_not_bring_erased_values_back(with_ledger: With) -> None:
    async def body(ledger: Any) -> None:
        run = Run("run_1")
        await ledger.append(run.opened())
        await ledger.append(run.next(proposed("op_1")))
        await ledger.erase("run_1")
        assert await ledger.append(run.next(claimed("op_1"))) == Applied()
        assert ledger.operation("op_1").target is None
        assert ledger.run("run_1").event is None

    with_ledger(body)
