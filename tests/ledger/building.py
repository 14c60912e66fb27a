"""Real events, sealed: runs with one operation that goes through its whole life."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from amends.core.chain import GENESIS, EntryHeader, seal
from amends.core.model import Event, RunState, fold
from amends.core.states import Kind
from amends.ports.ledger import Append
from amends.ports.projection import changed, rows


@dataclass
class Run:
    """A run as its service would drive it: events in, appends out."""

    id: str
    at: int = 1_000
    tenant: str = "acme"
    state: RunState = field(init=False)
    head: bytes = GENESIS

    def __post_init__(self) -> None:
        self.state = RunState(id=self.id)

    def peek(self, events: Sequence[Event], *, append_id: str = "", **more: Any) -> Append:
        """The append of ``events``, without moving on."""
        seq = self.state.version + 1
        header = EntryHeader(self.id, seq, append_id or f"{self.id}/{seq}", self.at + seq, "worker-1")
        salt = hashlib.sha256(f"{self.id}{seq}".encode()).digest()[:16]
        entry = seal(header, events, self.head, salt)
        state = fold(self.state, events, header.at_ms)
        run, operations = rows(state, entry.hash, changed(events))
        new = frozenset(e.operation for e in events if e.kind is Kind.PROPOSED)
        return Append(entry=entry, run=run, operations=operations, new_operations=new, **more)

    def next(self, events: Sequence[Event], **more: Any) -> Append:
        """The append of ``events``; the run goes on from there."""
        append = self.peek(events, **more)
        self.state = fold(self.state, events, self.at + append.entry.seq)
        self.head = append.entry.hash
        return append

    def opened(self, **facts: Any) -> Append:
        return self.next([opened(self.tenant, **facts)])


def opened(tenant: str = "acme", **facts: Any) -> Event:
    plain = {"tenant": tenant, "type": "refund", "intent": "in_1", "principal": "agent:7"}
    return Event(Kind.RUN_OPENED, "", {**plain, **facts}, {"event": "crm:ticket-9", "reason": "asked by phone"})


def proposed(operation: str, *, target: str = "order:18431", note: str = "sorry") -> list[Event]:
    facts = {
        "key": f"key-{operation}",
        "action": "refund",
        "recovery": "compensate",
        "params_hash": "ab" * 32,
        "effect_version": "1",
        "identity": "declared",
        "arguments": 2,
    }
    content = {"target": target, "argument.note": note, "argument.amount": 8500}
    said = {"policy": "permit-1", "policy_version": "3"}
    return [Event(Kind.PROPOSED, operation, facts, content), Event(Kind.AUTHORIZED, operation, said)]


def claimed(operation: str, *, wake_at: int | None = 9_000) -> list[Event]:
    facts = {"attempt": 1, "worker": "worker-1", "budget_ends_at": 9_000, "wake_at": wake_at}
    return [Event(Kind.PREPARED, operation, {"checks": {}}), Event(Kind.COMMIT_STARTED, operation, facts)]


def responded(operation: str, *, resource: str = "re_1") -> list[Event]:
    receipt = {"receipt": {"resource": resource, "state": "succeeded"}}
    return [
        Event(Kind.RESPONSE_RECEIVED, operation, {"attempt": 1}, receipt),
        Event(Kind.POSTCONDITION_VERIFIED, operation, {"by": "receipt"}),
    ]


def life(run: str, operation: str, **more: Any) -> list[Append]:
    """Four appends: opened, proposed, claimed, verified."""
    it = Run(run, **more)
    first = it.opened()
    return [first, *(it.next(make(operation)) for make in (proposed, claimed, responded))]
