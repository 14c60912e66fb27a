"""The one loop over a run: what is due is done, until the run is settled or has to wait.

Every engine calls this and nothing else. It may be called by any number of workers at once, and again
after any of them died.
"""

from typing import Final

from amends.core.backoff import backoff_ms
from amends.core.limits import BACKOFF_MS_MAX
from amends.core.matrix import Do
from amends.core.model import Event, Joined, RunState
from amends.core.states import SETTLED, Kind, State
from amends.ports.ledger import NotApplied
from amends.service import closing
from amends.service.driver import Driver
from amends.service.handle import RunHandle
from amends.service.services import Services

SLICE_MS_MAX: Final = 60_000
"""How long one call may go on; then it comes back, with more to do."""


async def advance(run: str, services: Services) -> int | None:
    """Drive ``run`` as far as it goes now. When to come back (wall-clock milliseconds), or ``None``.

    Raises:
        UsageError: an effect with work due is not registered here; everything else was driven.
        LedgerUnavailable, LedgerIntegrityError: see ``amends.errors``.
    """
    handle, until = services.handle(run), services.clock.budget_ms() + SLICE_MS_MAX
    missing: set[str] = set()
    await closing.at_deadline(handle, services)
    for name in list(handle.state.operations):
        operation = handle.state.operations[name]
        if operation.settled or operation.id in services.driven:
            continue
        if operation.action not in services.sealed:
            if operation.wake_at is not None:
                missing.add(operation.action)
            continue
        await _drive(Driver(handle, name, services, services.sealed[operation.action]), services, until)
    await _look_at_joined(handle, services)
    await closing.ask_end_state_again(handle, services)
    for action in sorted(missing):
        services.sealed_as(action)
    return handle.state.wake_at


async def _drive(driver: Driver, services: Services, until: int) -> None:
    while services.clock.budget_ms() < until:
        if (await driver.step()).do in (Do.NOTHING, Do.WAIT):
            return


async def _look_at_joined(handle: RunHandle, services: Services) -> None:
    """See how the operations of other runs stand that this run asked for as well."""
    now = services.clock.now_ms()
    for name, other in handle.state.joined.items():
        if other.wake_at is None or other.wake_at > now:
            continue
        row = services.ledger.operation(name)
        if row is not None:
            await record_join(handle, name, row.run, State(row.state), services)


async def record_join(handle: RunHandle, operation: str, run: str, state: State, services: Services) -> None:
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
