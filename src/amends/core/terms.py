"""The sealed terms of one action type: everything the decisions of the core may depend on.

A start turns each registration into ``Terms``. They are data: the same terms, facts and instant give
the same decision in every process, and no model or tool argument can reach them.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from amends.core.contract import LOCAL, Contract, Mechanism

VERIFICATIONS_MAX: Final = 200
"""Passes of one verification: its deadline ends it before, unless each pass kills its process."""

VERIFY_WITHIN_S: Final = 120.0
"""Default wait for a postcondition: longer than most providers' settling, shorter than a person's patience."""


class Recovery(StrEnum):
    """What can be done about an effect afterwards (R1)."""

    REVERSIBLE = "reversible"
    COMPENSATABLE = "compensatable"
    IRREVERSIBLE = "irreversible"
    UNKNOWN = "unknown"

    @property
    def treated_as(self) -> "Recovery":
        """``unknown`` is treated as irreversible."""
        return Recovery.IRREVERSIBLE if self is Recovery.UNKNOWN else self


class Exposure(StrEnum):
    """What a failure of this action exposes, declared by its owner."""

    LOW = "low"
    MODERATE = "moderate"
    HIGH = "high"


class Level(StrEnum):
    """How much of Amends an application has adopted (R16): which hooks a start demands.

    Attempts are claimed at every level. Below ``recovery`` a missing lookup means *escalate only*.
    """

    VERIFICATION = "verification"
    IDEMPOTENCY = "idempotency"
    LEDGER = "ledger"
    RECOVERY = "recovery"
    GRAPH = "graph"

    def demands(self, level: "Level") -> bool:
        """Whether an application at this level has to have what ``level`` brings."""
        every = list(Level)
        return every.index(self) >= every.index(level)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often and how fast the same effect may be tried under the same key.

    An attempt is made again only where that is safe: the call never left, the destination refused for now (a
    429), or it is proved that nothing happened. By default ten attempts spread over one and a half to three
    minutes: longer than a destination's restart or failover takes, and short enough that a person hears of a
    real outage. Each pause is 50 to 100 % of its length, so that operations which failed together do not come
    back together; a longer ``Retry-After`` counts, up to a quarter of an hour.

    When the attempts are spent and nothing happened, the operation is *not committed*; asked again, the same
    wish is a linked revision with a key and a budget of its own.

    Args:
        attempts: claims in all, 1 to 100; counted when claimed. 1 means "never again by itself".
        first_delay_s: pause before the second attempt in seconds, up to 900; it doubles each time.
        delay_s_max: the longest pause in seconds, up to 900.

    >>> Retry(attempts=1).attempts
    1
    """

    attempts: int = 10
    first_delay_s: float = 0.5
    delay_s_max: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """One action type, sealed."""

    action: str
    recovery: Recovery
    version: str
    target_template: str
    retry: Retry = field(default_factory=Retry)
    execution_timeout_ms: int = 20_000
    lookup_timeout_ms: int = 10_000
    lookups: int = 12
    lookup_delay_ms: int = 500
    verify_within_ms: int = int(VERIFY_WITHIN_S * 1000)
    verify_delay_ms: int = 500
    verifications: int = VERIFICATIONS_MAX
    has_lookup: bool = False
    has_verify: bool = False
    has_version: bool = False
    has_compensation: bool = False
    has_capture: bool = False
    replay_without_lookup: bool = False
    evidence: tuple[str, ...] = ("resource",)
    adopt_on: tuple[str, ...] = ("resource", "correlation")
    accepts: tuple[str, ...] = ()
    amount: str | None = None
    lock_template: str = ""
    sensitive: tuple[str, ...] = ()
    principals: tuple[str, ...] | None = None
    contract: Contract = LOCAL
    owner: str = ""
    escalate_to: str = ""
    exposure: Exposure = Exposure.MODERATE
    retention_rule: str = ""
    postcondition: str = ""

    @property
    def handed_to(self) -> str:
        """Who is asked when nobody else can tell."""
        return self.escalate_to or self.owner

    @property
    def fenced_by_state(self) -> bool:
        """The destination refuses a repeat by its own state, for ever."""
        return self.contract.mechanism in (Mechanism.CONDITIONAL_CREATE, Mechanism.COMPARE_AND_SET)
