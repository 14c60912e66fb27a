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


class Secrets(Protocol):
    """Where the values are that ``Secret`` arguments refer to."""

    def reveal(self, reference: str) -> str:
        """The value of ``reference``. Raises ``UsageError`` when there is none."""
        ...


class PolicySource(Protocol):
    """What policy says of a proposal. Asked before it is recorded, and again immediately before each claim.

    ``facts``: ``tenant``, ``principal``, ``run``, ``run_type``, ``intent``, ``action``, ``target``,
    ``recovery``, ``amount`` (``Money`` or ``None``), ``operations`` (in the run so far), and ``verb``:
    ``propose`` or ``commit``. Nothing written by a model decides alone: arguments are not among them.
    """

    def decide(self, facts: Mapping[str, Any]) -> Verdict:
        """Deny or allow, with the policy's name and version."""
        ...
