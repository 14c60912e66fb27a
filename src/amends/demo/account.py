"""What a run came to: its record, and beside it what the destinations themselves count.

The counts never pass through our ledger, and they are taken by the destination's own filters, so a second
effect would show even under another key.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from amends.core.canonical import decode_value
from amends.core.history import History
from amends.core.model import Operation
from amends.core.money import Money
from amends.core.record import Record, record
from amends.demo.scenarios import FAULTS, Scenario, Step
from amends.demo.stage import Performance
from amends.ledger.snapshot import WAITING, snapshot
from amends.testing.rehearsal.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One effect: what was intended, attempted, found and verified, in words, and how often it was counted."""

    action: str
    intended: str
    attempted: str
    found: str
    verified: str
    counted: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One run. ``effects`` and ``expected`` are counts by destination; see ``scenarios.Step``."""

    scenario: str
    fault: str
    run: str
    ending: str
    expected_ending: str
    effects: Mapping[str, int]
    expected: Mapping[str, int]
    attempts: int
    unresolved: Sequence[str]
    ledger: str
    lines: Sequence[Line] = field(default=(), repr=False)

    @property
    def ok(self) -> bool:
        """Effects and ending are right."""
        return dict(self.effects) == dict(self.expected) and self.ending == self.expected_ending

    def to_json(self) -> dict[str, Any]:
        """The line of ``amends demo --json``."""
        names = ("scenario", "fault", "run", "ending", "effects", "expected", "attempts", "unresolved", "ok", "ledger")
        return {name: getattr(self, name) for name in names}


def account(it: Performance, fault: str, expected: Mapping[str, int]) -> Account:
    """Count at the destinations, and read the record beside it."""
    with snapshot(it.stage.ledger) as look:
        history = look.history(it.run)
    operations = history.state.operations.values()
    effects = counted(it.stage.world, it.scenario, it.order)
    return Account(
        scenario=it.scenario.name,
        fault=fault,
        run=it.run,
        ending=history.state.ending or WAITING,
        expected_ending=FAULTS[fault].ending,
        effects=effects,
        expected=expected,
        attempts=sum(operation.attempts for operation in operations),
        unresolved=[operation.id for operation in operations if not operation.settled],
        ledger=str(it.stage.ledger),
        lines=[_line(step, history, effects, expected) for step in it.scenario.steps],
    )


def counted(world: World, scenario: Scenario, order: str) -> dict[str, int]:
    """Destination → how many effects of this order are in its own store."""
    return {step.destination: _count(world, step, order) for step in scenario.steps}


def _count(world: World, step: Step, order: str) -> int:
    name, value = step.counted_by
    return world[step.destination].effects(**{name: value.format(order=order)})[step.kind]


def _line(step: Step, history: History, effects: Mapping[str, int], expected: Mapping[str, int]) -> Line:
    made, right = effects[step.destination], expected[step.destination]
    counted = f"{step.destination}: {made} of {right} {step.kind}"
    asked = [op for op in history.state.operations.values() if op.action == step.action]
    if not asked:
        blocked = "not asked for: blocked"
        return Line(action=step.action, intended=blocked, attempted="0", found="-", verified="-", counted=counted)
    [operation] = asked
    kept = record(history.of(operation.id))
    return Line(
        action=step.action,
        intended=_intended(operation),
        attempted=str(operation.attempts),
        found=_found(operation, kept),
        verified=_verified(operation, kept),
        counted=counted,
    )


def _intended(operation: Operation) -> str:
    amount = (operation.arguments or {}).get("amount")
    money = decode_value(amount) if amount is not None else None
    return f"{operation.target}, {money}" if isinstance(money, Money) else str(operation.target)


def _found(operation: Operation, kept: Record) -> str:
    resource = (operation.receipt or {}).get("resource")
    if any(lookup["found"] == "found" for lookup in kept.lookups):
        return f"{resource}, by lookup {len(kept.lookups)}"
    if resource is not None:
        return f"{resource}, by the answer"
    return f"nobody could tell ({len(kept.lookups)} lookups)"


def _verified(operation: Operation, kept: Record) -> str:
    if not operation.settled:
        return f"no: {operation.state.value}"
    by = [said.get("by") for said in kept.verification if said["result"] == "verified"]
    return f"yes, by {'a read' if by[-1:] == ['read'] else 'the record'}" if by else f"no: {operation.state.value}"
