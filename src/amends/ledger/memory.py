"""The ledger in memory: the same answers as the SQLite one, for tests and trials. Nothing is durable."""

import asyncio
from collections.abc import Sequence

from amends.core.chain import GENESIS, Entry, entry_hash, erase
from amends.core.states import SETTLED, State
from amends.errors import LedgerCorrupt, UsageError
from amends.ledger.batch import APPLIED, CONFLICT, Outcome, broken_chain
from amends.ledger.replay import replay
from amends.ports.ledger import (
    Answer,
    Append,
    Applied,
    LedgerCounts,
    NotApplied,
    OperationRow,
    Refusal,
    RunRow,
)

BEFORE_CALL = frozenset({State.PROPOSED, State.AWAITING_APPROVAL, State.AUTHORIZED, State.PREPARED})
"""At rest: nothing has left, and nothing will without somebody's decision."""


class MemoryLedger:
    """A ledger that lives as long as the object. For one event loop; passes the same conformance suite."""

    def __init__(self) -> None:
        self._entries: dict[str, list[Entry]] = {}
        self._runs: dict[str, RunRow] = {}
        self._operations: dict[str, OperationRow] = {}
        self._locks: dict[str, str] = {}
        self._open = False
        self._appends = 0

    @property
    def url(self) -> str:
        """Where it is, for messages."""
        return "memory:"

    @property
    def counts(self) -> LedgerCounts:
        """Commits and appends so far; each append is a commit of its own."""
        return LedgerCounts(self._appends, self._appends)

    async def open(self) -> None:
        """Nothing to open. Idempotent."""
        self._open = True

    async def close(self) -> None:
        """Nothing to write; what was appended is there again after ``open``. Idempotent."""
        self._open = False

    async def append(self, append: Append) -> Answer:
        """Apply at once, answer a turn later, as the durable ledger does."""
        self._check_use()
        outcome = self._put(append)
        await asyncio.sleep(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def erase(self, run: str, names: Sequence[str] | None = None) -> int:
        """Erase content of ``run``; see ``SqliteLedger.erase``."""
        self._check_use()
        entries = self._entries.get(run, [])
        left = [e if e.content is None else e._replace(content=erase(e.content, names)) for e in entries]
        changed = sum(old != new for old, new in zip(entries, left, strict=True))
        replayed = replay(run, left)
        if replayed.broken:
            raise LedgerCorrupt(f"run {run!r} does not verify ({replayed.broken}); nothing was erased", run=run)
        if changed and replayed.run is not None:
            self._entries[run], self._runs[run] = left, replayed.run
            self._operations.update(replayed.operations)
        return changed

    def load(self, run: str) -> list[Entry]:
        """All entries of a run in order; empty when it is not known."""
        self._check_use()
        return list(self._entries.get(run, ()))

    def version(self, run: str) -> int:
        """The run's version; 0 when it is not known."""
        self._check_use()
        return self._runs[run].version if run in self._runs else 0

    def run(self, run: str) -> RunRow | None:
        """The run's row."""
        self._check_use()
        return self._runs.get(run)

    def operation(self, operation: str) -> OperationRow | None:
        """The operation's row, whatever run it belongs to."""
        self._check_use()
        return self._operations.get(operation)

    def due(self, now_ms: int, *, limit: int, after: tuple[int, str] = (-1, "")) -> list[tuple[str, int]]:
        """Runs whose wake is due, oldest first; ``after`` is ``(wake_at, run)`` to page on."""
        wakes = sorted((wake, run) for run, wake in self._wakes() if wake <= now_ms and (wake, run) > after)
        return [(run, wake) for wake, run in wakes[:limit]]

    def next_wake(self) -> int | None:
        """The earliest planned wake of any run."""
        return min((wake for _, wake in self._wakes()), default=None)

    def runs(
        self,
        *,
        tenant: str | None = None,
        ending: str | None = None,
        limit: int = 100,
        before: int | None = None,
    ) -> list[RunRow]:
        """Runs, newest first."""
        self._check_use()
        found = [
            row
            for row in self._runs.values()
            if (tenant is None or row.tenant == tenant)
            and (ending is None or row.ending == ending)
            and (before is None or row.opened_at < before)
        ]
        return sorted(found, key=lambda row: (row.opened_at, row.id), reverse=True)[:limit]

    def search(self, text: str, *, limit: int = 100) -> Sequence[OperationRow]:
        """Operations whose id, key, run, target or resource is exactly ``text``."""
        found = [o for o in self._operations.values() if text in (o.id, o.key, o.run, o.target, o.resource)]
        return self._oldest(found, limit)

    def unresolved(self, *, limit: int = 1000) -> Sequence[OperationRow]:
        """Operations that are neither settled nor at rest before a call."""
        rest = SETTLED | BEFORE_CALL
        return self._oldest([o for o in self._operations.values() if State(o.state) not in rest], limit)

    def _check_use(self) -> None:
        if not self._open:
            raise UsageError("the ledger 'memory:' is not open; `await ledger.open()` first")

    def _oldest(self, rows: list[OperationRow], limit: int) -> list[OperationRow]:
        self._check_use()
        return sorted(rows, key=lambda row: (row.proposed_at, row.id))[:limit]

    def _wakes(self) -> list[tuple[str, int]]:
        self._check_use()
        return [(row.id, row.wake_at) for row in self._runs.values() if row.wake_at is not None]

    def _put(self, append: Append) -> Outcome:
        outcome = self._check(append)
        if outcome is APPLIED:
            self._write(append)
            self._appends += 1
        return outcome

    def _check(self, append: Append) -> Outcome:
        entry = append.entry
        entries = self._entries.get(entry.run, [])
        if len(entries) != entry.seq - 1:
            there = 0 < entry.seq <= len(entries) and entries[entry.seq - 1].append_id == entry.append_id
            return Applied(repeated=True) if there else CONFLICT
        head = entries[-1].hash if entries else GENESIS
        if append.previous not in (None, head):
            return CONFLICT
        if entry_hash(head, entry.body) != entry.hash:
            return broken_chain(append)
        for operation in append.new_operations:
            if operation in self._operations:
                return NotApplied(Refusal.OPERATION_EXISTS, operation)
        wanted: dict[str, str] = {}
        for name, operation in append.acquire:
            other = wanted.setdefault(name, operation)
            holder = self._locks.get(name)
            if holder is not None and holder not in append.release and holder != operation:
                other = holder
            if other != operation:
                return NotApplied(Refusal.LOCK_HELD, other)
        return APPLIED

    def _write(self, append: Append) -> None:
        entry, run = append.entry, append.run
        self._entries.setdefault(entry.run, []).append(entry)
        old = self._runs.get(run.id)
        if old is not None:
            run = run._replace(event=old.event)
        self._runs[run.id] = run
        for row in append.operations:
            before = self._operations.get(row.id)
            self._operations[row.id] = row if before is None else row._replace(target=before.target)
        self._locks = {name: holder for name, holder in self._locks.items() if holder not in append.release}
        self._locks.update(append.acquire)
