"""A real worker is killed at each sync of the ledger, then started again: each effect is made once.

A first pass under strace counts the syncs of each thread; then one worker a sync is killed there. strace
delivers the signal when the call *begins*, and the kernel then skips it, so what is killed is a worker
that has written and not yet synced. The side after the sync has the same files (a kill leaves the page
cache) and nobody was told meanwhile; ``test_kill_points`` stands there with ``ledger.after_commit``. What
becomes of un-synced writes without the cache is the matter of ``test_power_loss``.

strace counts the calls of each thread for itself, and the first thread to come to its N-th dies. So two
workers are swept: one whose loop commits everything, and one whose writer thread does, on a ledger that is
there already, where the loop syncs nothing until it closes.
"""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from counter import Store
from scenario import SIGKILL, Report, Scenario, crew
from straced import Call, calls

SYNCS = "fdatasync,fsync"
LOOP, WRITER = "loop", "writer"
TRIALS = 3
"""How appends meet in commits is a matter of timing: one worker may need a commit less than the counted one."""

pytestmark = [
    pytest.mark.strace,
    pytest.mark.sweep,
    pytest.mark.timeout(300),
    pytest.mark.requirement("R8", "R11", "R14", "R21", "G1", "G3", "A01"),
]


class Watched(NamedTuple):
    """A worker's end: its return code, its main thread, and its syncs."""

    code: int
    main: int
    syncs: list[Call]

    def role(self, call: Call) -> str:
        """Whether ``call`` was made by the main thread, where the loop runs, or by the ledger's writer."""
        return LOOP if call.thread == self.main else WRITER


def watched(scenario: Scenario, ledger: Path, *, kill_at: int = 0) -> Watched:
    """Run a worker; with ``kill_at`` kill it at that sync of whichever thread comes to it first."""
    record = ledger.with_name(ledger.name + ".record")
    kill = ["-e", f"inject={SYNCS}:signal=SIGKILL:when={kill_at}"] if kill_at else []
    # Not with --seccomp-bpf: a signal is not delivered there.
    done = scenario.run(
        ledger, under=["strace", "-f", "-y", "-xx", "-e", f"trace=execve,{SYNCS}", *kill, "-o", str(record)]
    )
    start, *syncs = calls(record)
    assert start.name == "execve"
    return Watched(done.returncode, start.thread, [call for call in syncs if call.name != "execve"])


def killed_at_each(scenario: Scenario, ledgers: Path, *, role: str, before: Path | None = None) -> Counter[str]:
    """Kill a worker at each sync of one of its threads; where those syncs stood.

    ``before`` is a ledger with which each worker begins.
    """

    def ledger(name: str) -> Path:
        place = (ledgers / name).resolve()
        if before:
            place.write_bytes(before.read_bytes())
        return place

    undisturbed = watched(scenario, ledger("undisturbed.db"))
    assert undisturbed.code == 0
    scenario.forget()
    due = [call for call in undisturbed.syncs if undisturbed.role(call) == role]
    where: Counter[str] = Counter()
    for n, expected in enumerate(due, 1):
        for place in (ledger(f"killed-at-{n}-{trial}.db") for trial in range(TRIALS)):
            killed = watched(scenario, place, kill_at=n)
            if killed.code == SIGKILL:
                break
            scenario.forget()
        assert killed.code == SIGKILL, f"nothing was killed at sync {n}"
        fired = killed.syncs[-1]
        assert (fired.result, killed.role(fired)) == (None, role), f"sync {n} was not where it died: {fired}"
        assert sum(call.thread == fired.thread for call in killed.syncs) == n
        where[_what(expected.path, ledgers)] += 1
        scenario.finish(place, after=f"killed at sync {n}, of {fired.path}")
    assert where.total() == len(due) > 0, "not as many kills as syncs"
    return where


def _what(path: str, ledgers: Path) -> str:
    return "directory" if Path(path) == ledgers.resolve() else path.rpartition(".db")[2] or "database"


def test_a_worker_killed_at_each_sync_of_its_loop_makes_each_effect_once(
    tmp_path: Path, counter: Store, report: Report
) -> None:
    where = killed_at_each(crew(counter, runs=1, charges=3), tmp_path, role=LOOP)
    assert set(where) == {"-wal", "-journal", "database", "directory"}
    report(f"killed at {where.total()} syncs of the loop: {dict(where)}")


def test_a_worker_killed_at_each_sync_of_its_writer_thread_makes_each_effect_once(
    tmp_path: Path, counter: Store, report: Report
) -> None:
    empty = tmp_path / "empty.db"
    assert crew(counter, runs=0).run(empty).returncode == 0
    # --plain: each answer is waited for with the loop at rest, so the runs stay in step and share their commits.
    where = killed_at_each(crew(counter, "--slow-disk", "--plain"), tmp_path, role=WRITER, before=empty)
    assert set(where) == {"-wal", "directory"}
    report(f"killed at {where.total()} syncs of the writer thread: {dict(where)}")
