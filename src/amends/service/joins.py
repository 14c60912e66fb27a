"""Operations that several runs share: an intent asks for them once, whichever of its runs comes first (R6).

The operation belongs to the run that proposed it; the others *join* it. A run that joined looks how it stands
until it is settled. What happens to it afterwards — a second record that turns up, say — it has to be told:
the owning run keeps who shares an operation and how they know it, and where that differs it is due.
"""

from amends.core.backoff import backoff_ms
from amends.core.limits import BACKOFF_MS_MAX
from amends.core.model import Event, Joined, RunState
from amends.core.states import SETTLED, Kind, State
from amends.ports.ledger import NotApplied
from amends.service.handle import RunHandle
from amends.service.services import Services


async def join(handle: RunHandle, owner: RunHandle, operation: str, services: Services) -> None:
    """Record in both runs that ``handle``'s shares ``operation`` of ``owner``'s; in that one first, so it is told."""
    state = owner.state.operations[operation].state
    if handle.id not in owner.state.joiners.get(operation, {}):
        await _note(owner, operation, handle.id, state)
    await record(handle, operation, owner.id, state, services)


async def tell(owner: RunHandle, services: Services) -> None:
    """Tell the runs that share an operation of ``owner``'s how it stands, where they know it otherwise."""
    for operation, run in owner.state.untold:
        state, other = owner.state.operations[operation].state, services.handle(run)
        known = other.state.joined.get(operation)
        if known is not None and known.state is not state:
            await record(other, operation, owner.id, state, services)
        await _note(owner, operation, run, state)


async def _note(owner: RunHandle, operation: str, run: str, state: State) -> None:
    def decision(current: RunState, _: int) -> list[Event]:
        if current.joiners.get(operation, {}).get(run) is state:
            return []
        return [Event(Kind.RUN_JOINED_BY, operation, {"run": run, "state": state.value})]

    while isinstance((await owner.decide(decision))[0], NotApplied):
        pass


async def look(handle: RunHandle, services: Services) -> None:
    """See how the operations of other runs stand that this run asked for as well."""
    now = services.clock.now_ms()
    for name, other in handle.state.joined.items():
        if other.wake_at is None or other.wake_at > now:
            continue
        row = services.ledger.operation(name)
        if row is not None:
            await record(handle, name, row.run, State(row.state), services)


async def record(handle: RunHandle, operation: str, run: str, state: State, services: Services) -> None:
    """Record that ``operation`` belongs to ``run`` and how it stands; looked at again until it is settled."""

    def decision(current: RunState, now: int) -> list[Event]:
        known = current.joined.get(operation)
        facts: dict[str, object] = {"run": run, "state": state.value}
        if state not in SETTLED:
            facts["wake_at"] = now + _pause(known, now, services)
        elif known == Joined(run, state):
            return []
        return [Event(Kind.RUN_JOINED, operation, facts)]

    while isinstance((await handle.decide(decision))[0], NotApplied):
        pass


def _pause(known: Joined | None, now: int, services: Services) -> int:
    """One second at first, then twice the last pause, up to the longest there is."""
    if known is None or known.wake_at is None:
        return 1_000
    return backoff_ms(2, first_ms=max(1_000, now - known.wake_at + 1_000), most_ms=BACKOFF_MS_MAX, jitter=0.5)
