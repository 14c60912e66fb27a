"""A worker that is stopped (SIGSTOP) for longer than its budget, and then goes on.

It stops itself at a named point, so where it stands is certain; the test waits until the clock of the
budgets, which counts pauses, has passed. Before the last check the layer must keep the call back. After it
nothing in the process can: only the destination can refuse, and the record must stay right either way. The
client here blocks, so not even the loop's time-out stands between the last check and the send.
"""

import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from counter import Store
from scenario import WITHIN_S, Scenario, crew

from amends.ledger import rebuild

BUDGET_S = 0.6
BEFORE_THE_CHECK = "claim.after:1"
BETWEEN_THE_CHECKS = "call.before_send:1"
AFTER_THE_CHECK = "call.before_send:2"
"""The budget is checked before the effect's code runs and again by the client; then comes the send."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@contextmanager
def stopped(scenario: Scenario, ledger: Path) -> Iterator["subprocess.Popen[str]"]:
    """A worker that stopped itself, and whose budget is over."""
    pipe = subprocess.PIPE
    with subprocess.Popen(scenario.command(ledger), stdout=pipe, stderr=pipe, text=True) as worker:
        try:
            ended = os.waitid(os.P_PID, worker.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            assert ended is not None
            assert ended.si_code == os.CLD_STOPPED, worker.communicate(timeout=WITHIN_S)
            budget_ends = time.clock_gettime(time.CLOCK_BOOTTIME) + BUDGET_S
            while time.clock_gettime(time.CLOCK_BOOTTIME) <= budget_ends:
                time.sleep(0.01)
            yield worker
        finally:
            worker.kill()  # harmless to one that has ended


def gone_on(worker: "subprocess.Popen[str]") -> str:
    """Let it go on to its end; what it said."""
    worker.send_signal(signal.SIGCONT)
    said, complaints = worker.communicate(timeout=WITHIN_S)
    assert complaints == ""
    return said


def operations(ledger: Path) -> list[tuple[str, int, str]]:
    """State, attempts and reason of each operation, in the order of their proposals."""
    with closing(sqlite3.connect(ledger)) as db:
        return db.execute("SELECT state, attempts, reason FROM operations ORDER BY proposed_at").fetchall()


def one_charge(counter: Store, *options: str) -> Scenario:
    return crew(counter, "--plain", "--budget", str(BUDGET_S), *options, runs=1, charges=1)


@pytest.mark.requirement("R11", "R17", "G1")
@pytest.mark.parametrize("point", [BEFORE_THE_CHECK, BETWEEN_THE_CHECKS])
@pytest.mark.parametrize("fence", [(), ("--unfenced",)], ids=["fenced", "unfenced"])
def test_a_worker_stopped_before_its_last_check_sends_nothing(
    tmp_path: Path, counter: Store, point: str, fence: tuple[str, ...]
) -> None:
    ledger = tmp_path / "l.db"
    with stopped(one_charge(counter, *fence, "--attempts", "1", "--stop-at", point), ledger) as worker:
        said = gone_on(worker)
    assert said.startswith("FAILED NotCommitted"), said
    assert counter.arrivals().total() == 0
    assert operations(ledger) == [("not_committed", 1, "attempts_spent")]
    assert "ENDED completed" in one_charge(counter, *fence, "--attempts", "1").run(ledger).stdout, "asked again"
    assert counter.arrivals().total() == 1
    [first, revision] = operations(ledger)
    assert (first, revision[:2]) == (("not_committed", 1, "attempts_spent"), ("verified", 1))
    assert rebuild.check(ledger) == []


@pytest.mark.requirement("R11", "R17", "G1")
@pytest.mark.parametrize("fence", [(), ("--unfenced",)], ids=["fenced", "unfenced"])
def test_what_never_left_a_stopped_worker_is_sent_once_by_its_next_attempt(
    tmp_path: Path, counter: Store, fence: tuple[str, ...]
) -> None:
    ledger = tmp_path / "l.db"
    with stopped(one_charge(counter, *fence, "--stop-at", BEFORE_THE_CHECK), ledger) as worker:
        said = gone_on(worker)
    assert "ENDED completed" in said
    assert counter.arrivals().total() == 1
    assert operations(ledger)[0][:2] == ("verified", 2)
    one_charge(counter, *fence).finish(ledger, after="a pause before the check")


@pytest.mark.requirement("R21", "G2", "G3", "F10")
def test_a_fenced_destination_makes_one_effect_of_a_send_after_a_pause_and_of_a_recovery(
    tmp_path: Path, counter: Store
) -> None:
    ledger = tmp_path / "l.db"
    with stopped(one_charge(counter, "--stop-at", AFTER_THE_CHECK), ledger) as worker:
        assert counter.arrivals().total() == 0
        other = one_charge(counter).run(ledger)
        assert (other.returncode, counter.arrivals().total()) == (0, 1), other.stdout + other.stderr
        said = gone_on(worker)
    assert counter.arrivals().total() == 2, "the stopped worker was to send late"
    assert set(said.splitlines()) == set(other.stdout.splitlines()), "both are told the one receipt"
    assert operations(ledger)[0][:2] == ("verified", 2)
    one_charge(counter).finish(ledger, after="a send after a pause")


@pytest.mark.requirement("R21", "R25", "G3", "F10")
def test_an_unfenced_destination_is_not_asked_again_after_a_pause_and_a_person_decides(
    tmp_path: Path, counter: Store
) -> None:
    ledger = tmp_path / "l.db"
    unfenced = one_charge(counter, "--unfenced")
    with stopped(one_charge(counter, "--unfenced", "--stop-at", AFTER_THE_CHECK), ledger) as worker:
        for _ in range(2):
            other = unfenced.run(ledger)
            assert other.stdout.startswith("FAILED OutcomeUnknown"), other.stdout + other.stderr
            assert operations(ledger) == [("human_required", 1, "no_fence_and_no_bound")]
        assert counter.arrivals().total() == 0
        gone_on(worker)
    assert counter.arrivals().total() == 1, "the stopped worker was to send late"
    assert operations(ledger)[0][:2] == ("verified", 1), "the late receipt is evidence"
    unfenced.finish(ledger, after="a send after a pause")
