"""From the arguments of a wish to a proposal: canonical form, target, key, sealed values."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from amends.core.canonical import CanonicalError, canonical_hash, encode
from amends.core.identity import IdentityError, TargetTemplate, idempotency_key, operation_id
from amends.core.model import Operation
from amends.core.money import Money
from amends.core.proposal import Proposal
from amends.errors import ArgumentsRefused, UsageError
from amends.service.registry import Effect, Sealed
from amends.service.sensitive import Vault


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a program asks for, with its arguments bound and checked."""

    effect: Effect
    sealed: Sealed
    tenant: str
    intent: str
    occurrence: str
    arguments: Mapping[str, Any]
    params_hash: str
    encoded: Mapping[str, Any]
    vault: Vault | None

    @property
    def amount(self) -> Money | None:
        """The amount that the registration names, if it is money."""
        value = self.arguments.get(self.effect.amount or "")
        return value if isinstance(value, Money) else None

    def proposal(self, after: Operation | None = None) -> Proposal:
        """The proposal; after an operation of which nothing came, its linked revision."""
        effect = self.effect
        target, revision = self._target(effect.template), after.revision + 1 if after else 0
        key = self._key(effect.name, target, revision)
        return Proposal(
            operation=operation_id(key),
            key=key,
            terms=self.sealed.terms,
            identity=effect.template.text,
            target=target,
            params_hash=self.params_hash,
            arguments=self._recorded(key),
            occurrence=self.occurrence,
            revision=revision,
            previous=after.id if after else "",
            lock=self._target(effect.locks) if effect.locks else "",
        )

    def earlier_operations(self, revision: int) -> Iterator[str]:
        """The ids this wish would have as ``revision`` under the effect's earlier names and templates."""
        for name, template in self.effect.previously:
            if not template.check(self.arguments):
                yield operation_id(self._key(name, self._target(template), revision))

    def shown(self) -> dict[str, Any]:
        """The arguments as a message may show them."""
        sensitive = self.effect.sensitive
        return {name: "[sensitive]" if name in sensitive else value for name, value in self.arguments.items()}

    def _key(self, action: str, target: str, revision: int) -> str:
        try:
            return idempotency_key(
                tenant=self.tenant,
                action=action,
                target=target,
                lineage=self.intent,
                occurrence=self.occurrence,
                revision=revision,
            )
        except IdentityError as error:
            told = f"again={self.occurrence!r}: {error.reason}" if error.what == "occurrence" else str(error)
            raise UsageError(f"effect {self.effect.name!r}: {told}") from error

    def _target(self, template: TargetTemplate) -> str:
        try:
            return template.render(self.arguments)
        except IdentityError as error:
            raise ArgumentsRefused(f"effect {self.effect.name!r}: {error}") from error

    def _recorded(self, key: str) -> dict[str, Any]:
        """The encoded arguments, the sensitive ones sealed."""
        out = dict(self.encoded)
        for name in self.effect.sensitive:
            if self.vault is not None and name in out:
                out[name] = self.vault.seal(key, name, self.arguments[name])
        return out


def wish(
    sealed: Sealed, arguments: Mapping[str, Any], *, tenant: str, intent: str, occurrence: str, vault: Vault | None
) -> Wish:
    """Bind, complete and check ``arguments``.

    Raises:
        ArgumentsRefused: they do not fit the effect, or one has no canonical form.
    """
    effect = sealed.effect
    try:
        bound = effect.parameters.bind(**arguments)
    except TypeError as error:
        raise ArgumentsRefused(f"effect {effect.name!r}: {error}") from error
    bound.apply_defaults()
    values = dict(bound.arguments)
    if effect.sensitive and vault is None:
        raise UsageError(f"effect {effect.name!r} takes sensitive arguments and no secret for them is there")
    hashed: dict[str, Any] = dict(values)
    encoded: dict[str, Any] = {}
    for name, value in values.items():
        if name in effect.sensitive and vault is not None:
            hashed[name] = _committed(effect, vault, name, value)
            encoded[name] = None
        else:
            encoded[name] = _encoded(effect, name, value)
    return Wish(
        effect=effect,
        sealed=sealed,
        tenant=tenant,
        intent=intent,
        occurrence=occurrence,
        arguments=values,
        params_hash=canonical_hash(hashed),
        encoded=encoded,
        vault=vault,
    )


def _encoded(effect: Effect, name: str, value: Any) -> Any:
    try:
        return encode(value)
    except CanonicalError as error:
        raise ArgumentsRefused(f"effect {effect.name!r}, argument {name!r}: {error}") from error


def _committed(effect: Effect, vault: Vault, name: str, value: Any) -> str:
    try:
        return vault.commitment(name, value)
    except CanonicalError as error:
        raise ArgumentsRefused(
            f"effect {effect.name!r}, sensitive argument {name!r}: it has no canonical form ({error.reason}); "
            "its value is not shown"
        ) from None
