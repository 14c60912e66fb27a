"""What the verbs of one application share."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from amends.core import told
from amends.core.proposal import Verdict
from amends.errors import UsageError
from amends.ports.ledger import Ledger
from amends.ports.world import Clock, Entropy, PolicySource, Secrets
from amends.service.changes import Changes
from amends.service.handle import RunHandle
from amends.service.registry import END_STATE_WITHIN_S, Function, RunType, Sealed
from amends.service.sensitive import Vault


class AllowAll:
    """The policy of an application that names none: everything that is registered is allowed."""

    def decide(self, facts: Mapping[str, object]) -> Verdict:
        """Allowed."""
        return _ALLOWED


_ALLOWED = Verdict(True, "none", "0")


def _denied(why: str) -> Verdict:
    """No answer is no permission."""
    return Verdict(False, "amends", "1", why)


@dataclass(slots=True, kw_only=True)
class Services:
    """One application's ledger, ports and sealed registrations.

    ``driven`` are the operations that a program in this process is driving itself; recovery leaves them
    to it. ``changes`` wakes whoever waits for a run in this process. ``living``
    are the calls in threads that have not ended.
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
    changes: Changes = field(default_factory=Changes)
    living: set[asyncio.Task[None]] = field(default_factory=set)

    def judged(self, facts: Mapping[str, object]) -> Verdict:
        """What policy says of ``facts``. A policy that raises, or says anything but yes or no, denies."""
        try:
            said: object = self.policy.decide(facts)
        except Exception as error:  # noqa: BLE001 — the boundary to user code
            return _denied(f"policy raised {type(error).__name__}")
        if not isinstance(said, Verdict):
            return _denied(f"policy returned {told.article(said)}, not a Verdict")
        try:
            told.flag("Verdict.allowed", said.allowed)
            for name in ("policy", "policy_version", "reason"):
                told.text(f"Verdict.{name}", getattr(said, name))
        except told.ToldError as error:
            return _denied(str(error))
        return said

    def end_state_of(self, type: str) -> Function | None:
        """The query that says whether a run of ``type`` is truly over, where one is declared here."""
        declared = self.run_types.get(type)
        return None if declared is None else declared.end_state

    def end_state_within_ms(self, type: str) -> int:
        """How long that query may go on saying *not yet*."""
        declared = self.run_types.get(type)
        return int((END_STATE_WITHIN_S if declared is None else declared.within_s) * 1000)

    def handle(self, run: str) -> RunHandle:
        """The run ``run``, loaded."""
        return RunHandle(run, self.ledger, self.clock, self.entropy, self.changes)

    def owner_of(self, action: str) -> str:
        """To whom an operation of ``action`` is handed over; empty where it is not registered here."""
        sealed = self.sealed.get(action)
        return "" if sealed is None else sealed.terms.escalate_to or sealed.terms.owner

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
