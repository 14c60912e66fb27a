"""``amends recover``: one recovery pass, by hand."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from amends.cli.options import AppArgument, JsonOption, load_app

if TYPE_CHECKING:
    from amends.bootstrap import Amends
    from amends.core.model import Operation, RunState

KEYS = {
    "run": "a run that was due",
    "ending": "its ending after the pass, or `waiting`",
    "operations": "object: state → how many",
    "unsettled": "list of operation ids that are not settled",
    "next_look_at": "instant at which its work is next due, or `null`",
}

LIMIT = 1_000


def recover(app: AppArgument = "", json: JsonOption = False) -> None:
    """Drive what is due once: look up unknown outcomes, retry, verify.

    Leaves with 0 when nothing of what it drove is unsettled, otherwise as `pending` does.
    """
    from amends.cli.output import Output
    from amends.cli.pending import exit_code
    from amends.ledger.snapshot import snapshot

    application, out = load_app(app), Output(json=json)
    clock, path = application.clock, Path(application.ledger.path)
    with snapshot(path) as look:
        due = look.due(clock.now_ms(), limit=LIMIT)
    with out.progress("one recovery pass"):
        _drive(application)
    with snapshot(path) as look:
        states = [look.history(run).state for run in due]
    for state in states:
        _say(out, state)
    if not json:
        out.line(f"{len(states)} run{'' if len(states) == 1 else 's'} driven" if states else "nothing was due")
    left = [op for state in states for op in _unsettled(state)]
    raise typer.Exit(exit_code(left, now=clock.now_ms()))


def _drive(application: "Amends") -> None:
    import asyncio

    async def once() -> None:
        async with application as started:
            await started.recover()

    asyncio.run(once())


def _unsettled(state: "RunState") -> Sequence["Operation"]:
    from amends.core.states import State

    rest = {State.PROPOSED, State.AUTHORIZED, State.PREPARED}
    return [op for op in state.operations.values() if not op.settled and op.state not in rest]


def _say(out: Any, state: "RunState") -> None:
    from collections import Counter

    from amends.core.wording import instant
    from amends.ledger.snapshot import WAITING

    counts = dict(sorted(Counter(op.state.value for op in state.operations.values()).items()))
    unsettled = [op.id for op in _unsettled(state)]
    ending = state.ending or WAITING
    if out.json:
        next_look_at = None if state.wake_at is None else instant(state.wake_at)
        values = (state.id, ending, counts, unsettled, next_look_at)
        out.record(dict(zip(KEYS, values, strict=True)))
        return
    out.line(f"run {state.id}: {ending} ({', '.join(f'{count} {name}' for name, count in counts.items())})")
    for name in unsettled:
        out.line(f"  not settled: {name}; `amends why {name}` explains it")
