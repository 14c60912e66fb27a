"""Power loss, which a kill cannot show: the page cache survives SIGKILL, un-synced writes do not survive this.

strace records what a real worker writes, syncs, sends and tells, in one order. At each cut through the record
(see ``promises``) un-synced writes are dropped, all kept, or torn by a seeded generator, and what had been
promised must be there. A ledger that does not sync each commit goes through the same and must be caught, or
this test shows nothing.
"""

import random
from pathlib import Path

import pytest
from counter import Store
from disk import Disk, Image, write_image
from promises import Images, Inspector, broken, cuts, dropped, record_of
from scenario import Report, crew

SEED = 18431
TEARS = (512, 4096) * 3
"""Sector sizes, one torn set of files for each."""

pytestmark = [pytest.mark.strace, pytest.mark.sweep, pytest.mark.timeout(300)]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A ledger's path in an empty directory."""
    home = tmp_path.resolve() / "home"
    home.mkdir()
    return home / "ledger.db"


def every_way() -> Images:
    """Dropped, kept, and torn by a generator that starts from the same seed."""
    chance = random.Random(SEED)

    def images(disk: Disk) -> list[tuple[str, Image]]:
        torn = [(f"torn at {sector}", disk.torn(chance, sector)) for sector in TEARS]
        return [*dropped(disk), ("kept", disk.kept()), *torn]

    return images


@pytest.mark.requirement("R8", "R11", "R14", "G1", "G9", "F02")
@pytest.mark.parametrize(
    "options",
    [[], ["--slow-disk"], ["--checkpoint", "20"]],
    ids=["by_the_loop", "by_the_writer", "with_checkpoints_between"],
)
def test_what_was_sent_or_told_before_the_power_failed_is_in_the_ledger(
    tmp_path: Path, ledger: Path, counter: Store, report: Report, options: list[str]
) -> None:
    _, record = record_of(crew(counter, *options), ledger)
    inspector, moments, images = Inspector(tmp_path), 0, 0
    for cut in cuts(ledger, record, every_way()):
        assert broken(cut, inspector) == []
        moments, images = moments + 1, images + len(cut.images)
    assert (len(cut.sent), len(cut.told)) == (6, 6), "the record must show what left and what was told"
    heads = sum(call.path.endswith("-wal") and call.numbers[-1:] == [0] for call in record if call.name == "pwrite64")
    assert heads >= (2 if "--checkpoint" in options else 1), "the log was not begun anew: no checkpoint was tested"
    report(f"power lost at {moments} moments: {images} images, {inspector.opened} of them different")


@pytest.mark.requirement("F02")
@pytest.mark.parametrize("level", ["OFF", "NORMAL"])
def test_a_ledger_that_does_not_sync_each_commit_is_caught(
    tmp_path: Path, ledger: Path, counter: Store, report: Report, level: str
) -> None:
    _, record = record_of(crew(counter, "--synchronous", level), ledger)
    inspector = Inspector(tmp_path)
    found = [line for cut in cuts(ledger, record, dropped) for line in broken(cut, inspector)]
    unclaimed = [line for line in found if line.endswith("without a claim")]
    assert unclaimed, "un-synced claims were not missed: this test could not fail"
    assert any(line.endswith("had been told") for line in found)
    report(f"synchronous={level}: {len(found)} violations found, {len(unclaimed)} of them lost claims")


@pytest.mark.requirement("R21", "G3", "A01")
def test_a_worker_started_on_what_the_disk_kept_makes_each_charge_once(
    tmp_path: Path, ledger: Path, counter: Store, report: Report
) -> None:
    scenario = crew(counter)
    _, record = record_of(scenario, ledger)
    made = counter.rows()
    started = 0
    for cut in [cut for cut in cuts(ledger, record, dropped) if cut.marked]:
        place = tmp_path / f"restarted-{started}"
        place.mkdir()
        write_image(cut.images[0][1], place)
        counter.put([row for row in made if row[1] in cut.sent])
        scenario.run(place / "ledger.db")
        assert set(counter.arrivals()) == {row[1] for row in made} - cut.sent, cut.at
        scenario.finish(place / "ledger.db", after=cut.at)
        started += 1
    assert started >= 2 * scenario.effects
    report(f"started again on {started} images")
