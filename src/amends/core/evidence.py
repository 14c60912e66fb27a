"""What destinations tell us: receipts and observations, and what we make of them.

A receipt is the destination's business proof, in *its* values, never an echo of the request. It is
evidence: HTTP 200 says that a server answered, not that money moved. Two questions are asked of it,
apart from each other: does it carry what the registration requires (``missing``), and does it agree
with what was intended (``mismatches``)?

An observation is an authoritative read. A lookup answers "is it there?" with ``Found`` (every match,
never the first one), ``Absent`` or ``Unsure``. A verification answers "is it as it should be?".

Each of them checks its values when it is made (``ToldError``, see ``amends.core.told``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from amends.core import told
from amends.core.canonical import decode_value, encode
from amends.core.limits import REASON_CHARS_MAX
from amends.core.money import Money

MATCHES_MAX: Final = 100
"""Records one lookup may return: two already are a duplicate, a hundred is a wrong query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The destination's proof of one effect.

    Args:
        resource: the destination's id of what was made or changed.
        state: the destination's word for its state, e.g. ``succeeded``.
        amount: what the destination says was moved.
        version: the resource's version after the effect, e.g. an ETag.
        correlation: our key or reference as the destination stored it.
        creator: who made it, as the destination says.
        detail: further values worth keeping; they must have a canonical form.

    Raises:
        ToldError: a value is of another type, too long, or cannot be recorded.
    """

    resource: str
    state: str | None = None
    amount: Money | None = None
    version: str | None = None
    correlation: str | None = None
    creator: str | None = None
    detail: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        told.text("Receipt.resource", self.resource)
        for name in ("state", "version", "correlation", "creator"):
            told.optional_text(f"Receipt.{name}", getattr(self, name))
        if self.amount is not None and not isinstance(self.amount, Money):
            raise told.ToldError(f"Receipt.amount is {told.article(self.amount)}, not Money(minor, currency)")
        told.mapping("Receipt.detail", self.detail)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, without empty fields."""
        out: dict[str, Any] = {"resource": self.resource}
        for name in ("state", "version", "correlation", "creator"):
            value = getattr(self, name)
            if value is not None:
                out[name] = value
        if self.amount is not None:
            out["amount"] = encode(self.amount)
        if self.detail is not None:
            out["detail"] = encode(dict(self.detail))
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Receipt":
        """The receipt that ``to_json`` wrote."""
        values = dict(data)
        if "amount" in values:
            values["amount"] = decode_value(values["amount"])
        if "detail" in values:
            values["detail"] = decode_value(values["detail"])
        return cls(**values)


class Found:
    """The lookup found records. Pass *all* that match, not the first.

    ``Found(receipt)`` or ``Found(*receipts)``.
    """

    __slots__ = ("matches",)

    def __init__(self, *matches: Receipt) -> None:
        if not matches:
            raise told.ToldError("Found() needs at least one receipt; use Absent(complete=...) for none")
        if len(matches) > MATCHES_MAX:
            raise told.ToldError(f"Found() takes at most {MATCHES_MAX} receipts, got {len(matches)}")
        if not all(isinstance(match, Receipt) for match in matches):
            raise told.ToldError("Found() takes Receipt objects")
        self.matches: tuple[Receipt, ...] = matches

    def __repr__(self) -> str:
        return f"Found{self.matches!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """The lookup found nothing.

    Args:
        complete: every page was read. A capped or partial read is not complete, and proves nothing.
        read: what was read, in words, for the record.
    """

    complete: bool
    read: str = ""

    def __post_init__(self) -> None:
        told.flag("Absent.complete", self.complete)
        told.text("Absent.read", self.read, REASON_CHARS_MAX)


@dataclass(frozen=True, slots=True)
class Unsure:
    """The lookup could not tell. ``reason`` in words; ``retry_after_s`` where the destination said."""

    reason: str
    retry_after_s: float | None = None

    def __post_init__(self) -> None:
        told.text("Unsure.reason", self.reason)
        told.pause("Unsure.retry_after_s", self.retry_after_s)


Observation = Found | Absent | Unsure


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The postcondition holds. ``evidence`` is what was read."""

    evidence: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        told.mapping("Verified.evidence", self.evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """Not yet; ``retry_after_s`` may say when to look again."""

    retry_after_s: float | None = None
    evidence: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        told.pause("Pending.retry_after_s", self.retry_after_s)
        told.mapping("Pending.evidence", self.evidence)


@dataclass(frozen=True, slots=True)
class Failed:
    """The postcondition does not hold, and waiting will not change it."""

    reason: str
    evidence: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        told.text("Failed.reason", self.reason)
        told.mapping("Failed.evidence", self.evidence)


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The verification could not be made."""

    reason: str

    def __post_init__(self) -> None:
        told.text("Unavailable.reason", self.reason)


Verification = Verified | Pending | Failed | Unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What the record of one operation's effect must say to be ours and as intended."""

    correlation: str
    amount: Money | None = None
    creator: str | None = None
    states: tuple[str, ...] = ()


def missing(receipt: Receipt, required: Sequence[str]) -> list[str]:
    """The required fields that the receipt does not carry."""
    return [name for name in required if getattr(receipt, name) in (None, "")]


def mismatches(receipt: Receipt, expected: Expectation) -> list[str]:
    """Where the receipt contradicts what was intended, one sentence each. Absent fields contradict nothing."""
    found: list[str] = []
    if receipt.correlation is not None and receipt.correlation != expected.correlation:
        found.append(f"correlation is {receipt.correlation!r}, not this operation's key")
    if expected.amount is not None and receipt.amount is not None and receipt.amount != expected.amount:
        found.append(f"amount is {receipt.amount}, intended was {expected.amount}")
    if expected.creator is not None and receipt.creator is not None and receipt.creator != expected.creator:
        found.append(f"creator is {receipt.creator!r}, not {expected.creator!r}")
    if expected.states and receipt.state is not None and receipt.state not in expected.states:
        found.append(f"state is {receipt.state!r}, accepted are {', '.join(expected.states)}")
    return found
