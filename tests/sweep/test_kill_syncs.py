"""A real worker is killed at each sync of the ledger, then started again: each effect is made once.

A first pass under strace counts the syncs of each thread; then one worker a sync is killed there. strace
delivers the signal when the call *begins*, and the kernel then skips it, so what is killed is a worker
that has written and not yet synced. The side after the sync has the same files (a kill leaves the page
cache) and nobody was told meanwhile; ``test_kill_points`` stands there with ``ledger.after_commit``. What
becomes of un-synced writes without the cache is the matter of ``test_power_loss``.

strace counts the calls of each thread and name for themselves, and the first thread at its N-th dies. So two
workers are swept: one whose loop commits everything, and one whose writer thread does, on a ledger that is
there already, where the loop makes no ``fdatasync`` until it closes.
"""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from counter import Store
from scenario import SIGKILL, Report, Scenario, crew
from straced import Call, calls

LOOP, WRITER = "loop", "writer"
SYNCS = "fdatasync,fsync"
"""SQLite's are ``fdatasync`` (a build may use the other); the directory's ``fsync`` at opening is ours."""
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


def watched(scenario: Scenario, ledger: Path, *, kill: str = "", at: int = 0) -> Watched:
    """Run a worker; with ``kill`` kill it ``at`` that call of this name, of whichever thread is there first."""
    record = ledger.with_name(ledger.name + ".record")
    inject = ["-e", f"inject={kill}:signal=SIGKILL:when={at}"] if kill else []
    # Not with --seccomp-bpf: a signal is not delivered there.
    tracer = ["strace", "-f", "-y", "-xx", "-e", f"trace=execve,{SYNCS}", *inject, "-o", str(record)]
    done = scenario.run(ledger, under=tracer)
    start, *made = calls(record)
    assert start.name == "execve"
    return Watched(done.returncode, start.thread, [call for call in made if call.name != "execve"])


Ledgers = Callable[[str], Path]
"""Makes the place of a ledger with this name, as each worker is to find it."""


def killed_at_each(scenario: Scenario, ledgers: Ledgers, *, role: str) -> Counter[str]:
    """Kill a worker at each sync of one of its threads and start it again; where those syncs stood."""
    undisturbed = watched(scenario, ledgers("undisturbed.db"))
    assert undisturbed.code == 0
    scenario.forget()
    due = [call for call in undisturbed.syncs if undisturbed.role(call) == role]
    where: Counter[str] = Counter()
    for number, sync in enumerate(due, 1):
        at = sum(call.name == sync.name for call in due[:number])
        place, killed = _killed(scenario, ledgers, f"killed-at-{number}", kill=sync.name, at=at)
        last = killed.syncs[-1]
        assert (last.result, killed.role(last)) == (None, role), f"sync {number} was not where it died: {last}"
        assert sum((call.thread, call.name) == (last.thread, sync.name) for call in killed.syncs) == at
        where[_what(sync.path)] += 1
        scenario.finish(place, after=f"killed at sync {number}, of {last.path}")
    assert where.total() == len(due) > 0, "not as many kills as syncs"
    return where


def _killed(scenario: Scenario, ledgers: Ledgers, name: str, *, kill: str, at: int) -> tuple[Path, Watched]:
    for trial in range(TRIALS):
        place = ledgers(f"{name}-{trial}.db")
        killed = watched(scenario, place, kill=kill, at=at)
        if killed.code == SIGKILL:
            return place, killed
        scenario.forget()
    raise AssertionError(f"{name}: nothing was killed")


def _what(path: str) -> str:
    name = Path(path).name
    return (name.partition(".db")[2] or "database") if ".db" in name else "directory"


def test_a_worker_killed_at_each_sync_of_its_loop_makes_each_effect_once(
    tmp_path: Path, counter: Store, report: Report
) -> None:
    scenario = crew(counter, runs=1, charges=3)
    where = killed_at_each(scenario, lambda name: tmp_path.resolve() / name, role=LOOP)
    assert set(where) == {"-wal", "-journal", "database", "directory"}
    report(f"killed at {where.total()} syncs of the loop: {dict(where)}")


def test_a_worker_killed_at_each_sync_of_its_writer_thread_makes_each_effect_once(
    tmp_path: Path, counter: Store, report: Report
) -> None:
    empty = tmp_path / "empty.db"
    assert crew(counter, runs=0).run(empty).returncode == 0

    def made(name: str) -> Path:
        return Path(shutil.copy(empty, tmp_path.resolve() / name))

    # --plain: each answer is waited for with the loop at rest, so the runs stay in step and share their commits.
    where = killed_at_each(crew(counter, "--slow-disk", "--plain"), made, role=WRITER)
    assert set(where) == {"-wal", "directory"}
    report(f"killed at {where.total()} syncs of the writer thread: {dict(where)}")
