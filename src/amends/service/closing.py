"""How a program leaves a run, and what is asked of the world then (R36).

A run type may declare its valid end state as an authoritative query. It is asked when the program
returns; while it is pending or cannot be asked the run waits, and recovery asks again until its time is
up.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from amends.core.evidence import Failed, Pending, Receipt, Unavailable, Verification, Verified
from amends.core.model import Event, RunState
from amends.core.states import STANDS, Kind
from amends.ports.ledger import NotApplied
from amends.service.call import Call
from amends.service.handle import RunHandle
from amends.service.observing import verification
from amends.service.registry import RunType
from amends.service.services import Services

ASK_AGAIN_MS: Final = 2_000
ASK_TIMEOUT_MS: Final = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRun:
    """What an end-state query is told of the run.

    Attributes:
        id, tenant, event: which run it is.
        receipts: of the operations that stand, by operation id.
        actions: what each of them is.
    """

    id: str
    tenant: str
    event: str | None
    receipts: Mapping[str, Receipt]
    actions: Mapping[str, str] = field(default_factory=dict)


async def close(handle: RunHandle, services: Services, how: str, opened: Event) -> None:
    """Record how the program left the run; idempotent. A run in which nothing was ever asked leaves no trace."""
    if not handle.state.version:
        return
    facts: dict[str, Any] = {"how": how}
    if how == "returned":
        facts |= await _end_state(handle, services, since=services.clock.now_ms())

    def decision(state: RunState, _: int) -> list[Event]:
        begun = [] if state.version else [opened]
        return [] if state.closed == how else [*begun, Event(Kind.RUN_CLOSED, "", facts)]

    while isinstance((await handle.decide(decision))[0], NotApplied):
        pass


async def at_deadline(handle: RunHandle, services: Services) -> None:
    """A run whose program has not come back by its deadline is closed; what happened in it stays owed."""

    def decision(state: RunState, now: int) -> list[Event]:
        due = state.closed is None and state.deadline_at is not None and now >= state.deadline_at
        return [Event(Kind.RUN_CLOSED, "", {"how": "deadline"})] if due else []

    await handle.decide(decision)


async def ask_end_state_again(handle: RunHandle, services: Services) -> None:
    """Ask the end-state query once more, when it is due."""
    due = handle.state.end_state_at
    if due is None or services.clock.now_ms() < due:
        return
    facts = await _end_state(handle, services, since=handle.state.closed_at)

    def decision(state: RunState, _: int) -> list[Event]:
        if state.end_state_at != due:
            return []
        return [Event(Kind.RUN_CLOSED, "", {"how": state.closed, **facts})]

    await handle.decide(decision)


async def _end_state(handle: RunHandle, services: Services, *, since: int) -> dict[str, Any]:
    run_type = services.run_types.get(handle.state.type)
    if run_type is None or run_type.end_state is None:
        return {}
    said = await _asked(handle, services, run_type)
    now = services.clock.now_ms()
    match said:
        case Verified():
            return {"end_state": "verified"}
        case Failed():
            return {"end_state": "failed"}
        case Pending() | Unavailable() if now - since >= run_type.within_s * 1000:
            return {"end_state": "failed", "reason": "end_state_never_confirmed"}
        case Pending(retry_after_s=after):
            return {"end_state": "pending", "wake_at": now + int((after or 0) * 1000 or ASK_AGAIN_MS)}
        case Unavailable():
            return {"end_state": "unavailable", "wake_at": now + ASK_AGAIN_MS}


async def _asked(handle: RunHandle, services: Services, run_type: RunType) -> Verification:
    state = handle.state
    standing = [op for op in state.operations.values() if op.state in STANDS and op.receipt is not None]
    ended = EndedRun(
        id=state.id,
        tenant=state.tenant,
        event=state.event,
        receipts={op.id: Receipt.from_json(op.receipt or {}) for op in standing},
        actions={op.id: op.action for op in standing},
    )
    call = Call(
        key="",
        operation="",
        run=state.id,
        attempt=0,
        arguments={},
        target="",
        clock=services.clock,
        ends_at_ms=services.clock.budget_ms() + ASK_TIMEOUT_MS,
        secrets=services.secrets,
    )
    if run_type.end_state is None:
        return Unavailable("no end state is declared")
    return await verification(run_type.end_state, call, ended)
