"""The record's events as the demo tells them while they happen: one short line each, or none.

What a reader needs to follow the story; ``amends why`` tells the whole of it from the same record.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from amends.core.history import Step
from amends.core.narrate import narrate
from amends.core.safe_text import visible
from amends.core.states import Kind
from amends.core.wording import receipt_words


def told(step: Step) -> str | None:
    """``step`` as a line; ``None`` for those that only a record needs."""
    words = _WORDS.get(step.event.kind)
    if words is None:
        return None
    about = f"{visible(step.operation.action, 80)}: " if step.operation is not None else ""
    return about + words(step)


def _claimed(step: Step) -> str:
    return f"attempt {step.event.facts['attempt']} is claimed, before the call leaves"


def _answered(step: Step) -> str:
    return f"answered with {receipt_words(step.event.content.get('receipt'))}"


def _lost(step: Step) -> str:
    if step.event.facts.get("reason") == "no_result_recorded":
        return "its attempt's time is over and no result is recorded; the outcome is unknown"
    return "the call left and no answer came; the outcome is unknown"


def _found(step: Step) -> str:
    return f"looked up and found, once, with our key: {receipt_words(step.event.content.get('receipt'))}"


def _verified(step: Step) -> str:
    return "verified by a read of the record itself"


def _as_recorded(step: Step) -> str:
    return narrate(step.event, step.at_ms, step.operation)


_WORDS: Final[Mapping[Kind, Callable[[Step], str]]] = MappingProxyType(
    {
        Kind.COMMIT_STARTED: _claimed,
        Kind.RESPONSE_RECEIVED: _answered,
        Kind.OUTCOME_UNKNOWN: _lost,
        Kind.RECONCILIATION_COMPLETED: _found,
        Kind.POSTCONDITION_VERIFIED: _verified,
        **dict.fromkeys(
            (
                Kind.NEVER_LEFT,
                Kind.DESTINATION_REJECTED,
                Kind.RETRIES_EXHAUSTED,
                Kind.VERIFICATION_PENDING,
                Kind.POSTCONDITION_FAILED,
                Kind.RECONCILIATION_UNSURE,
                Kind.ABSENT_CONFIRMED,
                Kind.DUPLICATE_FOUND,
                Kind.MISMATCH_FOUND,
                Kind.HUMAN_ESCALATED,
                Kind.EVIDENCE_RECORDED,
                Kind.RUN_ENDED,
                Kind.RUN_REOPENED,
            ),
            _as_recorded,
        ),
    }
)
