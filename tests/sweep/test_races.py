"""Several processes on one ledger and one key: one effect, and nobody who only asked meets a lock or a conflict.

Effects are lines that every process appends to one file, in one write each: a second line under one key is a
second effect.
"""

import asyncio
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from scenario import HERE, Report

from amends.bootstrap import Amends
from amends.core.evidence import Receipt
from amends.ledger import rebuild
from amends.ledger.connection import connect
from amends.service.call import Call
from amends.service.registry import Effect

SECONDS = 30
WITHIN_S = 100

pytestmark = pytest.mark.timeout(150)


def begun(ledger: Path, effects: Path, *arguments: list[str]) -> list["subprocess.Popen[str]"]:
    """One process for each list of arguments; all have opened the ledger and begin at once."""
    pipe = subprocess.PIPE
    started = []
    for mode, *rest in arguments:
        command = [sys.executable, str(HERE / "racer.py"), mode, str(ledger), str(effects), *rest]
        started.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True))
    for racer in started:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n", racer.communicate()
    for racer in started:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    return started


def ended(started: list["subprocess.Popen[str]"]) -> list[list[str]]:
    """What each process said; all ended well and without a complaint."""
    said = [(*racer.communicate(timeout=WITHIN_S), racer.returncode) for racer in started]
    assert [(complaint, code) for _, complaint, code in said] == [("", 0)] * len(said)
    return [out.splitlines() for out, _, _ in said]


def made(effects: Path) -> Counter[str]:
    return Counter(effects.read_text(encoding="ascii").split())


@pytest.mark.requirement("R12", "G2", "A01", "F04")
def test_two_processes_and_two_hundred_tasks_each_on_one_key_make_one_effect_and_all_get_it(tmp_path: Path) -> None:
    ledger, effects = tmp_path / "l.db", tmp_path / "effects"
    said = ended(begun(ledger, effects, ["same", "200"], ["same", "200"]))
    receipts = [line for lines in said for line in lines]
    assert len(receipts) == 400
    assert len(set(receipts)) == 1, set(receipts)
    assert list(made(effects).values()) == [1]
    assert rebuild.check(ledger) == []


@pytest.mark.requirement("R12", "G2")
def test_many_callers_on_one_run_object_meet_another_program_and_no_conflict_surfaces(tmp_path: Path) -> None:
    """Appends of one object stand on each other before they are durable; another's may get in first."""
    counted: Counter[str] = Counter()

    def program() -> tuple[Amends, Effect]:
        app = Amends(tmp_path / "l.db")

        @app.effect("make", recovery="compensatable", target="thing:{name}", owner="us", lookup="escalate")
        async def make(call: Call, *, name: str) -> Receipt:
            counted[name] += 1
            return Receipt(resource=name, correlation=call.key)

        return app, make

    async def race() -> list[Receipt]:
        (ours, make), (theirs, also_make) = program(), program()
        async with ours, theirs, ours.run("race", event="e") as one, theirs.run("race", event="e") as other:
            # One entry of the other program, in the place of the first of ours: our second has the right number.
            return await asyncio.gather(other.do(also_make, name="0"), *(one.do(make, name=n) for n in "01234"))

    receipts = asyncio.run(race())
    assert [receipt.resource for receipt in receipts] == [*"001234"]
    assert counted == Counter("01234")
    assert rebuild.check(tmp_path / "l.db") == []


@pytest.mark.sweep
@pytest.mark.requirement("R12", "R14", "G2", "F01", "F04")
def test_six_processes_writing_one_ledger_meet_no_lock_and_no_conflict(tmp_path: Path, report: Report) -> None:
    ledger, effects = tmp_path / "l.db", tmp_path / "effects"
    said = ended(begun(ledger, effects, *(["busy", str(SECONDS), f"p{n}", "8"] for n in range(6))))
    surfaced = [line for lines in said for line in lines if line.startswith("SURFACED")]
    assert surfaced == []
    assert set(made(effects).values()) == {1}
    assert rebuild.check(ledger) == []
    answered = [int(lines[-1]) for lines in said]
    assert min(answered) > 0, "a process got nothing done"
    report(f"{sum(answered)} runs answered in {SECONDS} s, {len(made(effects))} effects, each once")


@pytest.mark.slow
@pytest.mark.requirement("R14", "F04")
def test_a_thousand_connections_opened_while_others_write_leave_the_file_whole(tmp_path: Path) -> None:
    ledger, effects = tmp_path / "l.db", tmp_path / "effects"
    writing = begun(ledger, effects, ["busy", str(WITHIN_S), "p0", "1"], ["busy", str(WITHIN_S), "p1", "1"])
    before = effects.stat().st_size

    def open_and_close(_: int) -> None:
        connect(ledger, busy_timeout_ms=30_000, synchronous="FULL").close()

    with ThreadPoolExecutor(4) as openers:  # they wait for the write lock beside each other
        assert len(list(openers.map(open_and_close, range(1000)))) == 1000
    assert [racer.poll() for racer in writing] == [None, None], "they were to write all the time"
    assert effects.stat().st_size > before
    effects.with_suffix(".stop").touch()
    said = ended(writing)
    assert [line for lines in said for line in lines if line.startswith("SURFACED")] == []
    assert set(made(effects).values()) == {1}
    assert rebuild.check(ledger) == []
