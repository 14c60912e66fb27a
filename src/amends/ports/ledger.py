"""The port to the ledger: append-only entries and the current state that follows from them.

A write names what it expects. ``append`` puts one entry at the end of one run, together with the rows
that follow from it, in one transaction, if and only if the run still has the version that the entry
builds on. "Not applied" is an answer, not an accident: it names what stood in the way and nothing was
written. An append id makes a repeat of the same append harmless, so a commit in doubt is settled by
appending the same entry again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from amends.core.chain import Entry


class RunRow(NamedTuple):
    """Current state of one run; follows from its entries."""

    id: str
    version: int
    head: bytes
    tenant: str
    type: str
    intent: str
    principal: str
    closed: str | None
    ending: str | None
    opened_at: int
    updated_at: int
    wake_at: int | None
    event: str | None


class OperationRow(NamedTuple):
    """Current state of one operation; follows from its run's entries."""

    id: str
    run: str
    key: str
    action: str
    target: str | None
    state: str
    params_hash: str
    attempts: int
    proposed_at: int
    updated_at: int
    wake_at: int | None
    reason: str
    resource: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """One conditional append.

    Args:
        entry: what is appended; it goes to place ``entry.seq`` and expects ``entry.seq - 1`` before it.
        run: the run's row after it.
        operations: the rows of the operations it changed.
        new_operations: ids among them that must not exist in any run yet.
        acquire: ``(lock name, operation id)`` to take; refused when another operation holds one.
        release: operation ids whose locks are given back.
        previous: hash of the entry it was built on; another one in that place is a conflict, as another
            version is. ``None`` leaves only the chain to be checked, and what does not fit it is an error.
    """

    entry: Entry
    run: RunRow
    operations: tuple[OperationRow, ...] = ()
    new_operations: frozenset[str] = field(default_factory=frozenset)
    acquire: tuple[tuple[str, str], ...] = ()
    release: tuple[str, ...] = ()
    previous: bytes | None = None


class Refusal(StrEnum):
    """Why an append was not applied, in order of precedence: exactly one is given."""

    VERSION_CONFLICT = "version_conflict"
    OPERATION_EXISTS = "operation_exists"
    LOCK_HELD = "lock_held"


class Applied(NamedTuple):
    """The append is durable. ``repeated`` when the same append id was there already."""

    repeated: bool = False


class NotApplied(NamedTuple):
    """Nothing of the append was written. ``holder`` names the operation in the way, where there is one."""

    refusal: Refusal
    holder: str = ""


Answer = Applied | NotApplied


class LedgerCounts(NamedTuple):
    """What has been written through this ledger object, for measuring."""

    commits: int
    appends: int


class Ledger(Protocol):
    """Every method may raise ``LedgerUnavailable`` (try later) and ``LedgerIntegrityError`` (stop)."""

    @property
    def url(self) -> str:
        """Where it is, for messages."""
        ...

    @property
    def counts(self) -> LedgerCounts:
        """Commits and appends so far."""
        ...

    async def open(self) -> None:
        """Open and check it. Idempotent."""
        ...

    async def close(self) -> None:
        """Write what is queued and close. Idempotent."""
        ...

    async def append(self, append: Append) -> Answer:
        """Durable (fsync'd) when it returns ``Applied``. Safe to run concurrently; order of calls is kept.

        A caller that is cancelled while it waits does not withdraw the append.
        """
        ...

    def load(self, run: str) -> list[Entry]:
        """All entries of a run in order; empty when it is not known."""
        ...

    def version(self, run: str) -> int:
        """The run's version; 0 when it is not known. Cheap enough to poll."""
        ...

    def run(self, run: str) -> RunRow | None:
        """The run's row."""
        ...

    def operation(self, operation: str) -> OperationRow | None:
        """The operation's row, whatever run it belongs to."""
        ...

    def due(self, now_ms: int, *, limit: int, after: tuple[int, str] = (-1, "")) -> list[tuple[str, int]]:
        """Runs whose wake is due, oldest first, as ``(run, wake_at)``; ``after`` is ``(wake_at, run)`` to page on."""
        ...

    def next_wake(self) -> int | None:
        """The earliest planned wake of any run."""
        ...

    def runs(
        self,
        *,
        tenant: str | None = None,
        ending: str | None = None,
        limit: int = 100,
        before: int | None = None,
    ) -> list[RunRow]:
        """Runs, newest first; ``before`` is an ``opened_at`` to page on."""
        ...

    def search(self, text: str, *, limit: int = 100) -> Sequence[OperationRow]:
        """Operations whose id, key, run, target or resource is exactly ``text``."""
        ...

    def unresolved(self, *, limit: int = 1000) -> Sequence[OperationRow]:
        """Operations that are neither settled nor at rest before a call."""
        ...
