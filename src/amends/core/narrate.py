"""The story of a run: each event as a sentence, and where an operation stands now.

Pure: the same events give the same words in every process. What the application, a destination or a model
wrote is quoted with its control, direction and invisible characters escaped, and is never interpreted.
The sentences tell apart what must not be confused (R14): a request that failed, a response that was lost,
a commit that succeeded, a verification that failed, a compensation that failed, and nobody having looked.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from amends.core.acting import can_be_done
from amends.core.model import Event, Operation
from amends.core.safe_text import quoted, visible
from amends.core.standing import Waits, to_have_it_done, waits_for, why
from amends.core.states import Kind, State
from amends.core.terms import Terms
from amends.core.wording import because, clock, receipt_words

K = Kind


class _Told(NamedTuple):
    """An event as its sentence needs it."""

    facts: Mapping[str, Any]
    content: Mapping[str, Any]
    at_ms: int
    operation: Operation | None

    def why(self, default: str = "") -> str:
        """The reason in words, with status, code and detail where they were recorded."""
        reason = self.facts.get("reason", "")
        said = because(reason) if reason else default
        extra = [f"status {self.facts['status']}"] if "status" in self.facts else []
        if self.facts.get("code") not in (None, "", reason):
            extra.append(because(str(self.facts["code"])))
        if "interval" in self.facts:
            extra.append(f"time limit: {visible(str(self.facts['interval']))}")
        if self.content.get("detail"):
            extra.append(quoted(self.content["detail"]))
        return said + (f" ({', '.join(extra)})" if extra else "")

    def wake(self, what: str) -> str:
        """``; what is due at …``, or nothing where no pass is planned."""
        at = self.facts.get("wake_at")
        if at is None:
            return ""
        return f"; {what} now" if at <= self.at_ms else f"; {what} at {clock(at, self.at_ms)}"

    def attempt(self) -> str:
        """``attempt 1``, by the event or else by the operation."""
        number = self.facts.get("attempt", self.operation.attempts if self.operation else "")
        return f"attempt {number}".strip()


def narrate(event: Event, at_ms: int, operation: Operation | None = None) -> str:
    """``event``, recorded at ``at_ms``, as one sentence without its time and without a full stop.

    ``operation`` is the operation as it stood after the event; ``None`` for an event of the run.
    """
    return _SENTENCES[event.kind](_Told(event.facts, event.content, at_ms, operation))


def _run_opened(it: _Told) -> str:
    event = quoted(it.content["event"]) if it.content.get("event") else "an event that was erased"
    reason = f"; reason given: {quoted(it.content['reason'])}" if it.content.get("reason") else ""
    kind, principal = quoted(it.facts.get("type", "")), quoted(it.facts.get("principal", ""))
    return f"the run of type {kind} was opened for event {event} by {principal}{reason}"


def _run_closed(it: _Told) -> str:
    how = it.facts.get("how")
    words = {
        "returned": "the program left the run normally: it is done",
        "raised": "the program left the run with an exception",
        "deadline": "the run's deadline passed and its program had not come back: it was closed",
    }
    return (words.get(str(how)) or f"the run was closed: {quoted(how)}") + _end_state(it)


def _end_state(it: _Told) -> str:
    """The first format told the answer with the leaving."""
    return "" if it.facts.get("end_state") is None else f"; {_end_state_asked(it)}"


END_STATES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "verified": "its end state was verified",
        "failed": "its end state does not hold",
        "pending": "its end state does not hold yet",
        "unavailable": "its end state could not be asked for",
    }
)
"""What an end-state query said, in words."""


def _end_state_asked(it: _Told) -> str:
    said, why = it.facts.get("end_state", ""), it.why()
    words = END_STATES.get(str(said), f"its end state is {quoted(said)}")
    return words + (f": {why.strip()}" if why else "") + it.wake("it is asked for again")


ENDINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "completed": "the program is done and nothing is left open",
        "failed_clean": "failed, and nothing of it happened",
        "failed_compensated": "failed, and everything that happened was offset",
        "failed_reconciled": "failed, and a person reconciled what had happened",
        "failed_with_irreversible_effect": "failed, and an effect stands that cannot be undone",
        "failed_reconciliation_required": "failed, and what happened still has to be reconciled",
        "unknown": "what happened is not known yet",
    }
)
"""The seven endings in words."""


def _run_ended(it: _Told) -> str:
    ending = str(it.facts.get("ending"))
    return f"the run's ending is {visible(ending)}: {ENDINGS.get(ending, 'an ending without words')}"


def _run_reopened(it: _Told) -> str:
    if it.facts.get("by") == "program":
        return "the program asked for something new: the run is open again"
    return "the facts changed: the earlier ending no longer holds and the run is open again"


def _joined_by(it: _Told) -> str:
    run, state = quoted(it.facts.get("run", "")), visible(str(it.facts.get("state", "")))
    return f"run {run} shares this operation and knows it as {state}"


def _joined(it: _Told) -> str:
    return f"the run joined an operation of run {quoted(it.facts.get('run', ''))}: one action, one effect"


def _proposed(it: _Told) -> str:
    what = named(it.operation) if it.operation else quoted(it.facts.get("action", ""))
    extra = (
        f", as revision {it.facts['revision']}, since nothing came of the one before"
        if it.facts.get("revision")
        else ""
    )
    if it.facts.get("occurrence"):
        extra += f", once more on purpose ({quoted(it.facts['occurrence'])})"
    return f"{what} was proposed under key {visible(str(it.facts.get('key', '')))}{extra}"


def _authorized(it: _Told) -> str:
    policy, version = quoted(it.facts.get("policy", "")), quoted(it.facts.get("policy_version", ""))
    return f"policy {policy}, version {version}, allowed it"


def _checks(it: _Told) -> str:
    checks = {name: str(said) for name, said in (it.facts.get("checks") or {}).items()}
    open_ = [f"{visible(name)}: {visible(said)}" for name, said in checks.items() if said.split(":")[0] != "ok"]
    passed = len(checks) - len(open_)
    return f"{passed} checks passed" + (f" ({'; '.join(open_)})" if open_ else "")


def _claimed(it: _Told) -> str:
    until = clock(it.facts["budget_ends_at"], it.at_ms) if "budget_ends_at" in it.facts else "its budget's end"
    worker = visible(str(it.facts.get("worker", "")), 80)
    return f"{it.attempt()} was claimed by worker {worker} before the call left; it may send until {until}"


def _never_left(it: _Told) -> str:
    again = it.wake("the next attempt is due")
    if it.facts.get("reason") == "rejected_for_now":
        return f"the request failed: {it.why()}; nothing happened{again}"
    return f"{it.attempt()} never left: {it.why('nothing of the request was sent')}; nothing happened{again}"


def _rejected(it: _Told) -> str:
    return f"the request failed, the destination refused it: {it.why()}; nothing happened"


def _response(it: _Told) -> str:
    receipt = receipt_words(it.content.get("receipt"))
    late = "a late answer to" if it.facts.get("late") else "the destination answered"
    lacking = it.facts.get("lacking")
    short = f"; it lacks {visible(', '.join(map(str, lacking)))}" if lacking else ""
    return f"{late} {it.attempt()}: the remote commit succeeded with {receipt}{short}"


def _unknown(it: _Told) -> str:
    return f"the response to {it.attempt()} was lost: {it.why()}; its outcome is unknown{it.wake('finding out is due')}"


def _verified(it: _Told) -> str:
    by = {"receipt": "by the receipt", "read": "by a read of the destination", "observation": "by what was found"}
    return f"the postcondition was verified {by.get(str(it.facts.get('by')), 'by ' + quoted(it.facts.get('by', '')))}"


def _pending(it: _Told) -> str:
    return f"not verified yet: {it.why()}{it.wake('the next check is due')}"


def _looking(it: _Told) -> str:
    return f"reconciliation: lookup {it.facts.get('pass', '')} was started".replace("  ", " ")


def _adopted(it: _Told) -> str:
    receipt = receipt_words(it.content.get("receipt"))
    return f"the lookup found exactly one record with our key: {receipt}; it was adopted"


def _unsure(it: _Told) -> str:
    return f"the lookup settled nothing: {it.why()}{it.wake('the next look is due')}"


def _absent(it: _Told) -> str:
    return f"the lookup found nothing, and sending again is harmless: {it.why()}{it.wake('the next attempt is due')}"


def _exhausted(it: _Told) -> str:
    return f"given up: {it.why()}; nothing happened"


def _duplicate(it: _Told) -> str:
    return f"more than one effect exists: {it.why('several records match')}; a person has to reconcile"


def _mismatch(it: _Told) -> str:
    return f"what the destination holds contradicts what was intended: {it.why()}; a person has to reconcile"


def _escalated(it: _Told) -> str:
    to = quoted(it.facts["to"]) if it.facts.get("to") else "its owner"
    return f"handed over to {to}: {it.why('nothing more can be found out automatically')}"


def _evidence(it: _Told) -> str:
    late = " late" if it.facts.get("late") else ""
    return f"evidence came{late} and was kept: {receipt_words(it.content.get('receipt'))}"


def _partial(it: _Told) -> str:
    return f"only a part of {it.attempt()} was done: {it.why()}; a person has to reconcile"


def _saying(words: str) -> Callable[[_Told], str]:
    """``words``, with the reason behind them where one was recorded."""

    def sentence(it: _Told) -> str:
        why = it.why()
        return f"{words}: {why.strip()}" if why else words

    return sentence


_SENTENCES: Final[Mapping[Kind, Callable[[_Told], str]]] = MappingProxyType(
    {
        K.RUN_OPENED: _run_opened,
        K.RUN_READ: _saying("a read was recorded"),
        K.RUN_CLOSED: _run_closed,
        K.RUN_ENDED: _run_ended,
        K.RUN_REOPENED: _run_reopened,
        K.RUN_JOINED: _joined,
        K.RUN_JOINED_BY: _joined_by,
        K.END_STATE_POSTPONED: _saying("its end state is asked for when its operations are settled"),
        K.END_STATE_STARTED: lambda it: f"its end state is asked for, time {it.facts.get('pass', '')}".rstrip(),
        K.END_STATE_ASKED: _end_state_asked,
        K.EFFECTS_SEALED: _saying("the registrations in force were recorded"),
        K.PROPOSED: _proposed,
        K.APPROVAL_REQUESTED: _saying("a person's approval was asked for"),
        K.AUTHORIZED: _authorized,
        K.REJECTED: _saying("refused before anything was sent"),
        K.EXPIRED: _saying("it expired before anything was sent"),
        K.CANCELLED: _saying("it was cancelled"),
        K.PREPARED: lambda it: f"prepared: {_checks(it)}",
        K.PREPARATION_FAILED: _saying("not sent, the preparation failed"),
        K.COMMIT_STARTED: _claimed,
        K.NEVER_LEFT: _never_left,
        K.DESTINATION_REJECTED: _rejected,
        K.RETRIES_EXHAUSTED: _exhausted,
        K.RESPONSE_RECEIVED: _response,
        K.PARTIALLY_COMPLETED: _partial,
        K.OUTCOME_UNKNOWN: _unknown,
        K.VERIFICATION_STARTED: _saying("the verifying read was started"),
        K.VERIFICATION_PENDING: _pending,
        K.POSTCONDITION_VERIFIED: _verified,
        K.POSTCONDITION_FAILED: _saying("verification failed"),
        K.RECONCILIATION_STARTED: _looking,
        K.RECONCILIATION_COMPLETED: _adopted,
        K.RECONCILIATION_UNSURE: _unsure,
        K.ABSENT_CONFIRMED: _absent,
        K.DUPLICATE_FOUND: _duplicate,
        K.MISMATCH_FOUND: _mismatch,
        K.HUMAN_ESCALATED: _escalated,
        K.EVIDENCE_RECORDED: _evidence,
        K.COMPENSATION_REQUESTED: _saying("a compensation was asked for"),
        K.COMPENSATION_STARTED: _saying("the compensation was started"),
        K.COMPENSATION_VERIFIED: _saying("the compensation was verified: the effect is offset"),
        K.COMPENSATION_FAILED: _saying("the compensation failed: the effect stands"),
        K.IRREVERSIBLE_EFFECT_RECORDED: _saying("recorded as an effect that cannot be undone"),
    }
)
"""A sentence for every kind; a test goes over all of them."""


def named(operation: Operation) -> str:
    """``action on "target"``."""
    target = quoted(operation.target, 200) if operation.target is not None else "a target that was erased"
    return f"{visible(operation.action, 80)} on {target}"


def stands(operation: Operation, terms: Terms | None = None, *, to: str = "", now: int | None = None) -> str:
    """Where ``operation`` stands, why, and what happens next or who must act: one paragraph.

    Args:
        operation: as folded.
        terms: the registration in force, where the caller has it; names the owner.
        to: whom an event handed it to, where one did.
        now: wall-clock milliseconds; by default the instant the record itself speaks of.
    """
    owner = to or (terms.escalate_to or terms.owner if terms else "")
    who = quoted(owner, 80) if owner else f"the owner of {visible(operation.action, 80)}"
    because_of = why(operation)
    sentences = [f"{named(operation)} is {operation.state.value}: {meaning(operation)}."]
    sentences += [f"Why: {because_of}."] if because_of else []
    return " ".join([*sentences, _next(operation, who, now if now is not None else operation.attempt_at)])


def _next(operation: Operation, who: str, now: int) -> str:
    at = "now" if operation.wake_at is None else f"at {clock(operation.wake_at, now)}"
    match waits_for(operation, now=now):
        case Waits.NOBODY if operation.state is State.NOT_COMMITTED:
            return f"Nothing is owed. To have it done after all: {to_have_it_done(operation)}."
        case Waits.NOBODY:
            return "Nothing is owed."
        case Waits.PROGRAM:
            return "Next: nothing by itself; the program has to ask again, with the same event and arguments."
        case Waits.CALL:
            ends = clock(operation.attempt_ends_at, now)
            return f"Next: its call may run until {ends}; without a result by then its outcome is unknown."
        case Waits.RECOVERY:
            return f"Next: recovery goes on {at}; it runs in the application, or by `amends recover MODULE:APP`."
        case Waits.PERSON:
            said = f"Next: {who} must act; nothing is sent again meanwhile."
            return " ".join(part for part in (said, can_be_done(operation)) if part)


def meaning(operation: Operation) -> str:
    """What the state of ``operation`` means for the world, in words."""
    return _MEANING[operation.state](operation)


def _unknown_meaning(operation: Operation) -> str:
    looked = f"{operation.lookups} lookup{'s' if operation.lookups != 1 else ''} did not settle it"
    looked = looked if operation.lookups else "reconciliation never ran"
    return f"a response was lost, so it may or may not have happened; {looked}"


def _human_meaning(operation: Operation) -> str:
    if operation.unknown_attempts:
        return _unknown_meaning(operation)
    return "it is not carried on automatically"


def _retry_meaning(operation: Operation) -> str:
    if operation.unknown_attempts:
        return "it was not found at the destination, and another attempt under the same key is harmless"
    return "the last attempt failed for certain and nothing happened so far"


def _reconcile_meaning(operation: Operation) -> str:
    if operation.receipt is not None:
        return f"the remote commit succeeded with {receipt_words(operation.receipt)}, and it is not as intended"
    return "what the destination holds contradicts what was intended"


def _means(words: str) -> Callable[[Operation], str]:
    return lambda _: words


_MEANING: Final[Mapping[State, Callable[[Operation], str]]] = MappingProxyType(
    {
        State.PROPOSED: _means("it was asked for, and nothing was sent"),
        State.REJECTED: _means("it was refused, and nothing was sent"),
        State.AWAITING_APPROVAL: _means("it waits for an approval, and nothing was sent"),
        State.EXPIRED: _means("its time passed before anything happened"),
        State.AUTHORIZED: _means("it is allowed, and nothing was sent"),
        State.PREPARED: _means("it is ready, and nothing was sent"),
        State.COMMITTING: lambda op: f"attempt {op.attempts} is claimed and has no recorded end",
        State.RETRYABLE: _retry_meaning,
        State.COMMITTED: lambda op: f"the remote commit succeeded with {receipt_words(op.receipt)}; not verified yet",
        State.VERIFYING: lambda op: f"the remote commit succeeded with {receipt_words(op.receipt)}; not verified yet",
        State.VERIFIED: lambda op: f"it happened and was verified, with {receipt_words(op.receipt)}",
        State.OUTCOME_UNKNOWN: _unknown_meaning,
        State.RECONCILING: _unknown_meaning,
        State.RECONCILED: lambda op: (
            f"it was found at the destination with {receipt_words(op.receipt)}; not verified yet"
        ),
        State.RECONCILIATION_REQUIRED: _reconcile_meaning,
        State.HUMAN_REQUIRED: _human_meaning,
        State.COMPENSATION_REQUIRED: lambda op: f"it happened with {receipt_words(op.receipt)} and is to be offset",
        State.COMPENSATING: lambda op: f"it happened with {receipt_words(op.receipt)} and is being offset",
        State.COMPENSATED: _means("it happened and was offset again"),
        State.COMPENSATION_FAILED: lambda op: (
            f"it happened with {receipt_words(op.receipt)}, and its compensation failed: the effect stands"
        ),
        State.IRREVERSIBLE_EFFECT: lambda op: f"it happened with {receipt_words(op.receipt)} and cannot be undone",
        State.NOT_COMMITTED: _means("the request failed for certain, and nothing happened"),
        State.CANCELLED: _means("it was cancelled, and nothing is known to have happened"),
    }
)
"""What each state means for the world; a test goes over all of them."""
