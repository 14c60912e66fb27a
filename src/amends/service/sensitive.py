"""Declared-sensitive arguments: sealed before they are recorded, opened where they are used (R15, G12).

Each value is encrypted (AES-256-GCM) with the operation's key and the argument's name as associated data,
so a sealed value fits one place only. Beside it stands a keyed commitment (HMAC-SHA-256): equal values
have equal commitments under one secret, so parameters can be compared and hashed without being known,
and nobody without the secret can guess a short value from it. Both are content and can be erased.

The secret is 32 bytes. Processes that share a ledger and sensitive arguments share it.
"""

import hmac
import os
from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from amends.core.canonical import canonical_bytes, decode, decode_value
from amends.errors import LedgerIntegrityError, UsageError
from amends.service.blotting import BLOT

SEALED: Final = "$amends.sealed"
"""The marker of a sealed argument; no encoded user value can carry it (its ``$`` would be doubled)."""

KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


class Vault:
    """Seals and opens sensitive arguments under one secret of 32 bytes."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise UsageError(f"the secret for sensitive arguments has {len(secret)} bytes; it needs {KEY_BYTES}")
        self._sealing = hmac.digest(secret, b"amends sealing key 1", "sha256")
        self._committing = hmac.digest(secret, b"amends commitment key 1", "sha256")

    def commitment(self, name: str, value: object) -> str:
        """What stands for ``value`` in comparisons and in the parameter hash."""
        data = name.encode() + b"\0" + canonical_bytes(value)
        return hmac.new(self._committing, data, sha256).hexdigest()

    def seal(self, key: str, name: str, value: object) -> dict[str, str]:
        """``value`` sealed for the argument ``name`` of the operation with ``key``."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 — heavy, rarely needed

        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + AESGCM(self._sealing).encrypt(nonce, canonical_bytes(value), _place(key, name))
        return {SEALED: b64encode(sealed).decode(), "commitment": self.commitment(name, value)}

    def open(self, key: str, name: str, sealed: Mapping[str, str]) -> Any:
        """The value that ``seal`` was given.

        Raises:
            LedgerIntegrityError: another secret sealed it, or it was changed or moved.
        """
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

        data = b64decode(sealed[SEALED], validate=True)
        try:
            plain = AESGCM(self._sealing).decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], _place(key, name))
        except InvalidTag:
            raise LedgerIntegrityError(
                f"the sensitive argument {name!r} cannot be opened: another secret sealed it, or it was changed; "
                "start with the secret that this ledger's sensitive arguments were sealed with"
            ) from None
        return decode(plain)


def _place(key: str, name: str) -> bytes:
    return f"amends argument 1\0{key}\0{name}".encode()


def is_sealed(value: object) -> bool:
    """Whether an argument's recorded value is a sealed one."""
    return isinstance(value, Mapping) and SEALED in value


def opened(arguments: Mapping[str, Any] | None, *, key: str, vault: Vault | None) -> dict[str, Any]:
    """Arguments as the effect takes them: a fresh copy, decoded or unsealed from what was recorded."""
    out: dict[str, Any] = {}
    for name, value in (arguments or {}).items():
        if not is_sealed(value):
            out[name] = decode_value(value)
        elif vault is None:
            raise UsageError(f"the argument {name!r} is sealed and this process has no secret for sensitive arguments")
        else:
            out[name] = vault.open(key, name, value)
    return out


def shown(arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """Arguments as a message may show them: sealed ones are named and masked, never left out."""
    return {name: BLOT if is_sealed(value) else decode_value(value) for name, value in (arguments or {}).items()}
