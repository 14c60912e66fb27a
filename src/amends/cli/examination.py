"""What ``amends doctor`` looks at: the environment, the ledger's place, and the record itself."""

import os
import platform
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from amends.cli.version import version
from amends.errors import AmendsError, LedgerUnavailable, UsageError
from amends.ledger import anchor as anchors
from amends.ledger import rebuild
from amends.ledger.connection import reading
from amends.ledger.filesystem import check_place, filesystem
from amends.ledger.regular import odd
from amends.ledger.secret_file import secret_path
from amends.ledger.sql import QUERIES

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SQLITE_MIN = (3, 33)
"""The oldest SQLite whose tables and statements are ours (``sqlite_schema``)."""


class Examined(NamedTuple):
    """One thing that was looked at; see ``doctor.KEYS``."""

    check: str
    result: str
    says: str
    run: str = ""
    operation: str = ""


def environment() -> Iterator[Examined]:
    """Python, SQLite, Amends."""
    yield Examined("amends", "ok", version())
    yield Examined("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.release()}")
    old = sqlite3.sqlite_version_info < SQLITE_MIN
    wanted = f"; {'.'.join(map(str, SQLITE_MIN))} or newer is needed" if old else ""
    yield Examined("sqlite", "finding" if old else "ok", sqlite3.sqlite_version + wanted)
    yield _synchronous()


def _synchronous() -> Examined:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute(QUERIES["synchronous_full"])
        level = db.execute(QUERIES["synchronous"]).fetchone()[0]
    if level != 2:
        says = f"this SQLite answers synchronous={level}, not 2 (FULL): a commit could be lost with the power"
        return Examined("synchronous", "finding", says)
    return Examined("synchronous", "ok", "FULL is kept: a commit is on the disk before it is told")


def ledger(path: Path, *, rebuild_check: bool) -> Iterator[Examined]:
    """The place of the ledger, how it opens, and whether everything in it follows from its entries."""
    place = Path(os.path.realpath(path))
    try:
        with reading(place) as db:
            journal = str(db.execute(QUERIES["journal_mode"]).fetchone()[0])
            entries = int(db.execute(QUERIES["positions"]).fetchone()[0])
    except AmendsError as error:
        yield Examined(error.code, "integrity", error.message)
        return
    yield Examined("opens", "ok", f"{str(place)!r} holds {entries} entries")
    yield from _place(place, journal)
    yield from _secret(place)
    findings = rebuild.check(place)
    yield from (Examined(f.kind, "integrity", f.what, f.run, f.operation) for f in findings)
    if not findings:
        says = "SQLite's integrity check, every run's chain, and every row against its entries"
        yield Examined("record", "ok", says)
        if rebuild_check:
            yield _rebuilt(place)


def _place(place: Path, journal: str) -> Iterator[Examined]:
    try:
        check_place(place)
        yield Examined("place", "ok", f"filesystem {filesystem(place.parent) or 'unknown'}")
    except LedgerUnavailable as error:
        yield Examined("place", "finding", error.message)
    # A snapshot that had to do without shared memory answers "off" or "delete" for a WAL file.
    header = place.read_bytes()[18:20] if journal != "wal" else b"\x02\x02"
    if header == b"\x02\x02":
        yield Examined("journal", "ok", "WAL")
    else:
        yield Examined("journal", "finding", f"{journal}, not WAL; it is set when a program next opens the ledger")


def _secret(place: Path) -> Iterator[Examined]:
    """The secret beside the ledger, where there is one: only its owner may read it."""
    secret = secret_path(place)
    if not os.path.lexists(secret):
        return
    kind = odd(secret)
    if kind:
        yield Examined(
            "secret", "finding", f"{str(secret)!r} is {kind} and not a regular file; name a secret elsewhere"
        )
    elif secret.stat().st_mode & 0o077:
        says = f"{str(secret)!r}, which opens sensitive arguments, can be read by others; `chmod 600` it"
        yield Examined("secret", "finding", says)
    else:
        yield Examined("secret", "ok", f"{str(secret)!r} can be read by its owner alone")


def _rebuilt(place: Path) -> Examined:
    """Rebuild a copy from its entries alone, and compare every row with what stood there."""
    with tempfile.TemporaryDirectory(prefix="amends-doctor-") as directory:
        copy = Path(directory) / "copy.db"
        with reading(place) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        before = _rows(copy)
        count = rebuild.rebuild(copy)
        same = _rows(copy) == before
    if not same:
        return Examined("rebuild", "integrity", "tables made anew from the entries differ from those that are there")
    return Examined("rebuild", "ok", f"the tables of {count} runs, made anew from the entries in a copy, are the same")


def _rows(path: Path) -> list[list[tuple[object, ...]]]:
    with reading(path) as db:
        return [db.execute(QUERIES[name]).fetchall() for name in ("all_runs", "all_operations", "all_locks")]


def anchored(path: Path, *, anchor: str, checkpoint: str, key: str, public_key: str) -> Iterator[Examined]:
    """What only a second place can show: verify its checkpoints, or write one."""
    if anchor:
        yield from _verify(path, anchor, _public(key, public_key))
    elif not checkpoint:
        yield Examined("anchor", "note", rebuild.WITHOUT_ANCHOR)
    if checkpoint:
        yield _write(path, checkpoint, key)


def _public(key: str, public_key: str) -> bytes:
    if public_key:
        try:
            return bytes.fromhex(public_key)
        except ValueError:
            raise UsageError(f"--public-key {public_key!r} is not hexadecimal; pass 64 of its digits") from None
    return _loaded(key).public_key().public_bytes_raw()


def _loaded(key: str) -> "Ed25519PrivateKey":
    if not key:
        raise UsageError("checkpoints need their key; pass --key FILE, or make one with --create-key FILE")
    return anchors.load_key(key)


def _verify(path: Path, anchor: str, public: bytes) -> Iterator[Examined]:
    if not os.path.lexists(anchor):
        raise UsageError(f"there is no anchor file {anchor!r}; name the one that --checkpoint writes")
    lines = anchors.count(anchor)
    try:
        findings = anchors.verify_anchor(path, anchor, public)
    except UsageError:
        raise
    except AmendsError as error:
        yield Examined(error.code, "integrity", error.message)
        return
    yield from (Examined(f.kind, "integrity", f.what) for f in findings)
    if not lines:
        yield Examined("anchor", "integrity", f"{anchor!r} holds no checkpoint; one that was there is gone")
    elif not findings:
        says = f"the ledger carries all {lines} signed checkpoints of {anchor!r}"
        yield Examined("anchor", "ok", f"{says}; {_not_covered(path, anchor)}")


def _not_covered(path: Path, anchor: str) -> str:
    """What was recorded since the newest checkpoint: a cut there would not show."""
    with reading(path) as db:
        entries = int(db.execute(QUERIES["positions"]).fetchone()[0])
    newest = anchors.newest(anchor)
    since = entries - (newest.entries if newest else 0)
    if not since:
        return "nothing was recorded since the newest"
    return f"{since} of {entries} entries came after the newest, and a cut among those would not show: sign again"


def _write(path: Path, checkpoint: str, key: str) -> Examined:
    made = _loaded(key)
    try:
        written = anchors.write_checkpoint(path, checkpoint, made, at_ms=time.time_ns() // 1_000_000)
    except UsageError:
        raise
    except AmendsError as error:
        return Examined("checkpoint", "integrity", error.message)
    says = f"{written.entries} entries up to position {written.position} are signed in {checkpoint!r}"
    return Examined("checkpoint", "ok", says)
