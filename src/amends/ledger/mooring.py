"""Is the open file still the one that its path names?

SQLite holds its file open and goes on writing when the name is gone: a claim would be durable where no
other process, and no restart, ever looks. Two processes could then each claim one key, in a file of its
own (https://www.sqlite.org/howtocorrupt.html, "unlinking or renaming a database file while in use"). So
after every commit three names are looked at again:

    ledger.db        moved, removed, or another file in its place
    ledger.db-wal    its newest commits; without it a crash loses them
    ledger.db-shm    the index and the locks of the log; another process would make a second one

The look comes after the commit and before anybody is told: what is acknowledged was durable under its name.
Once lost, the ledger stays refused until it is opened again, so that nothing is made in its place. Three
``stat`` cost 5 µs a commit. A descriptor of our own would be dearer: closing one drops SQLite's locks.
"""

import os
from pathlib import Path
from typing import Final

from amends.errors import LedgerUnavailable

_SUFFIXES: Final = ("", "-wal", "-shm")

_Place = tuple[int, int]  # device and inode


class Mooring:
    """What the names of one open ledger stand for."""

    def __init__(self, path: Path) -> None:
        self._names = [f"{path}{suffix}" for suffix in _SUFFIXES]
        self._held: list[_Place] = []
        self._lost: list[str] = []

    def before_connecting(self) -> None:
        """Refuse to connect where that would open, or make, another file than the one that was open.

        Raises:
            LedgerUnavailable: the ledger's own name does not stand for it any more.
        """
        if self._held:
            self._compare(1)

    def connected(self) -> None:
        """Keep what the names stand for now. A new connection may have made a new log."""
        self.refuse_if_lost()
        self._held = [_place(name) for name in self._names]

    def check(self) -> None:
        """Look at every name again.

        Raises:
            LedgerUnavailable: one of them was moved, removed or replaced.
        """
        self._compare(len(_SUFFIXES))

    def refuse_if_lost(self) -> None:
        """Without looking again.

        Raises:
            LedgerUnavailable: an earlier look found a name gone.
        """
        if self._lost:
            raise self._error()

    def _compare(self, count: int) -> None:
        self.refuse_if_lost()
        self._lost = [name for name, held in zip(self._names[:count], self._held, strict=False) if _place(name) != held]
        self.refuse_if_lost()

    def _error(self) -> LedgerUnavailable:
        path = self._names[0]
        what = f"the ledger {path!r}"
        if path not in self._lost:
            what = f"the log of the ledger {path!r} ({' and '.join(map(repr, self._lost))})"
        return LedgerUnavailable(
            f"{what} was moved, removed or replaced while this program had it open: what is recorded now would "
            "not be found there, so nothing more is acknowledged and nothing will be sent; end the program, put the "
            "file back, start the program again and run `amends doctor`",
            path=path,
            lost=self._lost,
        )


def _place(name: str) -> _Place:
    try:
        found = os.stat(name)
    except OSError:
        return (-1, -1)  # no file has it, so nothing that was held equals it
    return found.st_dev, found.st_ino
