"""``amends why``: the explanation in words."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from amends.cli.options import IdArgument, JsonOption, LedgerOption, TenantOption, ledger_path

if TYPE_CHECKING:
    from amends.cli.output import Output
    from amends.core.history import History

KEYS = {
    "record": "`event` for a line of the story, `standing` for where an operation stands, `ending` for the run",
    "run": "the run's id",
    "operation": "the operation's id; empty for an event of the run",
    "at": "instant of the event; of the newest entry in the last two",
    "seq": "number of the entry; the run's version in the last two",
    "worker": "who recorded it; empty in the last two",
    "event": "the event's kind; empty in the last two",
    "state": "the operation's state after it; of the run its ending or `waiting`",
    "situation": "what is known about the world then (see below); empty for the run",
    "says": "the sentence, or for the last two the paragraph",
    "waits_for": "who has to act next; empty for events",
    "owner": "whom it was handed to; empty where no event says so",
    "next_look_at": "instant at which recovery goes on, or `null`",
}


def why(id: IdArgument, tenant: TenantOption = "", ledger: LedgerOption = "", json: JsonOption = False) -> None:
    """Explain in words what happened, where it stands, why, and who must act next."""
    from amends.cli.finding import find, list_several
    from amends.cli.output import Output
    from amends.engines.system import SystemClock
    from amends.ledger.snapshot import snapshot

    out, now = Output(json=json), SystemClock().now_ms()
    with snapshot(ledger_path(ledger)) as look:
        found = find(look, id, tenant=tenant)
        if not json:
            list_several(out, look, found, id)
        for told, operations in found:
            chosen = operations or list(told.state.operations)
            records = [*_story(told, chosen), *_standing(told, chosen, now), _ending(told)]
            if json:
                for each in records:
                    out.record(each)
            else:
                _print(out, told, records)


def _story(told: "History", chosen: Sequence[str]) -> Iterable[dict[str, Any]]:
    from amends.core.narrate import narrate
    from amends.core.standing import situation
    from amends.core.wording import instant

    for step in told.steps:
        about = step.operation
        if step.event.operation and step.event.operation not in chosen:
            continue
        yield _record(
            "event",
            run=told.state.id,
            operation=step.event.operation,
            at=instant(step.at_ms),
            seq=step.seq,
            worker=step.worker,
            event=step.event.kind.value,
            state=about.state.value if about else "",
            situation=situation(about).value if about else "",
            says=narrate(step.event, step.at_ms, about),
        )


def _standing(told: "History", chosen: Sequence[str], now: int) -> Iterable[dict[str, Any]]:
    from amends.core.narrate import stands
    from amends.core.record import record
    from amends.core.standing import situation, waits_for
    from amends.core.wording import instant

    for name in chosen:
        operation = told.state.operations[name]
        owner = record(told.of(name)).escalated_to
        yield _record(
            "standing",
            run=told.state.id,
            operation=name,
            at=instant(told.state.updated_at),
            seq=told.state.version,
            state=operation.state.value,
            situation=situation(operation).value,
            says=stands(operation, to=owner, now=now),
            waits_for=waits_for(operation, now=now).value,
            owner=owner,
            next_look_at=None if operation.wake_at is None else instant(operation.wake_at),
        )


def _ending(told: "History") -> dict[str, Any]:
    from amends.core.acting import open_points
    from amends.core.narrate import ENDINGS
    from amends.core.wording import instant
    from amends.ledger.snapshot import WAITING

    run = told.state
    ending = run.ending or WAITING
    words = f"The run's ending is {ending}: {ENDINGS.get(ending, 'an ending without words')}."
    if run.ending is None:
        words = "The run has no ending yet: work is going on, or the program has not left it."
    words = " ".join([words, *(f"Open: {point.says}." for point in open_points(run))])
    return _record(
        "ending",
        run=run.id,
        at=instant(run.updated_at),
        seq=run.version,
        state=ending,
        says=words,
        next_look_at=None if run.wake_at is None else instant(run.wake_at),
    )


def _record(record: str, **values: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {key: None if key == "next_look_at" else "" for key in KEYS}
    return empty | {"record": record} | values


def _print(out: "Output", told: "History", records: Sequence[dict[str, Any]]) -> None:
    from amends.core.narrate import named

    operations = told.state.operations
    several = len({each["operation"] for each in records if each["operation"]}) > 1
    day = about = ""
    out.heading(f"run {told.state.id}")
    for each in records:
        if each["record"] != "event":
            out.line()
            out.line(each["says"])
            continue
        if each["at"][:10] != day:
            day = each["at"][:10]
            out.line(f"{day} (UTC)")
        if several and each["operation"] and each["operation"] != about:
            about = each["operation"]
            out.line(f"  {named(operations[about])} ({about})")
        out.line(f"  {each['at'][11:-1]}  {each['says']}")
