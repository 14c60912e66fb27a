"""A real worker process is killed at every named point, then started again: each charge is made once.

Named points stand before and after every durable write and every external call. Charges are counted in
the till's own store, never in our ledger.
"""

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amends.ledger import rebuild

HERE = Path(__file__).parent
SIGKILL = -9
WITHIN_S = 60
POINTS_PER_CHARGE = 10
"""Two commits (claim and result: two points each), around the claim, two budget checks, call and result."""
SEALING_POINTS = 2
"""The commit that keeps what a start sealed, before the first charge."""
Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.requirement("R8", "R11", "R21", "G1", "G2", "G3", "A01", "E15")


@pytest.fixture
def till(tmp_path: Path) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, str(HERE / "till.py"), str(tmp_path / "till.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    yield process.stdout.readline().strip()
    process.stdin.close()
    process.wait(WITHIN_S)
    process.stdout.close()


@pytest.fixture
def worker(tmp_path: Path, till: str) -> Run:
    def run(ledger: str, *kill_at: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(HERE / "worker.py"), str(tmp_path / ledger), till, *map(str, kill_at)]
        return subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)

    return run


def counted(tmp_path: Path) -> int:
    connection = sqlite3.connect(tmp_path / "till.db")
    count = connection.execute("SELECT COUNT(*) FROM charges").fetchone()[0]
    connection.execute("DELETE FROM charges")
    connection.commit()
    connection.close()
    return int(count)


@pytest.mark.sweep
@pytest.mark.timeout(600)
def test_a_worker_killed_at_every_point_makes_each_charge_once(tmp_path: Path, worker: Run) -> None:
    undisturbed = worker("undisturbed.db")
    assert undisturbed.returncode == 0, undisturbed.stderr
    points, ending, *_ = undisturbed.stdout.split()
    assert ending == "completed"
    assert counted(tmp_path) == 3
    assert int(points) == SEALING_POINTS + 3 * POINTS_PER_CHARGE + 2, (
        "a point was added or lost: say which, and count it here"
    )
    for point in range(1, int(points) + 1):
        ledger = f"killed-at-{point}.db"
        killed = worker(ledger, point)
        assert killed.returncode == SIGKILL, f"point {point} was not reached: {killed.stderr}"
        again = worker(ledger)
        assert again.returncode == 0, f"point {point}: {again.stderr}"
        assert again.stdout.split()[1] == "completed", f"point {point}: {again.stdout}"
        assert counted(tmp_path) == 3, f"point {point}"
        assert rebuild.check(tmp_path / ledger) == [], f"point {point}"
    print(f"killed at {points} points")


def test_a_program_run_twice_for_one_event_gets_the_recorded_receipts(tmp_path: Path, worker: Run) -> None:
    first, second = worker("l.db"), worker("l.db")
    assert second.returncode == 0, second.stderr
    assert first.stdout.split()[1:] == second.stdout.split()[1:]
    assert counted(tmp_path) == 3


def test_four_processes_racing_for_one_event_make_each_charge_once(tmp_path: Path, till: str) -> None:
    command = [sys.executable, str(HERE / "worker.py"), str(tmp_path / "l.db"), till]
    racing = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    results = [(*process.communicate(timeout=WITHIN_S), process.returncode) for process in racing]
    assert [code for _, _, code in results] == [0] * 4, results
    assert len({tuple(out.split()[2:]) for out, _, _ in results}) == 1
    assert counted(tmp_path) == 3
