"""The yardstick: what the disk gives for one small row committed at a time, and on what filesystem.

The same durability as the ledger's — WAL, ``synchronous=FULL``, one connection, the same directory — and
nothing else: one table, a row of 100 bytes, no index, one statement a commit. It is measured in short
slices between the other measurements, so that a noisy neighbour slows both sides of a ratio.
"""

import os
import sqlite3
import sys
import time
from pathlib import Path
from typing import Final

from amends.bench.sample import Sample
from amends.ledger.filesystem import filesystem

ROW_BYTES: Final = 100
"""One small row: less than any entry of a ledger, so the yardstick is not flattered by its payload."""


class Disk:
    """Single-row commits in the file ``raw.db`` of ``directory``."""

    def __init__(self, directory: Path) -> None:
        self._row = os.urandom(ROW_BYTES)
        self._db = sqlite3.connect(directory / "raw.db", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL").fetchall()
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("CREATE TABLE raw (id INTEGER PRIMARY KEY, row BLOB NOT NULL)")

    def slice(self, commits: int) -> Sample:
        """Make ``commits`` commits, one after another."""
        sample = Sample.begin()
        for _ in range(commits):
            self._db.execute("INSERT INTO raw (row) VALUES (?)", (self._row,))
        return sample.end(operations=commits, commits=commits)

    @property
    def synchronous(self) -> str:
        """What SQLite says of the durability of these commits."""
        level = self._db.execute("PRAGMA synchronous").fetchone()[0]
        return {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}[level]

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def place(directory: Path) -> str:
    """The type of the filesystem that holds ``directory``, in a word."""
    return filesystem(directory) or f"unknown ({sys.platform})"


def processor() -> str:
    """The processor's name and how many of them there are."""
    name = ""
    if sys.platform.startswith("linux"):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return f"{name or 'unknown'} × {os.cpu_count()}"


def sync_us(directory: Path, *, times: int) -> float:
    """Microseconds of one ``write`` of 4 KiB and ``fdatasync`` over existing blocks; the median."""
    block, taken = os.urandom(4096), []
    handle = os.open(directory / "sync.bin", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        for _ in range(times):
            began = time.perf_counter_ns()
            os.pwrite(handle, block, 0)
            os.fdatasync(handle) if hasattr(os, "fdatasync") else os.fsync(handle)
            taken.append(time.perf_counter_ns() - began)
    finally:
        os.close(handle)
    return sorted(taken)[len(taken) // 2] / 1000
