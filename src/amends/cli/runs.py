"""``amends runs``: the runs, newest first."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from amends.cli.options import JsonOption, LedgerOption, ledger_path, text_option

if TYPE_CHECKING:
    from amends.ledger.snapshot import Snapshot
    from amends.ports.ledger import RunRow

KEYS = {
    "run": "its id",
    "ending": "one of the seven endings, or `waiting`",
    "type": "the run's type",
    "tenant": "its tenant",
    "event": "the business event; `null` where it was erased",
    "intent": "the intent's id",
    "principal": "who runs it",
    "closed": "how the program left it: `returned`, `raised` or `null`",
    "operations": "object: state → how many",
    "opened_at": "instant",
    "updated_at": "instant of the newest entry",
    "next_look_at": "instant at which work is next due, or `null`",
}

LIMIT_MAX = 10_000
COLUMNS = ("RUN", "ENDING", "TYPE", "TENANT", "EVENT", "OPENED", "OPERATIONS")


def runs(
    *,
    ledger: LedgerOption = "",
    ending: Annotated[str, text_option("ENDING", "Only runs with this ending, or `waiting`.")] = "",
    tenant: Annotated[str, text_option("TENANT", "Only this tenant's runs.")] = "",
    event: Annotated[str, text_option("EVENT", "Only runs of exactly this business event.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="At most so many.")] = 50,
    before: Annotated[str, text_option("RUN", "Only runs older than this one: the next page.")] = "",
    internal: Annotated[bool, typer.Option("--internal", help="Also the run that keeps the registrations.")] = False,
    json: JsonOption = False,
) -> None:
    """List runs, newest first, with their endings and operations."""
    from amends.cli.output import Output
    from amends.core.identity import REGISTRATIONS
    from amends.ledger.snapshot import snapshot

    out = Output(json=json)
    _check_ending(ending)
    with snapshot(ledger_path(ledger)) as look:
        if before and look.run(before) is None:
            typer.echo(f"there is no run {before!r} to go on from; name the last run of the page before", err=True)
            raise typer.Exit(1)
        without = "" if internal else REGISTRATIONS
        found = look.runs(
            tenant=tenant or None,
            ending=ending or None,
            before=before or None,
            limit=limit,
            without=without,
            event=event or None,
        )
        records = [record(look, row) for row in found]
    if json:
        for each in records:
            out.record(each)
        return
    if not records:
        out.line("no runs")
        return
    out.table(COLUMNS, [cells(each) for each in records])
    if len(records) == limit:
        out.line(f"there may be more: amends runs --before {records[-1]['run']}")


def _check_ending(ending: str) -> None:
    from amends.core.endings import Ending
    from amends.errors import UsageError
    from amends.ledger.snapshot import WAITING

    known = [*Ending, WAITING]
    if ending and ending not in known:
        raise UsageError(f"--ending {ending!r} is none; name one of {', '.join(known)}")


def record(look: "Snapshot", row: "RunRow") -> dict[str, Any]:
    """The run as JSON; keys as in ``KEYS``."""
    from amends.core.wording import instant
    from amends.ledger.snapshot import WAITING

    return {
        "run": row.id,
        "ending": row.ending or WAITING,
        "type": row.type,
        "tenant": row.tenant,
        "event": row.event,
        "intent": row.intent,
        "principal": row.principal,
        "closed": row.closed,
        "operations": look.states(row.id),
        "opened_at": instant(row.opened_at),
        "updated_at": instant(row.updated_at),
        "next_look_at": None if row.wake_at is None else instant(row.wake_at),
    }


def cells(each: dict[str, Any]) -> tuple[object, ...]:
    """The cells under ``COLUMNS``."""
    event = "(erased)" if each["event"] is None else each["event"]
    counts = ", ".join(f"{count} {state}" for state, count in each["operations"].items()) or "none"
    return (each["run"], each["ending"], each["type"], each["tenant"], event, each["opened_at"], counts)
