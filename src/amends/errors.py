"""Every error a caller may see, split by who must act.

    AmendsError
    ├── UsageError                  the program must change            exit 2
    │   ├── RegistrationError       registrations found wrong at start
    │   ├── ArgumentsRefused        an argument has no canonical form
    │   └── MissingExtra            an optional dependency is not installed
    ├── RefusedError                policy or state says no            exit 3
    │   ├── Refused                 policy, authority or a precondition
    │   ├── NotCommitted            it is proved that nothing happened
    │   ├── Conflict                same key, other parameters; or a resource is held
    │   ├── Cancelled               a durable cancel stands
    │   ├── Stopped                 a stop control stands
    │   └── Compensated             it happened and was offset again
    ├── VerificationFailed          it happened, not as intended       exit 1
    ├── ReceiptErased               it happened; its receipt is gone   exit 1
    ├── AwaitingApproval            a person has to decide             exit 4
    ├── OutcomeUnknown              reconcile; never repeat blindly    exit 5
    ├── LedgerUnavailable           retry later                        exit 6
    └── LedgerIntegrityError        stop; the record itself is at odds exit 6
        ├── LedgerTooNew
        └── LedgerCorrupt

A message says what happened, why it is refused, and what to do next. Facts are attributes, so no
caller has to match text; all of it survives pickling. No message quotes a secret.

Four more are raised *by* an effect function, never at a caller of ``run.do``: ``NotSent``, ``Rejected``,
``Partial`` and ``Ambiguous`` (see ``amends.core.failures``).
"""

from typing import Any, ClassVar


class AmendsError(Exception):
    """Base of everything Amends raises on purpose.

    Attributes:
        code: stable, documented in ``docs/reference/errors.md``.
        exit_code: what the command line returns for it.
        facts: what is known, as plain values.
    """

    code: ClassVar[str] = "amends"
    exit_code: ClassVar[int] = 2

    def __init__(self, message: str, /, **facts: Any) -> None:
        super().__init__(message)
        self.facts: dict[str, Any] = facts

    @property
    def message(self) -> str:
        """The text, as one string."""
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.args[0], self.facts))


def _rebuild(cls: type[AmendsError], message: str, facts: dict[str, Any]) -> AmendsError:
    return cls(message, **facts)


class UsageError(AmendsError):
    """The calling program is wrong; repeating will not help."""

    code = "usage"
    exit_code = 2


class RegistrationError(UsageError):
    """Registrations do not hold together. ``findings`` lists every one, in words."""

    code = "registration"

    @property
    def findings(self) -> list[str]:
        """One sentence per thing that is wrong."""
        return list(self.facts.get("findings", ()))


class ArgumentsRefused(UsageError):
    """An argument has no canonical form, or does not fit the effect's signature."""

    code = "arguments_refused"


class MissingExtra(UsageError, ImportError):
    """An optional part is not installed; the message names the extra."""

    code = "missing_extra"


class OperationError(AmendsError):
    """What all answers about one operation share: its ``operation``, ``key`` and ``run``."""

    code = "operation"

    @property
    def operation(self) -> str | None:
        """The operation's id."""
        return self.facts.get("operation")

    @property
    def key(self) -> str | None:
        """The operation's idempotency key."""
        return self.facts.get("key")

    @property
    def run(self) -> str | None:
        """The run's id."""
        return self.facts.get("run")

    @property
    def state(self) -> str | None:
        """The operation's state when this was raised."""
        return self.facts.get("state")


class RefusedError(OperationError):
    """Policy or state says no. Nothing was sent because of this call."""

    code = "refused"
    exit_code = 3


class Refused(RefusedError):
    """Policy, authority or a precondition refused the operation."""

    code = "refused"


class NotCommitted(RefusedError):
    """It is proved that nothing happened: the destination refused, or the call never left."""

    code = "not_committed"


class Conflict(RefusedError):
    """The same key with other parameters, or a resource another operation holds.

    Attributes in ``facts``: ``requested`` and ``recorded`` parameter sets where there are two.
    """

    code = "conflict"

    @property
    def requested(self) -> dict[str, Any] | None:
        """The parameters of this call."""
        return self.facts.get("requested")

    @property
    def recorded(self) -> dict[str, Any] | None:
        """The parameters of the operation that was there before."""
        return self.facts.get("recorded")


class Cancelled(RefusedError):
    """A durable cancel stands for the operation or its run."""

    code = "cancelled"


class Stopped(RefusedError):
    """A stop control stands; recovery goes on, new work does not."""

    code = "stopped"


class Compensated(RefusedError):
    """The effect happened and was offset again."""

    code = "compensated"


class VerificationFailed(OperationError):
    """The destination answered, and what is there is not what was intended."""

    code = "verification_failed"
    exit_code = 1


class ReceiptErased(OperationError):
    """The effect happened; what the destination said of it was erased from the record on purpose."""

    code = "receipt_erased"
    exit_code = 1


class AwaitingApproval(OperationError):
    """A person has to decide. The answer drives the stored operation by itself."""

    code = "awaiting_approval"
    exit_code = 4


class OutcomeUnknown(OperationError):
    """Nobody knows yet whether the effect happened. Reconcile; never repeat blindly.

    ``facts["resumes_at_ms"]`` is when recovery looks again, or ``None`` where a person must.
    """

    code = "outcome_unknown"
    exit_code = 5


class LedgerUnavailable(AmendsError):
    """The ledger could not be read or written. Whoever was told "ok" before still is right."""

    code = "ledger_unavailable"
    exit_code = 6


class LedgerIntegrityError(AmendsError):
    """The record contradicts itself. Stop, keep the file, run ``amends doctor``."""

    code = "ledger_integrity"
    exit_code = 6


class LedgerTooNew(LedgerIntegrityError):
    """The ledger was written by a newer Amends."""

    code = "ledger_too_new"


class LedgerCorrupt(LedgerIntegrityError):
    """The file is no SQLite database, or its chain, schema or rows do not verify."""

    code = "ledger_corrupt"
