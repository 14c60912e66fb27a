"""One run in this process: its folded state, and appends to it.

Deciding, folding and queueing happen without an await in between, so tasks of one event loop never see a
half-made decision. The state is tentative until the ledger answers; a refusal throws it away and the run
is loaded again. Nobody is told anything before the append that says so is durable.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from amends.core.chain import GENESIS, ChainBroken, EntryHeader, seal, unseal
from amends.core.endings import settle
from amends.core.model import Event, RunState, advance, fold
from amends.core.states import Kind
from amends.errors import AmendsError, LedgerCorrupt
from amends.ports.ledger import Answer, Append, Applied, Ledger
from amends.ports.projection import changed, locks, rows
from amends.ports.world import Clock, Entropy
from amends.service.changes import Changes

Decision = Callable[[RunState, int], Sequence[Event]]

_settling: set[asyncio.Task[None]] = set()
"""Tasks that nobody else holds."""


class RunHandle:
    """The run ``run`` in ``ledger``; not known there yet is an empty state."""

    def __init__(self, run: str, ledger: Ledger, clock: Clock, entropy: Entropy, changes: Changes) -> None:
        self.id = run
        self._ledger, self._clock, self._entropy, self._changes = ledger, clock, entropy, changes
        self.state: RunState = RunState(run)
        self._head = GENESIS
        self._unanswered: list[tuple[str, ...]] = []
        self.reload()

    def durable(self, operation: str) -> bool:
        """Every append that changed ``operation`` has been answered; only then may its state be told to anybody."""
        return not any(operation in touched for touched in self._unanswered)

    def reload(self) -> None:
        """Read the run again and verify its chain."""
        state, head = RunState(self.id), GENESIS
        for entry in self._ledger.load(self.id):
            try:
                header, events = unseal(entry, head)
            except ChainBroken as broken:
                raise LedgerCorrupt(f"{self._ledger.url}: {broken}; keep the file and run amends doctor") from broken
            state, head = fold(state, events, header.at_ms), entry.hash
        self.state, self._head = state, head

    async def decide(self, decision: Decision) -> tuple[Answer, Sequence[Event]]:
        """Ask ``decision`` for events on the newest state and append them; nothing is appended for none.

        A conflict with another process is answered to the caller, with the run loaded again.
        """
        now = self._clock.now_ms()
        events = list(decision(self.state, now))
        if not events:
            return Applied(), events
        before, state = (self.state, self._head), fold(self.state, events, now)
        if settled := settle(state):
            events, state = [*events, *settled], advance(state, settled, now)
        header = EntryHeader(self.id, state.version, self._entropy.append_id(), now, self._entropy.worker)
        entry = seal(header, events, self._head, self._entropy.salt())
        touched = changed(events)
        run_row, operation_rows = rows(state, entry.hash, touched)
        new = frozenset(e.operation for e in events if e.kind is Kind.PROPOSED)
        acquire, release = locks(state, events)
        append = Append(
            entry=entry,
            run=run_row,
            operations=operation_rows,
            new_operations=new,
            previous=self._head,
            acquire=acquire,
            release=release,
        )
        self.state, self._head = state, entry.hash
        self._unanswered.append(touched)
        try:
            answer = await self._ledger.append(append)
        except Exception:
            self.state, self._head = before  # for the case that reading fails as well
            self.reload()
            raise
        except asyncio.CancelledError:
            self._settling(append, touched)
            raise
        finally:
            self._unanswered.remove(touched)
            self._changes.happened(self.id)
        if not isinstance(answer, Applied):
            self.reload()
        return answer, events

    def _settling(self, append: Append, touched: tuple[str, ...]) -> None:
        """Nobody waits for ``append`` any more, yet ``state`` stands on it: ask what became of it."""
        self._unanswered.append(touched)
        task = asyncio.ensure_future(self._settle(append, touched))
        _settling.add(task)
        task.add_done_callback(_settling.discard)

    async def _settle(self, append: Append, touched: tuple[str, ...]) -> None:
        try:
            answer: Answer | None = await self._ledger.append(append)  # the same append id: it is made once
        except AmendsError:
            answer = None
        finally:
            self._unanswered.remove(touched)
            self._changes.happened(self.id)
        if not isinstance(answer, Applied):
            with contextlib.suppress(AmendsError):
                self.reload()
