"""How a program leaves a run, and what is asked of the world then (R36).

A run type may declare its valid end state as an authoritative query. When it is asked, how often, and what
follows is decided by ``core.closing``; here it is asked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from amends.core import closing, expiry
from amends.core.evidence import Receipt, Unavailable, Verification
from amends.core.model import Event, RunState
from amends.core.states import STANDS, Kind
from amends.errors import UsageError
from amends.ports.ledger import Applied, NotApplied
from amends.service import points
from amends.service.blotting import Blotter
from amends.service.call import Call
from amends.service.handle import RunHandle
from amends.service.observing import blotted_verification, verification
from amends.service.registry import Function
from amends.service.services import Services


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


async def close(handle: RunHandle, services: Services, how: str) -> None:
    """Record how the program left the run; idempotent. A run in which nothing was ever asked leaves no trace."""
    if not handle.state.version:
        return
    asks = services.end_state_of(handle.state.type) is not None

    def decision(state: RunState, now: int) -> list[Event]:
        return closing.close(state, how, now=now, asks=asks)

    while isinstance((said := await handle.decide(decision))[0], NotApplied):
        pass
    if any(event.kind is Kind.END_STATE_STARTED for event in said[1]):
        await _ask(handle, services)


async def at_deadline(handle: RunHandle, services: Services) -> None:
    """After its deadline nothing of a run is sent any more, and it is closed; what happened in it stays owed.

    Idempotent. What is on its way is let end, and what is unknown is found out.
    """

    def decision(state: RunState, now: int) -> list[Event]:
        if not expiry.passed(state, now=now):
            return []
        closed = closing.close(state, "deadline", now=now, asks=False) if state.closed is None else []
        return [*closed, *expiry.expire(state, services.owner_of)]

    while isinstance((await handle.decide(decision))[0], NotApplied):
        pass


async def ask_end_state_again(handle: RunHandle, services: Services) -> None:
    """Ask the end-state query once more, if it is due.

    Raises:
        UsageError: it is due, and this process does not know the query.
    """
    within_ms = services.end_state_within_ms(handle.state.type)

    def decision(state: RunState, now: int) -> list[Event]:
        return closing.ask(state, now=now, within_ms=within_ms)

    if not decision(handle.state, services.clock.now_ms()):
        return
    if services.end_state_of(handle.state.type) is None:
        raise UsageError(
            f"the end state of the run type {handle.state.type!r} is due and is not declared in this process; run "
            "its application, or declare it with app.operation_type(...)"
        )
    answer, events = await handle.decide(decision)
    if isinstance(answer, Applied) and any(event.kind is Kind.END_STATE_STARTED for event in events):
        await _ask(handle, services)


async def _ask(handle: RunHandle, services: Services) -> None:
    """Ask the query of which a pass was just counted, and record what it said."""
    number, within_ms = handle.state.end_state.asks, services.end_state_within_ms(handle.state.type)
    query = services.end_state_of(handle.state.type)
    points.reached("end_state.before")
    said = Unavailable("no end state is declared") if query is None else await _asked(handle, services, query)
    points.reached("end_state.after")

    def decision(state: RunState, now: int) -> list[Event]:
        jitter = services.entropy.jitter()
        return closing.answered(state, said, number=number, now=now, within_ms=within_ms, jitter=jitter)

    while isinstance((await handle.decide(decision))[0], NotApplied):
        pass


async def _asked(handle: RunHandle, services: Services, query: Function) -> Verification:
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
        ends_at_ms=services.clock.budget_ms() + closing.ASK_TIMEOUT_MS,
        secrets=services.secrets,
    )
    said = await verification(query, call, ended)
    return blotted_verification(said, Blotter((), call.revealed))
