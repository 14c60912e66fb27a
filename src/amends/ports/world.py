"""Ports to what the core may not have: the clock, entropy, and what policy says."""

from collections.abc import Mapping
from typing import Any, Protocol

from amends.core.proposal import Verdict


class Clock(Protocol):
    """Wall-clock instants for the record; a suspension-counting clock for the budgets of live calls."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def budget_ms(self) -> int:
        """Monotonic milliseconds that go on while the machine is suspended."""
        ...


class Entropy(Protocol):
    """The only source of chance."""

    def jitter(self) -> float:
        """A number in [0, 1)."""
        ...

    def salt(self) -> bytes:
        """Sixteen random bytes."""
        ...

    def append_id(self) -> str:
        """A name no other append ever has."""
        ...

    @property
    def worker(self) -> str:
        """This incarnation of this process."""
        ...


class PolicySource(Protocol):
    """What policy says of a proposal. Called once, before the proposal is recorded."""

    def decide(self, facts: Mapping[str, Any]) -> Verdict:
        """Deny or allow, with the policy's name and version."""
        ...
