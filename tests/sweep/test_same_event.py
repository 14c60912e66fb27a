"""Real processes are given one event again, or at once: each charge is made once.

Charges are counted in the till's own store, never in our ledger.
"""

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WITHIN_S = 60
Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.requirement("R8", "R12", "G2", "E15")


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
    def run(ledger: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(HERE / "worker.py"), str(tmp_path / ledger), till]
        return subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)

    return run


def counted(tmp_path: Path) -> int:
    connection = sqlite3.connect(tmp_path / "till.db")
    count = connection.execute("SELECT COUNT(*) FROM charges").fetchone()[0]
    connection.execute("DELETE FROM charges")
    connection.commit()
    connection.close()
    return int(count)


def test_a_program_run_twice_for_one_event_gets_the_recorded_receipts(tmp_path: Path, worker: Run) -> None:
    first, second = worker("l.db"), worker("l.db")
    assert second.returncode == 0, second.stderr
    assert first.stdout == second.stdout
    assert counted(tmp_path) == 3


def test_four_processes_racing_for_one_event_make_each_charge_once(tmp_path: Path, till: str) -> None:
    command = [sys.executable, str(HERE / "worker.py"), str(tmp_path / "l.db"), till]
    racing = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    results = [(*process.communicate(timeout=WITHIN_S), process.returncode) for process in racing]
    assert [code for _, _, code in results] == [0] * 4, results
    assert len({out for out, _, _ in results}) == 1
    assert counted(tmp_path) == 3
