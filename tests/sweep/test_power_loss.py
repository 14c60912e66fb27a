"""Power loss, which a kill cannot show: the page cache survives SIGKILL, un-synced writes do not survive this.

strace records what a real worker writes, syncs, sends and tells, in one order. The record is cut at every
change of the ledger's files and at everything that was sent or told. For each cut there are the files that
a disk may hold then (see ``disk``): un-synced writes dropped, all kept, or torn by a seeded generator. Each
is opened by the ledger's own code, checked, and asked for what had been promised before the cut:

- every key that had left the process has its claim (G1);
- every key whose receipt the program had been given has its result.

A ledger with ``synchronous=OFF`` goes through the same and must be caught, or this test shows nothing.
"""

import hashlib
import random
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from counter import Store
from disk import TRACED, Disk, Image, write_image
from scenario import Report, Scenario, crew
from straced import BYTES_MAX, Call, calls

from amends.errors import AmendsError
from amends.ledger import rebuild
from amends.ledger.connection import connect

KEY = re.compile(rb"am1_[a-z2-7]{32}")
SEED = 18431
TEARS = (512, 4096) * 3
"""Sector sizes, one torn set of files for each."""

pytestmark = [pytest.mark.strace, pytest.mark.sweep, pytest.mark.timeout(300)]


class Cut(NamedTuple):
    """The moment at which the power fails. ``at`` names the call before it."""

    at: str
    sent: frozenset[str]
    told: frozenset[str]
    images: list[tuple[str, Image]]
    marked: bool


class Held(NamedTuple):
    """What a ledger holds: keys that were claimed, keys with a result, and what is at odds."""

    claimed: frozenset[str]
    known: frozenset[str]
    wrong: tuple[str, ...]


def recorded(scenario: Scenario, tmp_path: Path) -> tuple[Path, list[Call]]:
    """The ledger that a worker began with an empty directory, and the record of what it did."""
    home, record = tmp_path / "recorded", tmp_path / "record"
    home.mkdir()
    ledger = home.resolve() / "ledger.db"
    tracer = ["strace", "-f", "--seccomp-bpf", "-y", "-xx", "-s", str(BYTES_MAX), "-e", f"trace={TRACED}"]
    done = scenario.run(ledger, under=[*tracer, "-o", str(record)])
    assert done.returncode == 0, done.stdout + done.stderr
    return ledger, calls(record)


def cuts(ledger: Path, record: list[Call]) -> Iterator[Cut]:
    """Every cut, in order, with the files that may be there."""
    disk, sent, told = Disk(ledger), set[str](), set[str]()
    chance = random.Random(SEED)
    moments = [(call.began, 0, call) for call in record] + [(call.ended, 1, call) for call in record]
    for place, (_, end, call) in enumerate(sorted(moments, key=lambda moment: moment[:2])):
        if end:
            changed, marked = disk.ends(call), False
        else:
            disk.begins(call)
            changed, marked = False, _marks(call, sent, told)
        if changed or marked:
            torn = [("torn", disk.torn(chance, sector)) for sector in TEARS]
            images = [("dropped", disk.dropped()), ("kept", disk.kept()), *torn]
            yield Cut(f"{place}: {call.name}", frozenset(sent), frozenset(told), images, marked)


def _marks(call: Call, sent: set[str], told: set[str]) -> bool:
    """Note what leaves the process with this call: requests, and what it tells the program."""
    if call.name == "sendto":
        keys, known = KEY.findall(call.texts[0]), sent
    elif call.name == "write" and call.arguments.startswith("1<") and call.texts[0].startswith(b"TOLD "):
        keys, known = KEY.findall(call.texts[0]), told
    else:
        return False
    known.update(key.decode() for key in keys)
    return bool(keys)


class Inspector:
    """Opens images as a restarted worker would, each different one once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen: dict[bytes, Held] = {}

    @property
    def opened(self) -> int:
        """How many different images there were."""
        return len(self._seen)

    def held(self, image: Image) -> Held:
        digest = hashlib.sha256()
        for name, data in sorted(image.items()):
            digest.update(name.encode() + len(data).to_bytes(8, "big") + data)
        key = digest.digest()
        if key not in self._seen:
            place = self._directory / f"image-{len(self._seen)}"
            place.mkdir()
            self._seen[key] = _open(place, image)
            for file in place.iterdir():
                file.unlink()
            place.rmdir()
        return self._seen[key]


def _open(place: Path, image: Image) -> Held:
    write_image(image, place)
    ledger = place / "ledger.db"
    try:
        with closing(connect(ledger, busy_timeout_ms=1_000, synchronous="FULL")) as db:
            rows = db.execute("SELECT key, attempts, resource FROM operations").fetchall()
        wrong = tuple(f"{finding.kind}: {finding.what}" for finding in rebuild.check(ledger))
    except (AmendsError, sqlite3.Error) as error:
        return Held(frozenset(), frozenset(), (f"{type(error).__name__}: {error}",))
    claimed = frozenset(key for key, attempts, _ in rows if attempts)
    return Held(claimed, frozenset(key for key, _, resource in rows if resource), wrong)


def violations(ledger: Path, record: list[Call], inspector: Inspector) -> tuple[list[str], int, int]:
    """What was promised and is not there, over all cuts; how many cuts there were, and files in them."""
    found: list[str] = []
    count = images = 0
    for count, cut in enumerate(cuts(ledger, record), 1):  # noqa: B007 — told to the reader
        for how, image in cut.images:
            images += 1
            held = inspector.held(image)
            where = f"{cut.at}, un-synced writes {how}"
            found += [f"{where}: {what}" for what in held.wrong]
            found += [f"{where}: {key} had left without a claim" for key in cut.sent - held.claimed]
            found += [f"{where}: the result of {key} had been told" for key in cut.told - held.known]
    return found, count, images


@pytest.mark.requirement("R8", "R11", "R14", "G1", "G9", "F02")
@pytest.mark.parametrize(
    "options",
    [[], ["--slow-disk"], ["--checkpoint", "20"]],
    ids=["by_the_loop", "by_the_writer", "with_checkpoints_between"],
)
def test_what_was_sent_or_told_before_the_power_failed_is_in_the_ledger(
    tmp_path: Path, counter: Store, report: Report, options: list[str]
) -> None:
    ledger, record = recorded(crew(counter, *options), tmp_path)
    inspector = Inspector(tmp_path)
    found, count, images = violations(ledger, record, inspector)
    assert found == []
    last = list(cuts(ledger, record))[-1]
    assert (len(last.sent), len(last.told)) == (6, 6), "the record must show what left and what was told"
    heads = sum(call.path.endswith("-wal") and call.numbers[-1:] == [0] for call in record if call.name == "pwrite64")
    assert heads >= (2 if "--checkpoint" in options else 1), "the log was not begun anew: no checkpoint was tested"
    report(f"power lost at {count} moments, {images} images, {inspector.opened} of them different")


@pytest.mark.requirement("F02")
@pytest.mark.parametrize("level", ["OFF", "NORMAL"])
def test_a_ledger_that_does_not_sync_each_commit_is_caught(
    tmp_path: Path, counter: Store, report: Report, level: str
) -> None:
    ledger, record = recorded(crew(counter, "--synchronous", level), tmp_path)
    found, _, _ = violations(ledger, record, Inspector(tmp_path))
    unclaimed = [line for line in found if line.endswith("without a claim")]
    assert unclaimed, "un-synced claims were not missed: this test could not fail"
    assert any(line.endswith("had been told") for line in found)
    report(f"synchronous={level}: {len(found)} violations found, {len(unclaimed)} of them lost claims")


@pytest.mark.requirement("R21", "G3", "A01")
def test_a_worker_started_on_what_the_disk_kept_makes_each_charge_once(
    tmp_path: Path, counter: Store, report: Report
) -> None:
    scenario = crew(counter)
    ledger, record = recorded(scenario, tmp_path)
    made = counter.rows()
    started = 0
    for cut in [cut for cut in cuts(ledger, record) if cut.marked]:
        place = tmp_path / f"restarted-{started}"
        place.mkdir()
        write_image(dict(cut.images)["dropped"], place)
        counter.put([row for row in made if row[1] in cut.sent])
        scenario.run(place / "ledger.db")
        assert set(counter.arrivals()) == {row[1] for row in made} - cut.sent, cut.at
        scenario.finish(place / "ledger.db", after=cut.at)
        started += 1
    assert started >= 2 * scenario.effects
    report(f"started again on {started} images")
