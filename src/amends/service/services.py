"""What the verbs of one application share."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from amends.core.proposal import Verdict
from amends.errors import UsageError
from amends.ports.ledger import Ledger
from amends.ports.world import Clock, Entropy, PolicySource, Secrets
from amends.service.handle import RunHandle
from amends.service.registry import RunType, Sealed
from amends.service.sensitive import Vault


class AllowAll:
    """The policy of an application that names none: everything that is registered is allowed."""

    def decide(self, facts: Mapping[str, object]) -> Verdict:
        """Allowed."""
        return _ALLOWED


_ALLOWED = Verdict(True, "none", "0")


@dataclass(slots=True, kw_only=True)
class Services:
    """One application's ledger, ports and sealed registrations.

    ``driven`` are the operations that a program in this process is driving itself; recovery leaves them
    to it.
    """

    ledger: Ledger
    clock: Clock
    entropy: Entropy
    secrets: Secrets
    policy: PolicySource
    vault: Vault | None = None
    sealed: Mapping[str, Sealed] = field(default_factory=dict)
    run_types: Mapping[str, RunType] = field(default_factory=dict)
    driven: dict[str, int] = field(default_factory=dict)

    def handle(self, run: str) -> RunHandle:
        """The run ``run``, loaded."""
        return RunHandle(run, self.ledger, self.clock, self.entropy)

    def sealed_as(self, action: str) -> Sealed:
        """The registration of ``action``.

        Raises:
            UsageError: it is not registered in this process.
        """
        try:
            return self.sealed[action]
        except KeyError:
            raise UsageError(
                f"the effect {action!r} is not registered in this process; run its application, or name it in "
                "previously= of the effect that took its place"
            ) from None
