"""``amends show``: one record, with everything that is known of it."""

import json as json_module
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from amends.cli.options import IdArgument, JsonOption, LedgerOption, TenantOption, ledger_path

if TYPE_CHECKING:
    from amends.cli.output import Output
    from amends.core.history import History

KEYS = {
    "operation": "its id",
    "run": "the run's id",
    "type": "the run's type",
    "tenant": "the run's tenant",
    "event": "the run's business event; `null` where it was erased",
    "principal": "who runs it",
    "run_ending": "the run's ending, or `waiting`",
    "action": "the effect's name",
    "target": "what is changed; `null` where it was erased",
    "key": "the idempotency key",
    "occurrence": "what says *again, on purpose*; empty otherwise",
    "revision": "how many corrected requests came before it",
    "previous": "the operation it is a revision of; empty otherwise",
    "recovery": "the recovery class",
    "identity": "the target's template",
    "effect_version": "the effect's version when it was proposed",
    "params_hash": "the hash of the parameters",
    "arguments": "object: name → typed value, sealed ones masked; `null` where they were erased",
    "resource_version": "the resource's version that was read before the claim, or `null`",
    "state": "one of the states of the transition table",
    "situation": "what is known about the world (see below)",
    "reason": "the recorded reason of the state; empty where there is none",
    "detail": "its text, or `null`",
    "proposed_at": "instant",
    "attempts": "list: `attempt`, `claimed_at`, `worker`, `budget_ends_at`, `ended_at`, `end`, and why",
    "lookups": "list: `pass`, `started_at`, `ended_at`, `found`, and why",
    "verification": "list: `at`, `result`, and by what or why",
    "receipt": "the destination's proof as it was recorded, or `null`",
    "late_receipt": "a receipt that came beside it, or `null`",
    "resource": "the destination's reference, or `null`",
    "owed": "list of what is still to be done, in words",
    "waits_for": "`nobody`, `program`, `call`, `recovery` or `person`",
    "owner": "whom it was handed to; empty where no event says so",
    "next_look_at": "instant at which recovery goes on, or `null`",
}


def show(id: IdArgument, tenant: TenantOption = "", ledger: LedgerOption = "", json: JsonOption = False) -> None:
    """Show a record: identity, state, parameters, attempts, lookups, verification, receipt, what is owed."""
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
            for name in operations:
                each = record_of(told, name, now=now)
                out.record(each) if json else _print(out, each)
            if not operations:
                from amends.cli.runs import record

                row = look.run(told.state.id)
                if row is not None:
                    out.record(record(look, row)) if json else out.pairs(list(record(look, row).items()))


def record_of(told: "History", name: str, *, now: int) -> dict[str, Any]:
    """The operation ``name`` as JSON; keys as in ``KEYS``."""
    from amends.core.record import record
    from amends.core.standing import owed, situation, waits_for
    from amends.core.wording import instant, masked
    from amends.ledger.snapshot import WAITING

    run, operation = told.state, told.state.operations[name]
    parts = record(told.of(name))
    same = ["key", "action", "target", "recovery", "occurrence", "revision", "previous", "identity", "effect_version"]
    same += ["params_hash", "resource_version", "reason", "detail"]
    out: dict[str, Any] = {field: getattr(operation, field) for field in same}
    out |= {field: getattr(run, field) for field in ("type", "tenant", "event", "principal")}
    out |= {field: masked(getattr(operation, field)) for field in ("arguments", "receipt", "late_receipt")}
    out |= {
        "operation": operation.id,
        "run": run.id,
        "run_ending": run.ending or WAITING,
        "state": operation.state.value,
        "situation": situation(operation).value,
        "proposed_at": instant(operation.proposed_at),
        "attempts": parts.attempts,
        "lookups": parts.lookups,
        "verification": parts.verification,
        "resource": (operation.receipt or {}).get("resource"),
        "owed": owed(operation),
        "waits_for": waits_for(operation, now=now).value,
        "owner": parts.escalated_to,
        "next_look_at": None if operation.wake_at is None else instant(operation.wake_at),
    }
    return {key: out[key] for key in KEYS}


_LISTS = ("attempts", "lookups", "verification")
_APART = {*_LISTS, "arguments", "receipt", "late_receipt", "owed"}


def _print(out: "Output", each: Mapping[str, Any]) -> None:
    out.heading(f"operation {each['operation']}")
    erased = {field: "(erased)" for field in ("target", "event") if each[field] is None}
    out.pairs([(key, {**each, **erased}[key]) for key in KEYS if key not in _APART and key != "operation"])
    _values(out, "arguments", each["arguments"] if each["arguments"] is not None else {"": "(erased)"})
    for name in _LISTS:
        _list(out, name, each[name])
    for name in ("receipt", "late_receipt"):
        _values(out, name, each[name] or {})
    out.line(f"  owed: {'; '.join(each['owed']) or 'nothing'}")
    out.line()


def _values(out: "Output", title: str, values: Mapping[str, Any]) -> None:
    if values:
        out.line(f"  {title}")
        out.pairs([(f"  {_word(name)}", plain(value)) for name, value in values.items()])


def _shown(value: Any) -> str:
    from amends.core.safe_text import quoted, visible

    text = plain(value)
    return quoted(text, 2_000) if " " in text else visible(text)


def _word(name: str) -> str:
    from amends.core.safe_text import visible

    return visible(name, 80)


def _list(out: "Output", title: str, rows: list[dict[str, Any]]) -> None:
    if rows:
        out.line(f"  {title}")
    for row in rows:
        out.line("    " + ", ".join(f"{name} {_shown(value)}" for name, value in row.items() if value is not None))


def plain(value: Any) -> str:
    """A recorded value for a person: text as it is, money as money, all else as JSON."""
    from amends.core.canonical import decode_value

    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, Mapping) and set(value) == {"$money"}:
        try:
            return str(decode_value(dict(value)))
        except (ValueError, TypeError, KeyError):
            pass
    return json_module.dumps(value, ensure_ascii=False)
