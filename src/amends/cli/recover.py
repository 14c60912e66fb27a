"""``amends recover``: one recovery pass, by hand."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from amends.cli.options import AppArgument, JsonOption, load_app, said_by
from amends.errors import UsageError

if TYPE_CHECKING:
    from amends.bootstrap import Amends
    from amends.core.model import Operation, RunState

KEYS = {
    "run": "a run that was due",
    "ending": "its ending after the pass, or `waiting`",
    "operations": "object: state → how many",
    "unsettled": "list of operation ids that are not settled",
    "next_look_at": "instant at which its work is next due, or `null`",
    "failed": "why it could not be driven, or `null`",
}

LIMIT = 1_000


def recover(app: AppArgument = "", json: JsonOption = False) -> None:
    """Drive what is due once: look up unknown outcomes, retry, verify.

    Leaves with 0 when nothing of what it drove is unsettled, otherwise as `pending` does; with 1 when a run
    could not be driven.
    """
    from amends.cli.output import Output
    from amends.cli.pending import exit_code
    from amends.core.standing import waits_for
    from amends.ledger.snapshot import snapshot

    application, out = load_app(app), Output(json=json)
    clock, path = application.clock, Path(application.ledger.path)
    with snapshot(path) as look:
        due = look.due(clock.now_ms(), limit=LIMIT)
    with out.progress("one recovery pass"):
        failed = _drive(application, app)
    with snapshot(path) as look:
        states = [look.history(run).state for run in dict.fromkeys([*due, *failed])]
    for state in states:
        _say(out, state, failed.get(state.id))
    if not json:
        out.line(_summary(len(states), len(failed)))
    left = [op for state in states for op in _unsettled(state)]
    now = clock.now_ms()
    raise typer.Exit(exit_code(left, [waits_for(each, now=now).value for each in left], now=now) or bool(failed))


def _drive(application: "Amends", name: str) -> dict[str, str]:
    """Why runs could not be driven, by run.

    Raises:
        UsageError: the application's code left the program.
    """
    import asyncio

    async def once() -> dict[str, str]:
        async with application as started:
            return (await started.recover()).failed

    try:
        return asyncio.run(once())
    except SystemExit as error:
        raise UsageError(
            f"code of {name!r} left the program in the middle of the pass ({said_by(error)}); what was recorded stays: "
            "take that out of the effect, lookup or hook, and repeat"
        ) from error


def _summary(due: int, failed: int) -> str:
    if not due:
        return "nothing was due"
    rest = f"; {failed} could not be driven" if failed else ""
    return f"{due - failed} run{'' if due - failed == 1 else 's'} driven{rest}"


def _unsettled(state: "RunState") -> Sequence["Operation"]:
    from amends.core.states import State

    rest = {State.PROPOSED, State.AUTHORIZED, State.PREPARED}
    return [op for op in state.operations.values() if not op.settled and op.state not in rest]


def _say(out: Any, state: "RunState", failed: str | None) -> None:
    from collections import Counter

    from amends.core.safe_text import visible
    from amends.core.wording import instant
    from amends.ledger.snapshot import WAITING

    counts = dict(sorted(Counter(op.state.value for op in state.operations.values()).items()))
    unsettled = [op.id for op in _unsettled(state)]
    ending = state.ending or WAITING
    if out.json:
        next_look_at = None if state.wake_at is None else instant(state.wake_at)
        values = (state.id, ending, counts, unsettled, next_look_at, failed)
        out.record(dict(zip(KEYS, values, strict=True)))
        return
    out.line(f"run {state.id}: {ending} ({', '.join(f'{count} {name}' for name, count in counts.items())})")
    if failed is not None:
        out.line(f"  could not be driven: {visible(failed)}")
    for name in unsettled:
        out.line(f"  not settled: {name}; `amends why {name}` explains it")
