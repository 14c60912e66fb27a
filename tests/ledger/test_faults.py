"""Storage that fails, processes that compete: nobody is told ok who is not."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from building import Run, life, opened, proposed

from amends.errors import LedgerCorrupt, LedgerIntegrityError, LedgerUnavailable
from amends.ledger import points
from amends.ledger.rebuild import check
from amends.ledger.sqlite import SqliteLedger
from amends.ports.ledger import Applied


@pytest.fixture(autouse=True)
def no_hook() -> Iterator[None]:
    yield
    points.hook = None


def run_with(path: Path, body: Callable[[SqliteLedger], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        ledger = SqliteLedger(path, **options)
        await ledger.open()
        try:
            await body(ledger)
        finally:
            await ledger.close()

    asyncio.run(main())


class Failing:
    """A connection on which one statement fails."""

    def __init__(self, db: sqlite3.Connection, at: str, error: sqlite3.Error) -> None:
        self._db, self._at, self._error = db, at, error

    def execute(self, statement: str, *values: Any) -> Any:
        if statement.startswith(self._at):
            raise self._error
        return self._db.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)


def sqlite_error(code: int, name: str, text: str, kind: type[sqlite3.Error] = sqlite3.OperationalError) -> Any:
    error = kind(text)
    error.sqlite_errorcode, error.sqlite_errorname = code, name
    return error


ERRORS = [
    (sqlite_error(10, "SQLITE_IOERR", "disk I/O error"), LedgerUnavailable, "look at the disk"),
    (sqlite_error(13, "SQLITE_FULL", "database or disk is full"), LedgerUnavailable, "free space"),
    (sqlite_error(11, "SQLITE_CORRUPT", "malformed", sqlite3.DatabaseError), LedgerCorrupt, "amends doctor"),
]


@pytest.mark.requirement("R11", "R14", "F03")
@pytest.mark.parametrize("at", ["BEGIN", "INSERT INTO entries", "UPDATE runs", "COMMIT"])
@pytest.mark.parametrize("failure", ERRORS, ids=["eio", "full", "corrupt"])
@pytest.mark.parametrize("neighbours", [0, 4])
def test_after_an_error_nothing_of_the_batch_is_acknowledged(
    tmp_path: Path, at: str, failure: Any, neighbours: int
) -> None:
    error, kind, advice = failure

    async def body(ledger: SqliteLedger) -> None:
        run = Run("run_1")
        await ledger.append(run.opened())
        second = run.next(proposed("op_1"))
        batch = [second, *(life(f"n_{n}", f"op_n{n}")[0] for n in range(neighbours))]
        ledger._connection = Failing(ledger._connection, at, error)  # type: ignore[arg-type,assignment]
        answers = await asyncio.gather(*(ledger.append(append) for append in batch), return_exceptions=True)
        assert {type(answer) for answer in answers} == {kind}
        assert all(advice in str(answer) and "nothing of this batch" in str(answer) for answer in answers)
        assert len({id(answer) for answer in answers}) == len(batch)
        assert ledger.version("run_1") == 1
        assert [await ledger.append(append) for append in batch] == [Applied()] * len(batch)

    run_with(tmp_path / "l.db", body)
    assert check(tmp_path / "l.db") == []


@pytest.mark.requirement("R11", "R14", "F03")
def test_a_full_disk_in_the_middle_of_a_batch_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    async def body(ledger: SqliteLedger) -> None:
        await ledger.append(life("before", "-")[0])
        db = ledger._connection
        assert db is not None
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages + 4}")
        batch = []
        for n in range(20):
            run = Run(f"run_{n}")
            batch += [run.opened(), run.next(proposed(f"op_{n}", note="x" * 3000))]
        answers = await asyncio.gather(*(ledger.append(append) for append in batch), return_exceptions=True)
        assert {type(answer) for answer in answers} == {LedgerUnavailable}
        assert "SQLITE_FULL" in str(answers[0])
        assert [row.id for row in ledger.runs()] == ["before"]
        assert check(ledger) == []
        again = await asyncio.gather(*(ledger.append(append) for append in batch))
        assert set(again) == {Applied()}

    run_with(tmp_path / "l.db", body)
    assert check(tmp_path / "l.db") == []


@pytest.mark.requirement("R8", "F03")
@pytest.mark.parametrize("point", ["ledger.before_commit", "ledger.after_commit"])
def test_a_commit_in_doubt_is_settled_by_appending_again(tmp_path: Path, point: str) -> None:
    class Died(Exception):
        pass

    def die(name: str) -> None:
        if name == point:
            points.hook = None
            raise Died

    async def body(ledger: SqliteLedger) -> None:
        first = life("run_1", "-")[0]
        points.hook = die
        with pytest.raises(Died):
            await ledger.append(first)
        assert await ledger.append(first) == Applied(repeated=point == "ledger.after_commit")
        assert len(ledger.load("run_1")) == 1

    run_with(tmp_path / "l.db", body)


def test_appends_of_one_turn_share_a_commit_and_a_lone_one_uses_no_thread(tmp_path: Path) -> None:
    async def body(ledger: SqliteLedger) -> None:
        assert ledger._writer is not None
        await ledger.append(life("alone", "-")[0])
        assert ledger._writer._executor._threads == set()
        before = ledger.counts.commits
        await asyncio.gather(*(ledger.append(life(f"run_{n}", "-")[0]) for n in range(50)))
        assert ledger.counts.commits == before + 1

    run_with(tmp_path / "l.db", body)


@pytest.mark.requirement("R12", "F04")
def test_an_append_waits_for_another_process_without_holding_the_loop(tmp_path: Path) -> None:
    async def body(ledger: SqliteLedger) -> None:
        other = sqlite3.connect(tmp_path / "l.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.ensure_future(ledger.append(life("run_1", "-")[0]))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
        assert ledger.version("run_1") == 0
        other.execute("ROLLBACK")
        other.close()
        assert await waiting == Applied()

    run_with(tmp_path / "l.db", body)


@pytest.mark.requirement("F04")
def test_a_lock_that_is_never_given_back_ends_in_unavailable(tmp_path: Path) -> None:
    async def body(ledger: SqliteLedger) -> None:
        other = sqlite3.connect(tmp_path / "l.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerUnavailable, match="another process kept the write lock"):
            await ledger.append(life("run_1", "-")[0])
        other.close()
        assert await ledger.append(life("run_1", "-")[0]) == Applied()

    run_with(tmp_path / "l.db", body, busy_timeout_ms=100)


def test_several_threads_with_their_own_loops_share_one_ledger(tmp_path: Path) -> None:
    answers: list[Any] = []

    async def body(ledger: SqliteLedger) -> None:
        def worker(number: int) -> None:
            async def go() -> None:
                for append in life(f"run_{number}", f"op_{number}"):
                    answers.append(await ledger.append(append))

            asyncio.run(go())

        threads = [Thread(target=worker, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for append in life("here", "op_here"):
            answers.append(await ledger.append(append))
        for thread in threads:
            await asyncio.to_thread(thread.join)

    run_with(tmp_path / "l.db", body)
    assert answers == [Applied()] * 36
    assert check(tmp_path / "l.db") == []


WORKER = """
import asyncio, json, sys
sys.path.insert(0, sys.argv[3])
from building import Run, life, opened, proposed
from amends.ledger.sqlite import SqliteLedger
from amends.ports.ledger import Applied

async def main():
    me, path = sys.argv[1], sys.argv[2]
    ledger = SqliteLedger(path)
    await ledger.open()
    print("ready", flush=True)
    sys.stdin.readline()
    own = 0
    for n in range(60):
        for append in life(f"{me}_{n}", f"op_{me}_{n}"):
            own += await ledger.append(append) == Applied()
    async def mine(n):
        return [await ledger.append(a) for a in life(f"{me}_g{n}", f"op_{me}_g{n}")].count(Applied())
    own += sum(await asyncio.gather(*(mine(n) for n in range(60))))
    won = 0
    for n in range(100):
        run = Run(f"shared_{n}")
        won += await ledger.append(run.peek([__import__("building").opened()], append_id=me)) == Applied()
    await ledger.close()
    print(json.dumps([own, won]))
asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.requirement("R12", "G2", "F04")
def test_processes_that_append_to_one_file_never_meet_a_locked_database(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    argv = [sys.executable, "-c", WORKER]
    here = str(Path(__file__).parent)
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    workers = [subprocess.Popen([*argv, f"w{n}", str(path), here], **pipes) for n in range(3)]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    results = [json.loads(worker.communicate(timeout=60)[0]) for worker in workers]
    assert [own for own, _ in results] == [480] * 3
    assert sum(won for _, won in results) == 100
    assert check(path) == []


@pytest.mark.requirement("R12", "R14")
@pytest.mark.parametrize("value", [["re_1"], 2**70, "\ud800", object()], ids=["list", "large", "half a pair", "object"])
def test_a_value_that_cannot_be_stored_is_refused_alone(tmp_path: Path, value: Any) -> None:
    async def body(ledger: SqliteLedger) -> None:
        runs = [Run(f"run_{n}") for n in range(3)]
        appends = [run.next([opened(), *proposed(f"op_{n}")]) for n, run in enumerate(runs)]
        [row] = appends[1].operations
        appends[1] = replace(appends[1], operations=(row._replace(resource=value),))
        answers = await asyncio.gather(*map(ledger.append, appends), return_exceptions=True)
        assert [type(answer) for answer in answers] == [Applied, LedgerIntegrityError, Applied]
        assert [ledger.version(run.id) for run in runs] == [1, 0, 1]

    run_with(tmp_path / "ledger.db", body)
    assert check(tmp_path / "ledger.db") == []
