"""Erasing content: values and salts go, commitments stay, rows are made again from what is left."""

import sqlite3
from collections.abc import Sequence

from amends.core.chain import Entry, erase
from amends.errors import LedgerCorrupt
from amends.ledger.replay import replay
from amends.ledger.sql import QUERIES


def erase_run(db: sqlite3.Connection, run: str, names: Sequence[str] | None) -> int:
    """Erase in the open transaction; the number of entries that changed.

    Raises:
        LedgerCorrupt: the run does not verify. Nothing is erased then: its evidence is still needed.
    """
    entries = [Entry(*row) for row in db.execute(QUERIES["load"], (run,))]
    changed = 0
    left = []
    for entry in entries:
        content = entry.content if entry.content is None else erase(entry.content, names)
        if content != entry.content:
            db.execute(QUERIES["content_erase"], (content, run, entry.seq))
            changed += 1
        left.append(entry._replace(content=content))
    replayed = replay(run, left)
    if replayed.broken:
        why = f"run {run!r} does not verify ({replayed.broken}); nothing was erased: run `amends doctor`"
        raise LedgerCorrupt(why, run=run)
    if changed and replayed.run is not None:
        db.execute(QUERIES["run_replace"], replayed.run)
        db.executemany(QUERIES["operation_replace"], replayed.operations.values())
    return changed
