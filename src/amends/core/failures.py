"""How a call can end, before anything is decided about it (R17).

Five ends, and each knows who may act: ``response`` (evidence of an effect), ``rejected`` (the
destination refused: confirmed), ``never_left`` (confirmed: no byte of the request went out),
``partial`` (confirmed: a part of it happened) and ``unknown`` (everything else). An end that nobody
classified is *unknown*, never *failed*.

``NotSent``, ``Rejected``, ``Partial`` and ``Ambiguous`` are what an effect function raises to say so by itself,
for instance around a vendor's SDK. Amends' own client raises them too, save ``Partial``: only the effect
knows what its parts are.
"""

import re
from enum import StrEnum
from typing import Any, Final

from amends.core import told
from amends.core.limits import REASON_CHARS_MAX

_CODE: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,100}")
"""A code is a word that programs compare; a sentence in its place is left out. It is chained in clear."""

STATUS_MAX: Final = 999
"""The largest status that any known protocol has."""


class Outcome(StrEnum):
    """The end of one attempt."""

    RESPONSE = "response"
    REJECTED = "rejected"
    NEVER_LEFT = "never_left"
    PARTIAL = "partial"
    UNKNOWN = "unknown"


class Interval(StrEnum):
    """Which interval a time-out ended (R17)."""

    QUEUE = "queue"
    CONNECT = "connect"
    EXECUTION = "execution"
    APPROVAL = "approval"
    RUN = "run"


class CallEnded(Exception):
    """Base of what a destination's client, or an effect function, says about the end of a call.

    ``said`` is the reason as it was given, whole: what is sensitive in it is blotted out before it is cut.
    It never refuses to be made: that would turn a classified end into an unclassified one. A value that
    cannot be recorded is left out, or replaced by words that say what was there.
    """

    outcome: Outcome = Outcome.UNKNOWN

    def __init__(
        self,
        reason: str,
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
        interval: Interval | None = None,
        code: str | None = None,
    ) -> None:
        self.said: str = reason if type(reason) is str else clip(reason)
        self.reason: str = clip(reason)
        super().__init__(self.reason)
        self.status: int | None = told.number(status, STATUS_MAX)
        self.retry_after_s: float | None = told.seconds(retry_after_s)
        self.interval: Interval | None = interval if isinstance(interval, Interval) else None
        self.code: str | None = code if isinstance(code, str) and _CODE.fullmatch(code) else None

    def facts(self) -> dict[str, Any]:
        """What may be chained: no text from the destination."""
        out: dict[str, Any] = {}
        if self.status is not None:
            out["status"] = self.status
        if self.code is not None:
            out["code"] = self.code
        if self.interval is not None:
            out["interval"] = self.interval.value
        return out


class NotSent(CallEnded):
    """The call never left: connecting failed, or its budget was spent before the send."""

    outcome = Outcome.NEVER_LEFT


class Rejected(CallEnded):
    """The destination refused, and says so. ``retryable`` only where a later try may be taken
    (a 429, say): the refusal is certain either way.
    """

    outcome = Outcome.REJECTED

    def __init__(self, reason: str, *, retryable: bool = False, **facts: Any) -> None:
        super().__init__(reason, **facts)
        self.retryable = retryable


class Partial(CallEnded):
    """A part of it surely happened, and the rest surely did not: two of three transfers, say.

    It is never tried again: a repeat would double that part. The operation goes to a person as
    ``reconciliation_required``; say in the reason which part it was.
    """

    outcome = Outcome.PARTIAL


class Ambiguous(CallEnded):
    """The call left, and nothing certain came back."""

    outcome = Outcome.UNKNOWN


def clip(text: str, chars_max: int = REASON_CHARS_MAX) -> str:
    """``text`` on one line and at most ``chars_max`` long; what is cut is marked."""
    return told.sentence(text, chars_max)
