"""Proposing: does this wish meet an operation that is there already?

The key says which logical action is meant; the parameter hash says with what. Same key and same hash is
the same operation. Same key and another hash is a conflict, whose two parameter sets are shown — unless
it is proved that nothing happened: then a corrected request is a linked revision, counted in the key.
While the first is unknown there is never a second.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from amends.core.limits import REVISIONS_MAX, RUN_OPERATIONS_MAX
from amends.core.model import Event, Operation, RunState
from amends.core.states import NOTHING_HAPPENED, Kind, State
from amends.core.terms import Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One wish, in canonical form.

    ``arguments`` are typed-encoded JSON values. ``revise`` asks for a linked revision although the
    parameters are the same ("authorized anew").
    """

    operation: str
    key: str
    terms: Terms
    identity: str
    target: str
    params_hash: str
    arguments: Mapping[str, Any]
    occurrence: str = ""
    revision: int = 0
    previous: str = ""
    lock: str = ""
    provenance: str = ""
    revise: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What policy said, with what it was and by whom. A replay reads this and never asks again."""

    allowed: bool
    policy: str
    policy_version: str
    reason: str = ""


class Meeting(StrEnum):
    """What a proposal meets, in order of precedence: exactly one holds."""

    NEW = "new"
    EXISTS = "exists"
    NOTHING_HAPPENED = "nothing_happened"
    EXISTS_WITH_DIFFERENT_PARAMETERS = "exists_with_different_parameters"
    TOO_MANY_REVISIONS = "too_many_revisions"
    RUN_FULL = "run_full"


def meet(state: RunState, existing: Operation | None, proposal: Proposal) -> Meeting:
    """What ``proposal`` meets. ``existing`` is the operation under its key, wherever it was found."""
    if existing is None:
        full = len(state.operations) >= RUN_OPERATIONS_MAX
        return Meeting.RUN_FULL if full else Meeting.NEW
    same = existing.params_hash == proposal.params_hash
    if same and not proposal.revise:
        return Meeting.EXISTS
    if existing.state in NOTHING_HAPPENED and existing.state is not State.CANCELLED:
        too_many = existing.revision >= REVISIONS_MAX
        return Meeting.TOO_MANY_REVISIONS if too_many else Meeting.NOTHING_HAPPENED
    return Meeting.EXISTS if same else Meeting.EXISTS_WITH_DIFFERENT_PARAMETERS


def propose(proposal: Proposal, verdict: Verdict) -> list[Event]:
    """The wish, and what policy said of it, recorded together."""
    facts: dict[str, Any] = {
        "key": proposal.key,
        "action": proposal.terms.action,
        "recovery": proposal.terms.recovery.value,
        "params_hash": proposal.params_hash,
        "effect_version": proposal.terms.version,
        "identity": proposal.identity,
        "arguments": len(proposal.arguments),
    }
    for name in ("occurrence", "revision", "previous", "lock", "provenance"):
        value = getattr(proposal, name)
        if value:
            facts[name] = value
    content = {"target": proposal.target}
    content.update((f"argument.{name}", value) for name, value in proposal.arguments.items())
    said = {"policy": verdict.policy, "policy_version": verdict.policy_version}
    if verdict.allowed:
        answer = Event(Kind.AUTHORIZED, proposal.operation, said)
    else:
        answer = Event(Kind.REJECTED, proposal.operation, {**said, "reason": "policy"}, {"detail": verdict.reason})
    return [Event(Kind.PROPOSED, proposal.operation, facts, content), answer]


def reopen_for_program(state: RunState, *, deadline_at: int) -> list[Event]:
    """A program that proposes something new in a closed run has not finished it after all."""
    if state.closed is None and state.ending is None:
        return []
    return [Event(Kind.RUN_REOPENED, "", {"by": "program", "deadline_at": deadline_at})]


def failed_checks(checks: Mapping[str, str]) -> list[str]:
    """The names of preparation checks that did not pass (R10): their result is ``no`` or ``no: why``."""
    return [name for name, result in checks.items() if result.partition(":")[0] == "no"]
