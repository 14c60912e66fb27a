"""What an effect function, a lookup or a verification is given: the call it is part of.

The budget of an attempt began before its claim. It is checked immediately before anything is sent: a
worker that was stopped and continued sends nothing late from here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from amends.core.failures import Interval, NotSent
from amends.ports.world import Clock
from amends.service import points


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of an effect's code.

    Attributes:
        key: the idempotency key, the same in every attempt.
        operation, run: their ids.
        attempt: which attempt this is; 0 in a lookup or verification.
        arguments: a fresh copy, decoded from what was hashed.
        target: what is changed.
        resource_version: the version read before the claim, where one is registered.
        sends: what was sent so far in this attempt, as the destination's client says.
    """

    key: str
    operation: str
    run: str
    attempt: int
    arguments: Mapping[str, Any]
    target: str
    clock: Clock
    ends_at_ms: int
    resource_version: str | None = None
    sends: list[str] = field(default_factory=list)

    @property
    def remaining_s(self) -> float:
        """Seconds of the budget that are left; never negative."""
        return max(0.0, (self.ends_at_ms - self.clock.budget_ms()) / 1000)

    def check_budget(self) -> None:
        """Call it immediately before sending.

        Raises:
            NotSent: the budget is spent; nothing may leave any more.
        """
        if self.clock.budget_ms() >= self.ends_at_ms:
            raise NotSent("the attempt's time budget was spent before the send", interval=Interval.QUEUE)
        points.reached("call.before_send")

    def about_to_send(self, what: str) -> None:
        """Check the budget and remember that ``what`` is being sent. Call it before each request that changes things.

        After a second one, no refusal proves any more that nothing happened: the first may have worked.

        Raises:
            NotSent: the budget is spent; nothing may leave any more.
        """
        self.check_budget()
        self.sends.append(what)
