"""Effects and reads, as they are registered and sealed.

A registration is code beside data. The data (``Terms``) is what decisions are made from; the code is
called, and nothing else. What is missing is said at start, all of it at once, never at the first failure.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Concatenate, Final, NamedTuple, TypeVar

from amends.core.canonical import canonical_hash
from amends.core.contract import Contract, Lookup, Mechanism
from amends.core.evidence import Observation, Receipt, Verification
from amends.core.identity import TargetTemplate
from amends.core.limits import ATTEMPTS_MAX, BACKOFF_MS_MAX, LOOKUPS_MAX
from amends.core.terms import Exposure, Level, Recovery, Retry, Terms
from amends.errors import RegistrationError, UsageError
from amends.ports.destination import Destination
from amends.service.call import Call, SyncCall

Function = Callable[..., Any]
"""User code: a coroutine function that takes a ``Call``, or a plain one that takes a ``SyncCall``."""

EffectFunction = Callable[Concatenate[Call, ...], Awaitable[Receipt]] | Callable[Concatenate[SyncCall, ...], Receipt]
ReadFunction = Callable[Concatenate[Call, ...], Awaitable[Any]] | Callable[Concatenate[SyncCall, ...], Any]

LookupFunction = TypeVar(
    "LookupFunction", bound=Callable[[Call], Awaitable[Observation]] | Callable[[SyncCall], Observation]
)
VerifyFunction = TypeVar(
    "VerifyFunction",
    bound=Callable[[Call, Receipt], Awaitable[Verification]] | Callable[[SyncCall, Receipt], Verification],
)
VersionFunction = TypeVar("VersionFunction", bound=Callable[[Call], Awaitable[str]] | Callable[[SyncCall], str])
CaptureFunction = TypeVar(
    "CaptureFunction",
    bound=Callable[[Call], Awaitable[Mapping[str, Any]]] | Callable[[SyncCall], Mapping[str, Any]],
)

RESERVED: Final = frozenset({"again", "if_version"})
"""Names that ``run.do`` keeps for itself."""

END_STATE_WITHIN_S: Final = 120.0
"""How long an end state may take to hold: as long as a postcondition."""

PAUSE_S_MAX: Final = BACKOFF_MS_MAX / 1000
"""The longest pause between two attempts."""

RECEIPT_FIELDS: Final = frozenset({"resource", "state", "amount", "version", "correlation", "creator"})


class Predecessor(NamedTuple):
    """An earlier name and target template of an effect, under which operations may still be alive."""

    name: str
    template: TargetTemplate


@dataclass(slots=True, kw_only=True, eq=False)
class Effect:
    """One registered action type. Its decorators register what belongs to it:

    ``lookup(call) -> Found | Absent | Unsure`` — the authoritative read by the stable identity;
    ``verify(call, receipt) -> Verified | Pending | Failed | Unavailable`` — the postcondition;
    ``resource_version(call) -> str`` — the version that a claim compares and ``If-Match`` carries;
    ``capture(call) -> dict`` — the state before, read once, before the first attempt.
    """

    name: str
    function: Function
    recovery: Recovery
    template: TargetTemplate
    owner: str
    contract: Contract
    destination: Destination | None = None
    escalate_to: str = ""
    retry: Retry = field(default_factory=Retry)
    execution_timeout_s: float = 20.0
    verify_within_s: float = 120.0
    lookup_timeout_s: float = 10.0
    lookups: int = 12
    lookup_escalates: bool = False
    compensation_escalates: bool = False
    replay_without_lookup: bool = False
    amount: str | None = None
    accepts: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ("resource",)
    exposure: Exposure = Exposure.MODERATE
    retention: str = ""
    postcondition: str = ""
    sensitive: tuple[str, ...] = ()
    locks: TargetTemplate | None = None
    principals: tuple[str, ...] | None = None
    previously: tuple[Predecessor, ...] = ()
    version: str | None = None
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(64))
    parameters: inspect.Signature = field(init=False)
    lookup_function: Function | None = None
    verify_function: Function | None = None
    version_function: Function | None = None
    capture_function: Function | None = None

    def __post_init__(self) -> None:
        self.parameters = _parameters(self.name, self.function)
        for what, template in (("target", self.template), ("locks", self.locks)):
            unknown = template.check(self.parameters.parameters) if template else ()
            if unknown:
                raise UsageError(f"effect {self.name!r}: its {what} names {', '.join(unknown)}, which it does not take")

    def lookup(self, function: LookupFunction) -> LookupFunction:
        """Register the authoritative read by the stable identity."""
        self.lookup_function = function
        return function

    def verify(self, function: VerifyFunction) -> VerifyFunction:
        """Register the postcondition, read apart from the response."""
        self.verify_function = function
        return function

    def resource_version(self, function: VersionFunction) -> VersionFunction:
        """Register the read of the version of what is changed."""
        self.version_function = function
        return function

    def capture(self, function: CaptureFunction) -> CaptureFunction:
        """Register the read of the state before the change."""
        self.capture_function = function
        return function

    def findings(self, level: Level) -> Iterable[str]:
        """What a start at ``level`` refuses, in words."""
        for finding in (*self._identity_findings(), *self._limit_findings(), *self._hook_findings(level)):
            yield f"effect {self.name!r} {finding}"

    def _identity_findings(self) -> Iterable[str]:
        names = set(self.parameters.parameters)
        if not self.owner:
            yield "has no owner: name who answers for it, owner=..."
        for name in sorted(names & RESERVED):
            yield f"takes an argument named {name!r}, which run.do keeps for itself: rename it"
        for name in sorted({*self.sensitive, *([self.amount] if self.amount else [])} - names):
            yield f"names the argument {name!r}, which it does not take"
        public = {*self.template.fields, *(self.locks.fields if self.locks else ())}
        for name in sorted(set(self.sensitive) & (public | {self.amount or ""})):
            yield f"declares {name!r} sensitive, but it is part of its target, lock or amount, which people must see"
        for name in sorted(set(self.evidence) - RECEIPT_FIELDS):
            yield f"requires the evidence {name!r}; a receipt has {', '.join(sorted(RECEIPT_FIELDS))}"

    def _limit_findings(self) -> Iterable[str]:
        if not 1 <= self.retry.attempts <= ATTEMPTS_MAX:
            yield f"has retry.attempts={self.retry.attempts}; it lies in 1 to {ATTEMPTS_MAX}"
        if not 1 <= self.lookups <= LOOKUPS_MAX:
            yield f"has lookups={self.lookups}; it lies in 1 to {LOOKUPS_MAX}"
        for name in ("first_delay_s", "delay_s_max"):
            value = getattr(self.retry, name)
            if not 0 < value <= PAUSE_S_MAX:
                yield f"has retry.{name}={value!r}; it lies above 0 and at most {PAUSE_S_MAX:g} seconds"
        for name in ("execution_timeout_s", "verify_within_s", "lookup_timeout_s"):
            value = getattr(self, name)
            if not 0 < value <= 86_400:
                yield f"has {name}={value!r}; it lies above 0 and at most a day (86400)"

    def _hook_findings(self, level: Level) -> Iterable[str]:
        keyed = self.destination is not None and self.contract.mechanism is Mechanism.IDEMPOTENCY_KEY
        if level.demands(Level.IDEMPOTENCY) and keyed and not self.contract.idempotency_header:
            yield "has a destination with idempotency keys and no idempotency_header to send them in"
        if self.lookup_function is None and level.demands(Level.RECOVERY) and not self.lookup_escalates:
            yield "has no lookup: register one (@effect.lookup), or say lookup='escalate' to leave unknowns to a person"
        if self.lookup_function is not None and self.contract.lookup is Lookup.NONE and self.destination is not None:
            yield "has a lookup, but its destination declares none: say lookup='strong' or 'eventual', with its lag"

    def seal(self) -> Terms:
        """The terms that decisions are made from."""
        derived = canonical_hash([self.name, self.template.text, self.recovery.value, str(self.parameters)])[:16]
        return Terms(
            action=self.name,
            recovery=self.recovery,
            version=derived if self.version is None else self.version,
            target_template=self.template.text,
            retry=self.retry,
            execution_timeout_ms=max(1, int(self.execution_timeout_s * 1000)),
            lookup_timeout_ms=max(1, int(self.lookup_timeout_s * 1000)),
            lookups=self.lookups,
            verify_within_ms=int(self.verify_within_s * 1000),
            has_lookup=self.lookup_function is not None,
            has_verify=self.verify_function is not None,
            has_version=self.version_function is not None,
            has_capture=self.capture_function is not None,
            replay_without_lookup=self.replay_without_lookup,
            evidence=self.evidence,
            amount=self.amount,
            accepts=self.accepts,
            lock_template=self.locks.text if self.locks else "",
            sensitive=self.sensitive,
            principals=self.principals,
            contract=self.contract,
            owner=self.owner,
            escalate_to=self.escalate_to or self.owner,
            exposure=self.exposure,
            retention_rule=self.retention,
            postcondition=self.postcondition,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One registered read: it changes nothing, and says on what permission it rests."""

    name: str
    function: Function
    destination: Destination | None
    basis: str
    timeout_s: float
    parameters: inspect.Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class RunType:
    """A declared type of run with its valid end state, as an authoritative query."""

    name: str
    end_state: Function | None = None
    within_s: float = END_STATE_WITHIN_S


class Sealed(NamedTuple):
    """An effect and its sealed terms."""

    effect: Effect
    terms: Terms


def read_of(name: str, function: Function, *, destination: Destination | None, basis: str, timeout_s: float) -> Read:
    """A read with its parameters checked."""
    return Read(
        name=name,
        function=function,
        destination=destination,
        basis=basis,
        timeout_s=timeout_s,
        parameters=_parameters(name, function),
    )


def _parameters(name: str, function: Function) -> inspect.Signature:
    signature = inspect.signature(function)
    rest = list(signature.parameters.values())[1:]
    if not signature.parameters or any(p.kind is not inspect.Parameter.KEYWORD_ONLY for p in rest):
        raise UsageError(f"{name!r}: its function takes (call, *, name=...); arguments by keyword only")
    return signature.replace(parameters=rest)


def seal_all(effects: Iterable[Effect], level: Level) -> dict[str, Sealed]:
    """All registrations, checked together; an effect is found under its earlier names as well.

    Raises:
        RegistrationError: lists every finding.
    """
    every = list(effects)
    findings = [finding for effect in every for finding in effect.findings(level)]
    sealed = {effect.name: Sealed(effect, effect.seal()) for effect in every}
    for effect in every:
        for name in {earlier.name for earlier in effect.previously} - {effect.name}:
            if name in sealed:
                findings.append(f"effect {effect.name!r} was previously {name!r}, which is registered as well")
            sealed.setdefault(name, sealed[effect.name])
    if findings:
        raise RegistrationError("the registrations do not hold together: " + "; ".join(findings), findings=findings)
    return sealed


def predecessors(name: str, previously: Sequence[str | tuple[str, str]], template: str) -> tuple[Predecessor, ...]:
    """``previously`` as names, or as ``(name, target template)`` pairs where the template changed too."""
    pairs = [(entry, template) if isinstance(entry, str) else entry for entry in previously]
    if (name, template) in pairs:
        raise UsageError(f"effect {name!r} names itself as its predecessor; name what it was called before")
    return tuple(Predecessor(earlier, TargetTemplate(text)) for earlier, text in pairs)


def changed_identities(sealed: Mapping[str, Sealed], recorded: Mapping[str, Any]) -> list[str]:
    """Effects whose target template differs from the one this ledger knows, unless they name it."""
    findings = []
    for name, (effect, _) in sealed.items():
        known = recorded.get(name)
        if name != effect.name or known is None or known["target"] == effect.template.text:
            continue
        if not any(old.name == name and old.template.text == known["target"] for old in effect.previously):
            findings.append(
                f"effect {name!r} had the target {known['target']!r} in this ledger and has {effect.template.text!r} "
                f"now: say previously=[({name!r}, {known['target']!r})], or live operations would be doubled"
            )
    return findings
