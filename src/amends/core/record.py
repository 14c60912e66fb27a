"""One operation's record: its attempts, lookups and verifications, put together from its steps (R13)."""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from amends.core.history import Step
from amends.core.states import Kind
from amends.core.wording import instant, masked

_ENDS: Final = {
    Kind.RESPONSE_RECEIVED: "response",
    Kind.DESTINATION_REJECTED: "rejected",
    Kind.NEVER_LEFT: "never_left",
    Kind.PARTIALLY_COMPLETED: "partial",
    Kind.OUTCOME_UNKNOWN: "unknown",
}
"""What ended an attempt, in the words of ``failures.Outcome``."""

_FOUND: Final = {
    Kind.RECONCILIATION_COMPLETED: "found",
    Kind.RECONCILIATION_UNSURE: "unsure",
    Kind.ABSENT_CONFIRMED: "absent",
    Kind.DUPLICATE_FOUND: "several",
    Kind.MISMATCH_FOUND: "mismatch",
    Kind.RETRIES_EXHAUSTED: "absent",
    Kind.HUMAN_ESCALATED: "handed_over",
    Kind.RESPONSE_RECEIVED: "overtaken",
}
"""What ended a lookup."""

_CHECKED: Final = {
    Kind.VERIFICATION_STARTED: "started",
    Kind.VERIFICATION_PENDING: "pending",
    Kind.POSTCONDITION_VERIFIED: "verified",
    Kind.POSTCONDITION_FAILED: "failed",
}


class Record(NamedTuple):
    """Lists of plain JSON objects, in order of time; instants are ISO 8601 in UTC."""

    attempts: list[dict[str, Any]]
    lookups: list[dict[str, Any]]
    verification: list[dict[str, Any]]
    escalated_to: str


def record(steps: Iterable[Step]) -> Record:
    """The record of one operation from its ``steps``."""
    out = Record([], [], [], "")
    for step in steps:
        _attempt(out.attempts, step)
        _lookup(out.lookups, step)
        if step.event.kind in _CHECKED:
            out.verification.append({"at": instant(step.at_ms), "result": _CHECKED[step.event.kind], **_said(step)})
        if step.event.facts.get("to"):
            out = out._replace(escalated_to=str(step.event.facts["to"]))
    return out


def _attempt(attempts: list[dict[str, Any]], step: Step) -> None:
    kind, facts = step.event.kind, step.event.facts
    if kind is Kind.COMMIT_STARTED:
        claimed = {"attempt": facts["attempt"], "claimed_at": instant(step.at_ms), "worker": facts["worker"]}
        attempts.append({**claimed, "budget_ends_at": instant(facts["budget_ends_at"]), "ended_at": None, "end": None})
        return
    end = "conflict" if facts.get("reason") == "key_conflict" else _ENDS.get(kind)
    number = facts.get("attempt", len(attempts))
    if end is None or not 0 < number <= len(attempts):
        return
    attempt = attempts[number - 1]
    if attempt["ended_at"] is None:
        attempt |= {"ended_at": instant(step.at_ms), "end": end, **_said(step)}
    elif facts.get("late"):
        attempt["late_response_at"] = instant(step.at_ms)


def _lookup(lookups: list[dict[str, Any]], step: Step) -> None:
    kind = step.event.kind
    if kind is Kind.RECONCILIATION_STARTED:
        number = step.event.facts.get("pass", len(lookups) + 1)
        lookups.append({"pass": number, "started_at": instant(step.at_ms), "ended_at": None, "found": None})
    elif lookups and lookups[-1]["ended_at"] is None and kind in _FOUND:
        lookups[-1] |= {"ended_at": instant(step.at_ms), "found": _FOUND[kind], **_said(step)}


def _said(step: Step) -> dict[str, Any]:
    """Reason, facts and texts of an event that say why; nothing that is not there."""
    out = {name: step.event.facts[name] for name in ("by", "reason", "status", "code") if name in step.event.facts}
    out |= {name: masked(step.event.content[name]) for name in ("detail", "evidence") if step.event.content.get(name)}
    return out
