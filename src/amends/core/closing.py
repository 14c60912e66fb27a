"""What closes a run, and what is asked then: decisions on the folded state (R36).

The end state is asked when the program has returned and nothing is going on any more: what an operation
in motion will do to the world is not known before. Each time is counted before the query runs, so one
that kills its process is not asked for ever. *Not yet* and *could not be asked* are asked again until
their time is up; *no* is an answer.
"""

from typing import Any, Final

from amends.core.backoff import backoff_ms
from amends.core.endings import going_on
from amends.core.evidence import Failed, Pending, Unavailable, Verification, Verified
from amends.core.failures import clip
from amends.core.limits import BACKOFF_MS_MAX
from amends.core.model import Event, RunState
from amends.core.states import Kind

ASK_AGAIN_MS: Final = 2_000
"""The first pause before a query is asked again; it doubles."""

ASK_TIMEOUT_MS: Final = 30_000
"""How long one query may take: it reads several systems, and no caller waits for it longer."""


def close(state: RunState, how: str, *, now: int, asks: bool) -> list[Event]:
    """The program left the run as ``how`` says; where its type has an end state (``asks``), that is asked next.

    An exception says nothing of a run that its program had finished before and asked nothing new of.
    A program that comes back after a *no* and returns once more has it asked once more: somebody may have
    put right what was wrong.
    """
    if how == "raised" and state.closed is not None:
        return []
    again = state.closed == how
    if again and not (asks and state.end_state.said == "failed"):
        return []
    closed = [] if again else [Event(Kind.RUN_CLOSED, "", {"how": how})]
    if not (asks and how == "returned"):
        return closed
    return [*closed, _postponed(now, since=now) if going_on(state) else _started(1, now)]


def ask(state: RunState, *, now: int, within_ms: int) -> list[Event]:
    """What to do about an end state that is open: ask it now, put it off, or give up; nothing when it is not due."""
    known, busy = state.end_state, going_on(state)
    if not known.open or known.wake_at is None:
        return []
    if now < known.wake_at and (busy or known.said != "postponed"):
        return []
    if busy:
        return [_postponed(now, since=state.closed_at)]
    if known.said == "asking" and now - known.since >= within_ms:
        return [_asked({"end_state": "failed", "reason": "end_state_never_confirmed"}, "")]
    return [_started(known.asks + 1, now)]


def answered(
    state: RunState, said: Verification, *, number: int, now: int, within_ms: int, jitter: float
) -> list[Event]:
    """What the query said when it was asked for the ``number``-th time; nothing where that is told already."""
    known = state.end_state
    if known.said != "asking" or known.asks != number:
        return []
    ends_at = known.since + within_ms
    match said:
        case Verified():
            return [_asked({"end_state": "verified"}, "")]
        case Failed(reason=reason):
            return [_asked({"end_state": "failed", "reason": "end_state"}, reason)]
        case Pending() | Unavailable() if now >= ends_at:
            detail = said.reason if isinstance(said, Unavailable) else ""
            return [_asked({"end_state": "failed", "reason": "end_state_never_confirmed"}, detail)]
        case Pending(retry_after_s=after):
            asked = None if after is None else min(int(after * 1000), BACKOFF_MS_MAX)
            wake_at = min(now + (_pause(number, jitter) if asked is None else asked), ends_at)
            return [_asked({"end_state": "pending", "wake_at": wake_at}, "")]
        case Unavailable(reason=reason):
            wake_at = min(now + _pause(number, jitter), ends_at)
            return [_asked({"end_state": "unavailable", "wake_at": wake_at}, reason)]


def _started(number: int, now: int) -> Event:
    return Event(Kind.END_STATE_STARTED, "", {"pass": number, "wake_at": now + ASK_TIMEOUT_MS})


def _postponed(now: int, *, since: int) -> Event:
    """Asked when nothing is going on any more; looked at again by then, less often the longer that takes."""
    pause = min(max(now - since, ASK_AGAIN_MS), BACKOFF_MS_MAX)
    return Event(Kind.END_STATE_POSTPONED, "", {"wake_at": now + pause})


def _asked(facts: dict[str, Any], detail: str) -> Event:
    return Event(Kind.END_STATE_ASKED, "", facts, {"detail": clip(detail)} if detail else {})


def _pause(number: int, jitter: float) -> int:
    return backoff_ms(number, first_ms=ASK_AGAIN_MS, most_ms=BACKOFF_MS_MAX, jitter=jitter)
