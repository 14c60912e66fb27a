"""A disk that fails or is full, in the middle of a batch: nothing is sent that was not durably claimed.

strace lets one write or sync of a real worker fail (EIO, once) or all from one on (ENOSPC: a full disk stays
full), for each write and each sync in turn. Several runs share the commits, so a fault hits several
operations. The record of each worker is held against the strictest disk there is (see ``disk``): what a
failed sync was to make sure is lost. Then the disk is well again and the program is started anew.
"""

import os
import shutil
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from counter import Store
from promises import Inspector, broken, cuts, dropped, record_of
from scenario import Report, Scenario, crew
from straced import Call

from amends.ledger import rebuild

ADVICE = {
    "EIO": ("look at the disk and the system log, then repeat",),
    "ENOSPC": ("free space on its disk and repeat", "look at the disk and the system log, then repeat"),
}
"""What a person is told to do. SQLite says "full" of a write only; of a sync it says "I/O error"."""

IN_STEP = ("--slow-disk", "--plain")
"""The writer's thread commits, and the runs share its commits."""


ROOM_BYTES = 192 * 1024
"""Room for the shared-memory index and for some commits, and not for all."""

PLACES_MAX = 500
"""More calls than any run here makes."""


class Fault(NamedTuple):
    """The N-th ``call`` of a thread fails with ``error``; with ``lasting`` all later ones do, too.

    ``charges`` each run makes; ``places`` says which N are taken, as a pattern that repeats.
    """

    call: str
    error: str
    lasting: bool = False
    charges: int = 1
    places: str = "x"

    def at(self, n: int) -> list[str]:
        """strace's option for it."""
        return ["-e", f"inject={self.call}:error={self.error}:when={n}{'+' if self.lasting else ''}"]

    def chosen(self) -> list[int]:
        """Every N, in order."""
        return [n for n, taken in enumerate(self.places * PLACES_MAX, 1) if taken == "x"]


FAULTS = [
    Fault("pwrite64", "EIO", places="xx.."),
    Fault("pwrite64", "ENOSPC", lasting=True, places="..xx"),
    Fault("fdatasync", "EIO", charges=2),
    Fault("fdatasync", "ENOSPC", lasting=True, charges=2),
]
"""Between them every write and every sync. A page goes to the log in two writes, its head and itself."""


def said_clearly(said: str, ledger: Path, error: str) -> None:
    """Each run that failed was told which file, and what to do."""
    for line in said.splitlines():
        if line.startswith("FAILED"):
            assert line.startswith(f"FAILED LedgerUnavailable the ledger '{ledger}' could not be "), line
            assert line.endswith(tuple(f"; {advice}" for advice in ADVICE[error])), line


def seen_through(scenario: Scenario, ledger: Path, fault: Fault, n: int) -> tuple[str, list[Call]]:
    """One worker on a failing disk, held against what it promised; what it said, and the calls that failed."""
    start = {ledger.name: ledger.read_bytes()} if ledger.exists() else {}
    said, record = record_of(scenario, ledger, inject=fault.at(n))
    failed = [call for call in record if call.injected]
    said_clearly(said, ledger, fault.error)
    inspector = Inspector(ledger.parent)
    for cut in cuts(ledger, record, dropped, start=start):
        assert broken(cut, inspector) == [], f"{fault}, {n}"
    return said, failed


@pytest.mark.strace
@pytest.mark.sweep
@pytest.mark.timeout(300)
@pytest.mark.requirement("R8", "R11", "R14", "G1", "F03")
@pytest.mark.parametrize("fault", FAULTS, ids=[f"{fault.call}-{fault.error}" for fault in FAULTS])
def test_whichever_call_of_a_batch_fails_nothing_unclaimed_is_sent_and_a_restart_finishes(
    tmp_path: Path, counter: Store, report: Report, fault: Fault
) -> None:
    scenario, empty = crew(counter, *IN_STEP, charges=fault.charges), tmp_path / "empty.db"
    assert crew(counter, runs=0).run(empty).returncode == 0
    told: Counter[str] = Counter()
    for done, n in enumerate(fault.chosen()):  # noqa: B007 — told to the reader
        home = tmp_path.resolve() / str(n)
        home.mkdir()
        ledger = home / "ledger.db"
        ledger.write_bytes(empty.read_bytes())
        said, failed = seen_through(scenario, ledger, fault, n)
        assert rebuild.check(ledger) == [], f"{fault}, {n}"
        scenario.finish(ledger, after=f"{fault}, {n}")
        shutil.rmtree(home)
        if not failed:
            break  # the run has fewer such calls
        told.update(line.split()[0] for line in said.splitlines())
    assert 0 < done < PLACES_MAX
    assert told["FAILED"] > done / 2, "most faults must have reached a caller"
    report(f"{fault.call} {fault.error}: failed at {done} places; callers were told {dict(told)}")


@pytest.mark.strace
@pytest.mark.sweep
@pytest.mark.timeout(300)
@pytest.mark.requirement("R14", "F03")
@pytest.mark.parametrize("fault", FAULTS, ids=[f"{fault.call}-{fault.error}" for fault in FAULTS])
def test_whichever_call_of_the_first_opening_fails_the_next_one_makes_a_ledger(
    tmp_path: Path, counter: Store, report: Report, fault: Fault
) -> None:
    opening, failures = crew(counter, runs=0), 0
    for done, n in enumerate(fault.chosen()):  # noqa: B007 — told to the reader
        home = tmp_path.resolve() / str(n)
        home.mkdir()
        said, failed = seen_through(opening, home / "ledger.db", fault, n)
        if not failed:
            break
        failures += "FAILED" in said
        assert opening.run(home / "ledger.db").returncode == 0
        assert rebuild.check(home / "ledger.db") == []
    assert failures > 0
    report(f"{fault.call} {fault.error}: {done} places of an opening failed, {failures} were told")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of four megabytes."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small filesystem; run as root to see a really full disk")
    place = tmp_path.resolve() / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"this machine does not let root mount: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.slow
@pytest.mark.requirement("R11", "R14", "G1", "F03")
def test_a_disk_that_is_really_full_stops_the_work_and_lets_it_go_on_when_there_is_room(
    small_disk: Path, counter: Store
) -> None:
    ledger, ballast = small_disk / "ledger.db", small_disk / "ballast"
    scenario = crew(counter, "--plain", runs=4, charges=3)
    assert crew(counter, runs=0).run(ledger).returncode == 0
    ballast.write_bytes(bytes(shutil.disk_usage(small_disk).free - ROOM_BYTES))
    said = scenario.run(ledger)
    assert (said.returncode, said.stderr) == (1, "")
    assert "FAILED" in said.stdout
    said_clearly(said.stdout, ledger, "ENOSPC")
    with closing(sqlite3.connect(ledger)) as db:
        claimed = {key for (key,) in db.execute("SELECT key FROM operations WHERE attempts > 0")}
    assert set(counter.arrivals()) <= claimed
    assert rebuild.check(ledger) == []
    ballast.unlink()
    scenario.finish(ledger, after="a full disk")
