"""What had been promised when the power failed, and what a disk then holds of it.

A record of a worker's calls is cut at every change of the ledger's files and at everything that was sent or
told. For each cut there are the files that a disk may hold then (see ``disk``). Each is opened by the
ledger's own code, checked, and asked for what had been promised before the cut:

- every key that had left the process has its claim (G1);
- every key whose receipt the program had been given has its result.
"""

import hashlib
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from disk import TRACED, Disk, Image, write_image
from scenario import Scenario
from straced import BYTES_MAX, Call, calls

from amends.errors import AmendsError
from amends.ledger import rebuild
from amends.ledger.connection import connect

KEY = re.compile(rb"am1_[a-z2-7]{32}")
NOTHING: Image = {}

Images = Callable[[Disk], list[tuple[str, Image]]]
"""The files to look at in one cut, each with a word on what became of the un-synced writes."""


class Cut(NamedTuple):
    """The moment at which the power fails. ``at`` names the call before it, ``marked`` that it sent or told."""

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


def record_of(scenario: Scenario, ledger: Path, *, inject: Sequence[str] = ()) -> tuple[str, list[Call]]:
    """What a worker said, and the record of what it did; ``inject`` are strace's own options for faults."""
    record = ledger.with_name(ledger.name + ".record")
    tracer = ["strace", "-f", "--seccomp-bpf", "-y", "-xx", "-s", str(BYTES_MAX), "-e", f"trace={TRACED}", *inject]
    done = scenario.run(ledger, under=[*tracer, "-o", str(record)])
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout, calls(record)


def dropped(disk: Disk) -> list[tuple[str, Image]]:
    """Only what is sure."""
    return [("dropped", disk.dropped())]


def cuts(ledger: Path, record: list[Call], images: Images, *, start: Image = NOTHING) -> Iterator[Cut]:
    """Every cut, in order, with the files that may be there; ``start`` are those from before the record."""
    disk, sent, told = Disk(ledger, start), set[str](), set[str]()
    moments = [(call.began, 0, call) for call in record] + [(call.ended, 1, call) for call in record]
    for place, (_, end, call) in enumerate(sorted(moments, key=lambda moment: moment[:2])):
        if end:
            changed, marked = disk.ends(call), False
        else:
            disk.begins(call)
            changed, marked = False, _marks(call, sent, told)
        if changed or marked:
            yield Cut(f"{place}: {call.name}", frozenset(sent), frozenset(told), images(disk), marked)


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


def broken(cut: Cut, inspector: Inspector) -> list[str]:
    """What was promised before the cut and is not in the files of it; and what is at odds in them."""
    found: list[str] = []
    for how, image in cut.images:
        held = inspector.held(image)
        where = f"{cut.at}, un-synced writes {how}"
        found += [f"{where}: {what}" for what in held.wrong]
        found += [f"{where}: {key} had left without a claim" for key in cut.sent - held.claimed]
        found += [f"{where}: the result of {key} had been told" for key in cut.told - held.known]
    return found
