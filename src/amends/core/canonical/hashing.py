"""RFC 8785 over the typed encoding, and SHA-256 over that.

Where no key leaves ASCII and no small fraction occurs, ``json`` already writes what RFC 8785 asks for, several
times faster than the library; the walk notes whether that holds.
"""

import json
from hashlib import sha256
from typing import Final

import rfc8785

from amends.core.canonical.encoding import Walk
from amends.core.canonical.refusal import CANONICAL_BYTES_MAX, TOO_LONG, refusal


def canonical_bytes(value: object) -> bytes:
    """The canonical form of ``value``: RFC 8785 over its typed encoding, UTF-8.

    Pure, and safe to call from anywhere as long as nobody changes ``value`` meanwhile.

    Raises:
        CanonicalError: the value has no canonical form, is deeper than 64 or longer than 1 MiB.

    >>> canonical_bytes({"b": 1.0, "a": Money(8500, "USD")})
    b'{"a":{"$money":{"currency":"USD","minor":8500}},"b":1}'
    """
    walk = Walk()
    encoded = walk.encode(value, None, 0)
    data = _dump_plain(encoded).encode() if walk.plain else rfc8785.dumps(encoded)
    if len(data) > CANONICAL_BYTES_MAX:
        raise refusal(None, TOO_LONG, value)
    return data


def canonical_hash(value: object) -> str:
    """The hash of ``value``'s canonical form; equal for equal values and only for them."""
    return digest(canonical_bytes(value))


def digest(data: bytes) -> str:
    """SHA-256 in lower-case hexadecimal, 64 characters."""
    return sha256(data).hexdigest()


_dump_plain: Final = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode
