"""Words for the reasons that are recorded, and for receipts and instants.

A recorded reason is a stable word for machines. ``REASONS`` says each of them to a person. A reason that
is not here came from an effect's own code (a destination's error code, say) and is quoted as such; a test
goes over every reason that the source can record, so none of ours is missing.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from amends.core.canonical import decode_value
from amends.core.safe_text import quoted, visible

SEALED: Final = "$amends.sealed"
"""The key that marks a recorded value as sealed: it is shown masked, never omitted."""

MASK: Final = "•••• (sealed)"

REASONS: Final[Mapping[str, str]] = {
    "policy": "policy refused it",
    "rejected": "the destination refused the request",
    "rejected_for_now": "the destination refused for now and may take it later",
    "never_left": "nothing of the request was sent",
    "caller_cancelled": "the caller was cancelled before anything was sent",
    "attempts_spent": "all allowed attempts are spent",
    "partial": "only a part of it was done",
    "key_conflict": "the destination holds this key with other parameters",
    "key_in_progress": "the destination still works on an earlier request under this key",
    "already_exists": "the destination has such a record already, ours or another's",
    "precondition_failed": "what was to be changed has another version than the one that was read",
    "request_refused": "the request could not be made, so nothing was sent",
    "redirect": "the destination pointed elsewhere, and that is never followed",
    "answer_too_large": "the call left and its answer was too large to read",
    "answer_unreadable": "the call left and its answer came in an encoding that was not asked for",
    "no_result_recorded": "the attempt's time is over and no result was recorded: its worker died or was stopped",
    "response_lost": "the call left and no certain answer came back",
    "after_a_send": "an earlier request of the same attempt had left already",
    "unclassified": "the effect's code raised an error that nobody classified",
    "answer_refused": "what the effect answered cannot be recorded",
    "no_receipt": "the effect's code returned something that is no receipt",
    "duplicate": "another record was made under this key",
    "revised_already": "a record of it appeared after its revision was sent",
    "receipt_mismatch": "the receipt contradicts what was intended",
    "made_before_any_attempt": "there is a record under this key, and nothing was sent from here",
    "receipt_incomplete": "the receipt lacks evidence that is required",
    "several_matches": "several records match",
    "found_not_as_expected": "the record that was found is not as intended",
    "postcondition": "what is there is not what was intended",
    "pending": "the destination has not settled it yet",
    "unavailable": "the verification could not be made",
    "verification_pending": "it was still not settled when the time for verification was over",
    "verification_unavailable": "it could not be verified within the time for verification",
    "unsure": "the lookup could not tell",
    "incomplete_read": "the read was not complete, so finding nothing proves nothing",
    "lookup_consistency_undeclared": "no consistency is declared for the lookup, so finding nothing proves nothing",
    "read_before_settled": "nothing was found, but the call could still have been on its way or not yet readable",
    "fenced": "nothing is there, and the destination itself would absorb or refuse a second effect",
    "late_arrival_bound_passed": "nothing is there, and the declared bound on late arrival has passed",
    "late_arrival_bound_open": "nothing is there yet, and the call may still arrive late",
    "no_fence_and_no_bound": "nothing is there, but a late arrival could not be excluded and nothing would absorb it",
    "effect_changed": "the effect's code changed since the first call",
    "fence_expired": "the destination may no longer remember the key",
    "run_deadline": "the run's deadline passed",
    "end_state": "the end-state query said no",
    "end_state_never_confirmed": "nobody could say within its time that the run's end state holds",
    "lookups_spent": "all allowed lookups are spent",
    "no_lookup": "there is no lookup that could find out",
}

CHECK: Final = "check:"
"""What begins the reason of failed preparation checks; their names follow, with commas."""


def because(reason: str) -> str:
    """``reason`` in words."""
    if reason.startswith(CHECK):
        names = ", ".join(visible(name) for name in reason.removeprefix(CHECK).split(","))
        return f"the check {names} did not pass"
    return REASONS.get(reason) or f"code {quoted(reason, 80)}"


def instant(at_ms: int) -> str:
    """ISO 8601 with milliseconds, in UTC; the number where no calendar reaches it."""
    try:
        moment = datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"
    return f"{moment}.{at_ms % 1000:03}Z"


def clock(at_ms: int, from_ms: int) -> str:
    """``at_ms`` as seen from ``from_ms``: the time of day, with the date where that is another one."""
    there, here = instant(at_ms), instant(from_ms)
    if there[:10] != here[:10] or "T" not in there:
        return there
    return f"{there[11:-1]} UTC"


def masked(value: Any) -> Any:
    """``value`` as it may be shown: what is sealed in it is masked, however deep it lies."""
    if isinstance(value, Mapping):
        return MASK if SEALED in value else {name: masked(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [masked(part) for part in value]
    return value


def receipt_words(receipt: Mapping[str, Any] | None) -> str:
    """A receipt's fields in words, each of them the destination's and so quoted."""
    if receipt is None:
        return "a receipt that was erased since"
    said = [f"record {quoted(receipt.get('resource', ''), 120)}"]
    said += [f"{name} {quoted(receipt[name], 120)}" for name in ("state", "version") if name in receipt]
    if "amount" in receipt:
        said.insert(1, f"amount {_amount(receipt['amount'])}")
    return ", ".join(said)


def _amount(value: Any) -> str:
    try:
        return visible(str(decode_value(value)), 80)
    except (ValueError, TypeError, KeyError):
        return quoted(value, 80)
