"""What was asked about a run's valid end state, as its events say (R36).

The query is the application's code. So each time it is asked that is counted before it runs, and what it
said is an event of its own: how the program left the run stays told once.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from amends.core.states import Kind


class EndState(NamedTuple):
    """What is known of a run's end state.

    Attributes:
        said: ``verified``, ``failed``, ``pending`` or ``unavailable``; ``asking`` while it is asked,
            ``postponed`` until the run's operations are settled; ``None`` where nothing is asked.
        wake_at: when it is asked (again), in wall-clock milliseconds.
        asks: how often it was asked.
        since: when it was asked first; a program that comes back begins anew.
        why: the recorded reason.
        detail: its words.
    """

    said: str | None = None
    wake_at: int | None = None
    asks: int = 0
    since: int = 0
    why: str = ""
    detail: str | None = None

    @property
    def open(self) -> bool:
        """It will be asked, or is being asked."""
        return self.wake_at is not None


NOT_ASKED = EndState()


def after(known: EndState, kind: Kind, facts: Mapping[str, Any], content: Mapping[str, Any], at_ms: int) -> EndState:
    """What is known after one event. ``run.closed`` begins anew; the first format carried the first answer in it."""
    wake_at = facts.get("wake_at")
    match kind:
        case Kind.END_STATE_POSTPONED:
            return known._replace(said="postponed", wake_at=wake_at)
        case Kind.END_STATE_STARTED:
            since = at_ms if facts["pass"] == 1 else known.since
            return known._replace(said="asking", wake_at=wake_at, asks=facts["pass"], since=since)
        case Kind.END_STATE_ASKED:
            said, why, detail = facts["end_state"], facts.get("reason", ""), content.get("detail")
            return known._replace(said=said, wake_at=wake_at, why=why, detail=detail)
        case _:
            return EndState(said=facts.get("end_state"), wake_at=wake_at, why=facts.get("reason", ""))
