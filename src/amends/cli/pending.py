"""``amends pending``: what is not settled, whom it waits for, and when recovery looks again."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from amends.cli.options import JsonOption, LedgerOption, ledger_path

if TYPE_CHECKING:
    from amends.core.model import Operation
    from amends.ledger.snapshot import Snapshot

KEYS = {
    "operation": "its id; empty where the run itself is open",
    "run": "the run's id",
    "action": "the effect's name; of a run its type",
    "target": "what is changed, of a run its event; `null` where it was erased",
    "state": "its state; of a run its ending or `waiting`",
    "situation": "what is known about the world (see below); empty for a run",
    "waits_for": "`person`, `recovery`, `call` or `program`",
    "owner": "whom it was handed to; empty where no event says so",
    "since": "instant from which it is unsettled: its first claim, or when it was proposed",
    "next_look_at": "instant at which recovery goes on, or `null`",
    "reason": "the recorded reason; empty where there is none",
    "because": "the reason in words; where none is recorded, what the state means",
    "owed": "list of what is still to be done, in words",
    "can_be_done": "what a person can do, in words; empty where nothing waits for one",
}

LIMIT = 1_000
_URGENCY = ("person", "recovery", "call", "program")


def pending(ledger: LedgerOption = "", json: JsonOption = False) -> None:
    """List what is not settled, the most urgent first: operations, and runs of which something else is open.

    Leaves with 0 when there is nothing, 5 when an outcome is unknown, otherwise 4 when something waits for a
    person, otherwise 1.
    """
    from amends.cli.output import Output
    from amends.engines.system import SystemClock
    from amends.ledger.snapshot import snapshot

    out, now = Output(json=json), SystemClock().now_ms()
    with snapshot(ledger_path(ledger)) as look:
        operations = list(unsettled(look, now=now))
        found = [*(each for _, each in operations), *open_runs(look)]
    found.sort(key=lambda each: (_URGENCY.index(each["waits_for"]), each["since"], each["operation"]))
    if json:
        for each in found:
            out.record(each)
    elif not found:
        out.line("nothing is pending")
    else:
        columns = ("WAITS FOR", "SINCE", "NEXT LOOK", "STATE", "ACTION", "TARGET", "WHY", "OPERATION", "RUN")
        out.table(columns, [_cells(each) for each in found])
    if len(found) >= LIMIT:
        typer.echo(f"only the oldest {LIMIT} are listed; settle some and repeat", err=True)
    waits = [each["waits_for"] for each in found]
    raise typer.Exit(exit_code((operation for operation, _ in operations), waits, now=now))


def unsettled(look: "Snapshot", *, now: int) -> Iterable[tuple["Operation", dict[str, Any]]]:
    """Every operation that is not settled, folded, with its JSON."""
    from amends.core.history import History

    read: dict[str, History] = {}
    for row in look.pending(limit=LIMIT):
        if row.run not in read:
            read[row.run] = look.history(row.run)
        told = read[row.run]
        yield told.state.operations[row.id], _record(told, row.id, now=now)


def open_runs(look: "Snapshot") -> Iterable[dict[str, Any]]:
    """Every run of which something beside its own operations is open: its JSON, once for each point."""
    from amends.core.acting import open_points
    from amends.core.wording import instant
    from amends.ledger.snapshot import WAITING

    for name in look.open_runs(limit=LIMIT):
        run = look.history(name).state
        for point in open_points(run):
            person = point.waits_for.value == "person"
            yield {
                "operation": "",
                "run": run.id,
                "action": run.type,
                "target": run.event,
                "state": run.ending or WAITING,
                "situation": "",
                "waits_for": point.waits_for.value,
                "owner": "",
                "since": instant(run.closed_at or run.opened_at),
                "next_look_at": None if person or run.wake_at is None else instant(run.wake_at),
                "reason": point.reason,
                "because": point.says,
                "owed": ["a person's reconciliation" if person else "its end state"],
                "can_be_done": point.says if person else "",
            }


def _record(told: Any, name: str, *, now: int) -> dict[str, Any]:
    from amends.core.acting import can_be_done
    from amends.core.narrate import meaning
    from amends.core.record import record
    from amends.core.standing import owed, situation, waits_for, why
    from amends.core.wording import instant

    operation = told.state.operations[name]
    return {
        "operation": operation.id,
        "run": told.state.id,
        "action": operation.action,
        "target": operation.target,
        "state": operation.state.value,
        "situation": situation(operation).value,
        "waits_for": waits_for(operation, now=now).value,
        "owner": record(told.of(name)).escalated_to,
        "since": instant(operation.first_claim_at or operation.proposed_at),
        "next_look_at": None if operation.wake_at is None else instant(operation.wake_at),
        "reason": operation.reason,
        "because": why(operation) or meaning(operation),
        "owed": owed(operation),
        "can_be_done": can_be_done(operation),
    }


def exit_code(operations: Iterable["Operation"], waits: Sequence[str], *, now: int) -> int:
    """Of what is not settled the least settled counts: unknown, then a person, then work that goes on."""
    from amends.core.standing import outcome_unknown

    if any(outcome_unknown(operation, now=now) for operation in operations):
        return 5
    if "person" in waits:
        return 4
    return 1 if waits else 0


def _cells(each: dict[str, Any]) -> tuple[object, ...]:
    waits = f"{each['waits_for']} ({each['owner']})" if each["owner"] else each["waits_for"]
    target = "(erased)" if each["target"] is None else each["target"]
    next_look = each["next_look_at"] or "none planned"
    why = each["because"]
    return (waits, each["since"], next_look, each["state"], each["action"], target, why, each["operation"], each["run"])
