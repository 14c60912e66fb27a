"""Effects, as they are registered and sealed.

A registration is code beside data. The data (``Terms``) is what decisions are made from; the code is
called, and nothing else. What is missing is said at start, all of it at once, never at the first failure.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from amends.core.canonical import canonical_hash
from amends.core.contract import Contract
from amends.core.evidence import Observation, Receipt, Verification
from amends.core.identity import TargetTemplate
from amends.core.terms import Recovery, Retry, Terms
from amends.errors import RegistrationError, UsageError
from amends.service.call import Call

EffectFunction = Callable[..., Awaitable[Receipt]]
LookupFunction = Callable[[Call], Awaitable[Observation]]
VerifyFunction = Callable[[Call, Receipt], Awaitable[Verification]]


@dataclass(slots=True, kw_only=True)
class Effect:
    """One registered action type. Register its lookup and its verification with the decorators."""

    name: str
    function: EffectFunction
    recovery: Recovery
    template: TargetTemplate
    contract: Contract
    owner: str
    escalate_to: str
    retry: Retry
    execution_timeout_s: float
    verify_within_s: float
    lookup_escalates: bool
    replay_without_lookup: bool
    amount: str | None
    accepts: tuple[str, ...]
    parameters: inspect.Signature = field(init=False)
    lookup_function: LookupFunction | None = None
    verify_function: VerifyFunction | None = None

    def __post_init__(self) -> None:
        signature = inspect.signature(self.function)
        rest = list(signature.parameters.values())[1:]
        if not signature.parameters or any(p.kind is not inspect.Parameter.KEYWORD_ONLY for p in rest):
            raise UsageError(f"effect {self.name!r}: its function takes (call, *, name=...); arguments by keyword only")
        self.parameters = signature.replace(parameters=rest)
        unknown = self.template.check(self.parameters.parameters)
        if unknown:
            raise UsageError(f"effect {self.name!r}: its target names {', '.join(unknown)}, which it does not take")

    def lookup(self, function: LookupFunction) -> LookupFunction:
        """Register the authoritative read by the stable identity."""
        self.lookup_function = function
        return function

    def verify(self, function: VerifyFunction) -> VerifyFunction:
        """Register the postcondition, read apart from the response."""
        self.verify_function = function
        return function

    def findings(self) -> Iterable[str]:
        """What a start refuses at level recovery, in words."""
        if self.lookup_function is None and not self.lookup_escalates:
            yield f"effect {self.name!r} has no lookup: register one, or say lookup='escalate'"
        if not self.owner:
            yield f"effect {self.name!r} has no owner"

    def seal(self) -> Terms:
        """The terms that decisions are made from."""
        version = canonical_hash([self.name, self.template.text, self.recovery.value, str(self.parameters)])
        return Terms(
            action=self.name,
            recovery=self.recovery,
            version=version[:16],
            target_template=self.template.text,
            retry=self.retry,
            execution_timeout_ms=int(self.execution_timeout_s * 1000),
            verify_within_ms=int(self.verify_within_s * 1000),
            has_lookup=self.lookup_function is not None,
            has_verify=self.verify_function is not None,
            replay_without_lookup=self.replay_without_lookup,
            amount=self.amount,
            accepts=self.accepts,
            contract=self.contract,
            owner=self.owner,
            escalate_to=self.escalate_to or self.owner,
        )


def seal_all(effects: Iterable[Effect]) -> dict[str, tuple[Effect, Terms]]:
    """All registrations, checked together.

    Raises:
        RegistrationError: lists every finding.
    """
    every = list(effects)
    findings = [finding for effect in every for finding in effect.findings()]
    if findings:
        raise RegistrationError("the registrations do not hold together: " + "; ".join(findings), findings=findings)
    return {effect.name: (effect, effect.seal()) for effect in every}
