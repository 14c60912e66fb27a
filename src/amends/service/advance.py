"""The one loop over a run: what is due is done, until the run is settled or has to wait.

Every engine calls this and nothing else. It may be called by any number of workers at once, and again
after any of them died.
"""

from typing import Final

from amends.core.matrix import Do
from amends.service import closing, joins
from amends.service.driver import Driver
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
    await joins.look(handle, services)
    await joins.tell(handle, services)
    await closing.ask_end_state_again(handle, services)
    for action in sorted(missing):
        services.sealed_as(action)
    return handle.state.wake_at


async def _drive(driver: Driver, services: Services, until: int) -> None:
    while services.clock.budget_ms() < until:
        if (await driver.step()).do in (Do.NOTHING, Do.WAIT):
            return
