"""The state of a run as a fold over its events.

``apply(state, event, at_ms)`` is the only way a state changes; it is total over legal events and raises
``IllegalTransition`` for all others, with the state unchanged (states are immutable values). It never
looks at a clock, at policy or at the outside world: whatever mattered then stands in the event.

Facts are chained and stay for ever. Content (arguments, receipts, prose) may have been erased when a
run is folded again; the fold then carries ``None`` in its place and every decision still stands.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from amends.core import end_state
from amends.core.end_state import NOT_ASKED, EndState
from amends.core.limits import REVISIONS_MAX
from amends.core.states import BETWEEN_RUNS, SETTLED, UNRESOLVED, Kind, State, next_state

NEVER_HAPPENED: Final = "late_arrival_bound_passed"
"""The reason of an absence that proves that no attempt so far happened or will."""

WITHDRAWALS: Final = frozenset({Kind.CANCELLED, Kind.EXPIRED})
"""Events that say of an operation that nothing of it happened and nothing will."""

NO_CONTENT: Final[Mapping[str, Any]] = MappingProxyType({})


class Event(NamedTuple):
    """One thing that happened. ``facts`` are chained in clear; ``content`` may be erased one day."""

    kind: Kind
    operation: str = ""
    facts: Mapping[str, Any] = NO_CONTENT
    content: Mapping[str, Any] = NO_CONTENT


class IllegalTransition(Exception):
    """An event that the transition table does not allow where it was met."""

    def __init__(self, state: State | str, kind: Kind) -> None:
        super().__init__(f"{kind.value} cannot happen to an operation that is {state}")
        self.state = state
        self.kind = kind


class Operation(NamedTuple):
    """One consequential action, as far as the ledger knows. Times are wall-clock milliseconds."""

    id: str
    key: str
    action: str
    recovery: str
    state: State
    params_hash: str
    effect_version: str
    identity: str
    occurrence: str = ""
    revision: int = 0
    previous: str = ""
    proposed_at: int = 0
    attempts: int = 0
    unknown_attempts: int = 0
    first_claim_at: int = 0
    attempt_at: int = 0
    attempt_ends_at: int = 0
    claimed_by: str = ""
    lookups: int = 0
    verifications: int = 0
    verify_since: int = 0
    wake_at: int | None = None
    reason: str = ""
    resource_version: str | None = None
    pre_state: Mapping[str, Any] | None = None
    lock: str = ""
    target: str | None = None
    arguments: Mapping[str, Any] | None = None
    receipt: Mapping[str, Any] | None = None
    late_receipt: Mapping[str, Any] | None = None
    detail: str | None = None
    last_end: str = ""
    last_detail: str | None = None

    @property
    def resting(self) -> bool:
        """Unresolved, and no pass is planned: it waits for a person."""
        return self.state in UNRESOLVED and self.wake_at is None

    @property
    def may_be_asked_anew(self) -> bool:
        """Nothing happened, and nobody said no to it: the same wish asked again is a linked revision.

        A check of its preparation failed before anything was ever sent, its time passed first, or its attempts
        were spent on a destination that was away. A refusal by the destination is an answer, and stays one.
        """
        if self.revision >= REVISIONS_MAX:
            return False
        if self.state is State.NOT_COMMITTED:
            unprepared = not self.attempts and self.reason.startswith("check:")
            return unprepared or self.reason == "attempts_spent"
        return self.state is State.EXPIRED

    @property
    def in_doubt(self) -> bool:
        """An attempt's outcome was never known, and nothing proves that it did not and will not happen."""
        return self.unknown_attempts > 0 and self.reason != NEVER_HAPPENED

    @property
    def counted_pass(self) -> bool:
        """A verifying read was counted and what it found is not recorded yet."""
        return self.state is State.VERIFYING and not self.reason

    @property
    def settled(self) -> bool:
        """No work is owed for it."""
        return self.state in SETTLED

    @property
    def unfinished(self) -> bool:
        """It is not settled, or a pass is planned for it all the same."""
        return self.state not in SETTLED or self.wake_at is not None


class Joined(NamedTuple):
    """An operation of another run that this run asked for as well: same intent, action and target."""

    run: str
    state: State
    wake_at: int | None = None


class RunState(NamedTuple):
    """One run, folded. ``version`` is the number of entries; ``ending`` is ``None`` while it waits."""

    id: str
    version: int = 0
    tenant: str = ""
    type: str = ""
    intent: str = ""
    principal: str = ""
    event: str | None = None
    reason: str | None = None
    opened_at: int = 0
    updated_at: int = 0
    deadline_at: int | None = None
    closed: str | None = None
    closed_at: int = 0
    end_state: EndState = NOT_ASKED
    ending: str | None = None
    operations: Mapping[str, Operation] = MappingProxyType({})
    joined: Mapping[str, Joined] = MappingProxyType({})
    joiners: Mapping[str, Mapping[str, State]] = MappingProxyType({})
    sealed: Mapping[str, Any] = MappingProxyType({})
    gathered: Mapping[str, Operation] | None = None

    @property
    def unfinished(self) -> Mapping[str, Operation]:
        """The operations that are not settled or have a wake.

        A fold keeps them in ``gathered``, so that what is asked of every append does not grow with the run;
        a state that was put together by hand has them looked for.
        """
        if self.gathered is not None:
            return self.gathered
        return {name: operation for name, operation in self.operations.items() if operation.unfinished}

    @property
    def untold(self) -> list[tuple[str, str]]:
        """``(operation, run)`` where another run that shares an operation does not know how it stands now.

        While an operation is not settled, that run looks by itself.
        """
        return [
            (name, run)
            for name, knows in self.joiners.items()
            for run, told in knows.items()
            if name in self.operations
            and (now := self.operations[name].state) is not told
            and (now in SETTLED or told in SETTLED)
        ]

    @property
    def wake_at(self) -> int | None:
        """When work is next due for the run, if ever."""
        times = [op.wake_at for op in self.unfinished.values() if op.wake_at is not None]
        times += [other.wake_at for other in self.joined.values() if other.wake_at is not None]
        if self.end_state.wake_at is not None:
            times.append(self.end_state.wake_at)
        if self.deadline_at is not None and self.closed is None:
            times.append(self.deadline_at)
        if self.joiners and self.untold:
            times.append(self.updated_at)
        return min(times, default=None)


def apply(state: RunState, event: Event, at_ms: int) -> RunState:
    """``state`` after ``event``, which was recorded at ``at_ms``.

    Raises:
        IllegalTransition: the table does not allow it; ``state`` is unchanged.
    """
    return advance(state, (event,), at_ms)


def advance(state: RunState, events: Iterable[Event], at_ms: int) -> RunState:
    """``state`` after ``events``, as ``apply`` one by one would make it; the version stays.

    Raises:
        IllegalTransition: the table does not allow one of them; ``state`` is unchanged.
    """
    operations, unfinished, updated_at = dict(state.operations), dict(state.unfinished), state.updated_at
    for event in events:
        updated_at, name = at_ms, event.operation
        if not name or event.kind in BETWEEN_RUNS:
            state = _apply_run(state, event, at_ms)
            continue
        operation = operations[name] = _next(operations.get(name), event, at_ms)
        if operation.unfinished:
            unfinished[name] = operation
        else:
            unfinished.pop(name, None)
    return state._replace(operations=operations, gathered=unfinished, updated_at=updated_at)


def fold(state: RunState, events: Iterable[Event], at_ms: int) -> RunState:
    """``state`` after all the events of one entry; the version grows by one."""
    return advance(state, events, at_ms)._replace(version=state.version + 1)


def _apply_run(state: RunState, event: Event, at_ms: int) -> RunState:
    facts, content = event.facts, event.content
    match event.kind:
        case Kind.RUN_OPENED:
            return state._replace(
                tenant=facts["tenant"],
                type=facts["type"],
                intent=facts["intent"],
                principal=facts["principal"],
                deadline_at=facts.get("deadline_at"),
                event=content.get("event"),
                reason=content.get("reason"),
                opened_at=at_ms,
                updated_at=at_ms,
            )
        case Kind.RUN_CLOSED:
            return state._replace(
                closed=facts["how"],
                closed_at=at_ms if state.closed is None else state.closed_at,
                end_state=end_state.after(state.end_state, event.kind, facts, content, at_ms),
                updated_at=at_ms,
            )
        case Kind.END_STATE_POSTPONED | Kind.END_STATE_STARTED | Kind.END_STATE_ASKED:
            known = end_state.after(state.end_state, event.kind, facts, content, at_ms)
            return state._replace(end_state=known, updated_at=at_ms)
        case Kind.RUN_ENDED:
            return state._replace(ending=facts["ending"], updated_at=at_ms)
        case Kind.RUN_REOPENED:
            if facts.get("by") != "program":
                return state._replace(ending=None, updated_at=at_ms)
            deadline_at = facts.get("deadline_at")
            state = state._replace(closed=None, end_state=NOT_ASKED, deadline_at=deadline_at)
            return state._replace(ending=None, updated_at=at_ms)
        case Kind.RUN_JOINED:
            joined = Joined(facts["run"], State(facts["state"]), facts.get("wake_at"))
            return state._replace(joined={**state.joined, event.operation: joined}, updated_at=at_ms)
        case Kind.RUN_JOINED_BY:
            knows = {**state.joiners.get(event.operation, {}), facts["run"]: State(facts["state"])}
            return state._replace(joiners={**state.joiners, event.operation: knows}, updated_at=at_ms)
        case Kind.EFFECTS_SEALED:
            return state._replace(sealed={**state.sealed, **facts["effects"]}, updated_at=at_ms)
        case Kind.RUN_READ:
            return state._replace(updated_at=at_ms)
        case _:
            raise IllegalTransition("not an operation", event.kind)


def _next(operation: Operation | None, event: Event, at_ms: int) -> Operation:
    if event.kind is Kind.PROPOSED:
        if operation is not None:
            raise IllegalTransition(operation.state, event.kind)
        return _proposed(event, at_ms)
    if operation is None:
        raise IllegalTransition("unknown to the run", event.kind)
    return _apply_operation(operation, event, at_ms)


def _proposed(event: Event, at_ms: int) -> Operation:
    facts, content = event.facts, event.content
    arguments = {
        name.removeprefix("argument."): value for name, value in content.items() if name.startswith("argument.")
    }
    erased = facts["arguments"] != len(arguments)
    return Operation(
        id=event.operation,
        key=facts["key"],
        action=facts["action"],
        recovery=facts["recovery"],
        state=State.PROPOSED,
        params_hash=facts["params_hash"],
        effect_version=facts["effect_version"],
        identity=facts["identity"],
        occurrence=facts.get("occurrence", ""),
        revision=facts.get("revision", 0),
        previous=facts.get("previous", ""),
        lock=facts.get("lock", ""),
        proposed_at=at_ms,
        target=content.get("target"),
        arguments=None if erased else arguments,
    )


def _apply_operation(operation: Operation, event: Event, at_ms: int) -> Operation:
    state = next_state(operation.state, event.kind)
    if state is None or (event.kind in WITHDRAWALS and operation.in_doubt):
        raise IllegalTransition(operation.state, event.kind)
    change = _CHANGES.get(event.kind)
    changes = change(operation, event, at_ms) if change else {}
    if event.kind is not Kind.EVIDENCE_RECORDED:
        changes["wake_at"] = event.facts.get("wake_at")
        changes["reason"] = event.facts.get("reason", "")
        changes["detail"] = event.content.get("detail")
    changes["state"] = state
    return _with(operation, changes)


Changes = dict[str, Any]


def _with(operation: Operation, changes: Changes) -> Operation:
    """``_replace``, which asks for each of the thirty fields whether it changes; here only the changed are touched."""
    values: list[Any] = list(operation)
    for name, value in changes.items():
        values[_PLACES[name]] = value
    return Operation._make(values)


_PLACES: Final = {name: place for place, name in enumerate(Operation._fields)}


def _prepared(_: Operation, event: Event, __: int) -> Changes:
    names = ("resource_version", "pre_state")
    return {name: event.content[name] for name in names if event.content.get(name) is not None}


def _commit_started(operation: Operation, event: Event, at_ms: int) -> Changes:
    return {
        "attempts": event.facts["attempt"],
        "first_claim_at": operation.first_claim_at or at_ms,
        "attempt_at": at_ms,
        "attempt_ends_at": event.facts["budget_ends_at"],
        "claimed_by": event.facts["worker"],
    }


def _attempt_failed(_: Operation, event: Event, __: int) -> Changes:
    return {"last_end": event.facts.get("reason", ""), "last_detail": event.content.get("detail")}


def _outcome_unknown(operation: Operation, event: Event, at_ms: int) -> Changes:
    return {"unknown_attempts": operation.unknown_attempts + 1, **_attempt_failed(operation, event, at_ms)}


def _receipt(_: Operation, event: Event, at_ms: int) -> Changes:
    return {"receipt": event.content.get("receipt"), "verify_since": at_ms}


def _lookup(operation: Operation, _: Event, __: int) -> Changes:
    return {"lookups": operation.lookups + 1}


def _verification(operation: Operation, _: Event, __: int) -> Changes:
    return {"verifications": operation.verifications + 1}


def _evidence(_: Operation, event: Event, __: int) -> Changes:
    receipt = event.content.get("receipt")
    return {} if receipt is None else {"late_receipt": receipt}


_CHANGES: Final[Mapping[Kind, Callable[[Operation, Event, int], Changes]]] = MappingProxyType(
    {
        Kind.PREPARED: _prepared,
        Kind.COMMIT_STARTED: _commit_started,
        Kind.NEVER_LEFT: _attempt_failed,
        Kind.OUTCOME_UNKNOWN: _outcome_unknown,
        Kind.RESPONSE_RECEIVED: _receipt,
        Kind.RECONCILIATION_COMPLETED: _receipt,
        Kind.RECONCILIATION_STARTED: _lookup,
        Kind.VERIFICATION_STARTED: _verification,
        Kind.EVIDENCE_RECORDED: _evidence,
    }
)
"""What an event changes beside the state, by kind. Most change nothing else."""
