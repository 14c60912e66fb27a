"""Registering, the same for asynchronous and synchronous applications.

``Amends`` and ``amends.sync.Amends`` are two faces of one application: both write into one ``Registrations``,
which its start seals. Nothing here runs user code or touches the ledger.
"""

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypedDict, TypeVar, Unpack

from amends.core.contract import LOCAL, Contract, Lookup, Mechanism
from amends.core.evidence import Verification
from amends.core.identity import IdentityError, TargetTemplate
from amends.core.terms import VERIFY_WITHIN_S, Exposure, Recovery, Retry
from amends.destinations.http import HttpDestination
from amends.errors import UsageError
from amends.ports.destination import Destination
from amends.service.call import Call, SyncCall
from amends.service.closing import EndedRun
from amends.service.registry import (
    Effect,
    EffectFunction,
    Read,
    ReadFunction,
    RunType,
    predecessors,
    read_of,
)

EndStateFunction = Callable[[Call, EndedRun], Awaitable[Verification]] | Callable[[SyncCall, EndedRun], Verification]


@dataclass(slots=True, kw_only=True)
class Registrations:
    """What one application has registered so far."""

    effects: dict[str, Effect] = field(default_factory=dict)
    run_types: dict[str, RunType] = field(default_factory=dict)
    destinations: list[Destination] = field(default_factory=list)
    sealed: bool = False

    def keep(self, destination: Destination | Contract | None) -> None:
        """Remember a destination, whoever made it, so that it is closed with the application."""
        if destination is None or isinstance(destination, Contract):
            return
        if not any(known is destination for known in self.destinations):
            self.destinations.append(destination)


class Promises(TypedDict, total=False):
    """The fields of ``Contract``, its name excepted, as ``app.destination`` takes them."""

    endpoint: str
    mechanism: Mechanism | str
    idempotency_header: str
    key_retention_s: float | None
    replays_success: bool
    replays_errors: bool
    refuses_changed_parameters: bool
    lookup: Lookup | str
    lookup_lag_s: float | None
    late_arrival_bound_s: float | None
    creator: str | None
    key_chars_max: int
    key_conflict: tuple[tuple[int, str], ...]
    key_in_progress: tuple[tuple[int, str], ...]
    already_exists: tuple[tuple[int, str], ...]
    precondition_failed: tuple[tuple[int, str], ...]
    refused_for_now: tuple[tuple[int, str], ...]
    refused: tuple[tuple[int, str], ...]
    error_code_at: tuple[str, ...]
    source: str
    note: str


PROMISES: Final = frozenset(Promises.__annotations__)


class Registering:
    """The half of an application that registers: destinations, effects, reads and types of run."""

    def __init__(self, registrations: Registrations) -> None:
        self.registrations: Registrations = registrations

    def destination(
        self,
        name: str,
        *,
        base_url: str,
        headers: Mapping[str, str] | None = None,
        contract: Contract | None = None,
        **promises: Unpack[Promises],
    ) -> HttpDestination:
        """An HTTP destination and what it promises.

        Args:
            name: what people call it.
            base_url: where it is.
            headers: sent with every request, e.g. authorization.
            contract: a contract that ships with Amends (``amends.destinations.contracts``) or your own.
            promises: fields of ``Contract``, over those of ``contract``; ``lookup`` and ``mechanism`` as
                words. With ``idempotency_header`` the mechanism is ``idempotency_key``.
        """
        promised = _promised(name, contract, promises)
        try:
            destination = HttpDestination(base_url, promised, headers=headers, name=name)
        except ValueError as error:
            raise UsageError(f"destination {name!r}: {error}") from error
        self.registrations.keep(destination)
        return destination

    def effect(
        self,
        name: str,
        *,
        recovery: str,
        target: str,
        owner: str,
        destination: Destination | Contract = LOCAL,
        escalate_to: str = "",
        retry: Retry | None = None,
        execution_timeout_s: float = 20.0,
        lookup_timeout_s: float = 10.0,
        lookups: int = 12,
        verify_within_s: float = VERIFY_WITHIN_S,
        lookup: str | None = None,
        compensate: str | None = None,
        replay_without_lookup: bool = False,
        amount: str | None = None,
        accepts: Sequence[str] = (),
        evidence: Sequence[str] = ("resource",),
        exposure: str = Exposure.MODERATE.value,
        retention: str = "",
        postcondition: str = "",
        sensitive: Sequence[str] = (),
        locks: str | None = None,
        principals: Sequence[str] | None = None,
        previously: Sequence[str | tuple[str, str]] = (),
        version: str | None = None,
        max_in_flight: int = 64,
    ) -> Callable[[EffectFunction], Effect]:
        """Register an effect; the decorated function takes ``(call, *, name=...)`` and returns a ``Receipt``.

        Args:
            name: the action type; part of the identity.
            recovery: ``reversible``, ``compensatable``, ``irreversible`` or ``unknown``; required.
            target: what is changed, as a template over the arguments: ``order:{order_id}``.
            owner: who answers for it.
            escalate_to: who is asked when nobody else can tell; default: the owner.
            destination: where it is sent, or only the contract of that place.
            retry: attempts and pauses under the same key.
            execution_timeout_s: limit of one attempt, queueing included.
            lookup_timeout_s: limit of one lookup, verifying read, version read or capture.
            lookups: passes of reconciliation before a person is asked.
            verify_within_s: how long the postcondition may take to hold.
            lookup: ``"escalate"`` where there is none, on purpose.
            compensate: ``"escalate"`` where there is none, on purpose.
            replay_without_lookup: allows G3 (b), where the contract makes that safe.
            amount: the argument that says how much; it is compared with the receipt's.
            accepts: the destination's states that count as done; empty takes any.
            evidence: fields that a receipt must carry to verify by itself.
            exposure: what a failure exposes: ``low``, ``moderate`` or ``high``.
            retention: the retention rule in words, for people.
            postcondition: the expected state in words, for people.
            sensitive: arguments that are recorded sealed and shown masked.
            locks: a scarce resource, as a template: one unsettled operation holds it at a time.
            principals: who may do this; ``None`` admits everybody.
            previously: earlier names, or ``(name, target)`` pairs, under which operations may be alive.
            version: your own version of the code; default: derived from the registration.
            max_in_flight: calls at once in this process.
        """
        if self.registrations.sealed:
            raise UsageError(f"effect {name!r} comes after the start; register every effect before it")
        if name in self.registrations.effects:
            raise UsageError(f"effect {name!r} is registered twice")
        for what, word in (("lookup", lookup), ("compensate", compensate)):
            if word not in (None, "escalate"):
                raise UsageError(f"effect {name!r} has {what}={word!r}; the only word there is 'escalate'")
        if max_in_flight < 1:
            raise UsageError(f"effect {name!r} has max_in_flight={max_in_flight}; at least 1 call must fit")

        self.registrations.keep(destination)

        def register(function: EffectFunction) -> Effect:
            contract = destination if isinstance(destination, Contract) else destination.contract
            effect = Effect(
                name=name,
                function=function,
                recovery=one_of(f"effect {name!r}: recovery", Recovery, recovery),
                template=_template(f"effect {name!r}: target", target),
                contract=contract,
                destination=None if isinstance(destination, Contract) else destination,
                owner=owner,
                escalate_to=escalate_to,
                retry=retry or Retry(),
                execution_timeout_s=execution_timeout_s,
                lookup_timeout_s=lookup_timeout_s,
                lookups=lookups,
                verify_within_s=verify_within_s,
                lookup_escalates=lookup == "escalate",
                compensation_escalates=compensate == "escalate",
                replay_without_lookup=replay_without_lookup,
                amount=amount,
                accepts=tuple(accepts),
                evidence=tuple(evidence),
                exposure=one_of(f"effect {name!r}: exposure", Exposure, exposure),
                retention=retention,
                postcondition=postcondition,
                sensitive=tuple(sensitive),
                locks=None if locks is None else _template(f"effect {name!r}: locks", locks),
                principals=None if principals is None else tuple(principals),
                previously=predecessors(name, previously, target),
                version=version,
                slots=asyncio.Semaphore(max_in_flight),
            )
            self.registrations.effects[name] = effect
            return effect

        return register

    def read(
        self, name: str, *, basis: str, destination: Destination | None = None, timeout_s: float = 10.0
    ) -> Callable[[ReadFunction], Read]:
        """Declare a read. ``basis`` says on what permission it rests. It returns a value, or ``(value, version)``."""
        self.registrations.keep(destination)

        def register(function: ReadFunction) -> Read:
            return read_of(name, function, destination=destination, basis=basis, timeout_s=timeout_s)

        return register

    def operation_type(
        self, name: str, *, end_state: EndStateFunction | None = None, within_s: float = 120.0
    ) -> RunType:
        """Declare a type of run with its valid end state: ``end_state(call, run)`` is asked when a run returns."""
        if name in self.registrations.run_types:
            raise UsageError(f"operation type {name!r} is declared twice")
        self.registrations.run_types[name] = RunType(name=name, end_state=end_state, within_s=within_s)
        return self.registrations.run_types[name]


def _promised(name: str, contract: Contract | None, promises: Promises) -> Contract:
    """``contract`` with ``promises`` over it; or the contract that they are by themselves."""
    fields: dict[str, Any] = dict(promises)
    for unknown in sorted(set(fields) - PROMISES):
        near = difflib.get_close_matches(unknown, PROMISES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(sorted(PROMISES))}"
        raise UsageError(f"destination {name!r}: {unknown!r} is nothing that a destination promises; {hint}")
    if "idempotency_header" in fields:
        fields.setdefault("mechanism", Mechanism.IDEMPOTENCY_KEY)
        fields.setdefault("replays_success", True)
    for promise, kind in (("mechanism", Mechanism), ("lookup", Lookup)):
        if promise in fields:
            fields[promise] = one_of(f"destination {name!r}: {promise}", kind, fields[promise])
    try:
        return contract.with_(**fields) if contract else Contract(name=name, **fields)
    except (TypeError, ValueError) as error:
        raise UsageError(f"destination {name!r}: {error}") from error


W = TypeVar("W", bound=StrEnum)


def one_of(what: str, kind: type[W], said: str) -> W:
    """The member of ``kind`` that ``said`` names.

    Raises:
        UsageError: there is none; it lists those there are.
    """
    try:
        return kind(said)
    except ValueError:
        raise UsageError(f"{what}={said!r} is none of {', '.join(kind)}") from None


def _template(what: str, text: str) -> TargetTemplate:
    try:
        return TargetTemplate(text)
    except IdentityError as error:
        raise UsageError(f"{what}: {error}") from None
