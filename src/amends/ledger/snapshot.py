"""One look at a ledger, for commands that only read: nothing is made, migrated, locked or recovered.

All answers come from one snapshot, so a table and the counts beside it agree although others append.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from amends.core.chain import ChainBroken, Entry
from amends.core.history import History, history
from amends.core.identity import IdentityError, operation_of, run_id
from amends.core.limits import RUN_OPERATIONS_MAX
from amends.core.model import IllegalTransition
from amends.errors import LedgerCorrupt
from amends.ledger.connection import reading
from amends.ledger.sql import QUERIES
from amends.ports.ledger import OperationRow, RunRow

DEFAULT_TENANT = "default"
WAITING = "waiting"
"""What stands for the ending of a run that has none yet."""


EVENT_RUNS_MAX = 100
"""Runs that one event names: each tenant has one, and a person reads what they are told."""


def _run_of(tenant: str | None, event: str) -> str | None:
    """The run's id, where ``tenant`` and ``event`` can have one."""
    try:
        return run_id(tenant or DEFAULT_TENANT, event)
    except IdentityError:
        return None


class Snapshot:
    """What the ledger held at one moment; used inside ``with snapshot(path)``."""

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        self._db = db
        self.path: Path = path

    def _read(self, name: str, *values: Any) -> list[Any]:
        return self._db.execute(QUERIES[name], values).fetchall()

    def run(self, run: str) -> RunRow | None:
        """The run's row."""
        rows = self._read("run", run)
        return RunRow(*rows[0]) if rows else None

    def runs(
        self,
        *,
        tenant: str | None,
        ending: str | None,
        before: str | None,
        limit: int,
        without: str = "",
        event: str | None = None,
    ) -> list[RunRow]:
        """Runs, newest first; ``ending`` may be ``waiting``; ``before`` is the run after which a page ended.

        Runs of the type ``without`` are left out. ``event`` is exact; see ``of_event``.
        """
        known = _run_of(tenant, event) if event else None
        rows = self._read("runs_page", tenant, ending, before, limit, without, event, known)
        return [RunRow(*row) for row in rows]

    def of_event(self, event: str, *, tenant: str | None) -> list[str]:
        """The runs of a business event, oldest first: one in each tenant, at most a hundred of them.

        No index holds events, which would cost every run a write; so this reads the runs one by one. A run
        whose event was erased is found where its tenant is named, by the id that follows from both.
        """
        return [run for (run,) in self._read("runs_of_event", event, tenant, _run_of(tenant, event), EVENT_RUNS_MAX)]

    def states(self, run: str) -> dict[str, int]:
        """How many operations of ``run`` stand in which state."""
        return dict(self._read("states_of_run", run))

    def search(self, text: str) -> Sequence[OperationRow]:
        """Operations whose id, key, run, target or resource is exactly ``text``, oldest first."""
        return [OperationRow(*row) for row in self._read("search", text, operation_of(text), RUN_OPERATIONS_MAX)]

    def pending(self, *, limit: int) -> Sequence[OperationRow]:
        """Operations that are not settled, and those that wait for an approval."""
        names = ("unresolved", "awaiting_approval")
        return [OperationRow(*row) for name in names for row in self._read(name, limit)]

    def open_runs(self, *, limit: int) -> list[str]:
        """Runs that their program has left, or that have an ending, and of which something is open, oldest first."""
        return [run for (run,) in self._read("open_runs", limit)]

    def due(self, now_ms: int, *, limit: int) -> list[str]:
        """Runs whose wake is due, oldest first."""
        return [run for run, _ in self._read("due", now_ms, limit, -1, "")]

    def history(self, run: str) -> History:
        """The run's verified steps.

        Raises:
            LedgerCorrupt: its entries do not verify, or end before its row does.
        """
        entries = [Entry(*row) for row in self._read("load", run)]
        try:
            told = history(run, entries)
        except (
            ChainBroken,
            IllegalTransition,
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
            RecursionError,
        ) as error:
            raise self._corrupt(run, f"{type(error).__name__}: {error}") from error
        row = self.run(run)
        if row is not None and row.version != told.state.version:
            raise self._corrupt(run, f"its row knows {row.version} entries, {told.state.version} are there")
        return told

    def _corrupt(self, run: str, why: str) -> LedgerCorrupt:
        return LedgerCorrupt(
            f"run {run!r} in the ledger {str(self.path)!r} does not verify: {why}; "
            "keep the file as it is and run `amends doctor`",
            path=str(self.path),
            run=run,
        )


@contextlib.contextmanager
def snapshot(path: str | os.PathLike[str]) -> Iterator[Snapshot]:
    """Open the ledger at ``path`` for one look.

    Raises:
        LedgerUnavailable: there is none, or it cannot be read here.
        LedgerIntegrityError: it is no ledger, a newer one, or does not verify.
    """
    with reading(path) as db:
        yield Snapshot(db, Path(os.path.realpath(path)))
