"""From canonical bytes back to fresh values: only the one canonical spelling of a value is taken."""

import json
from base64 import b64decode
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from amends.core.canonical.encoding import checked_text, encode, encode_float
from amends.core.canonical.refusal import (
    CANONICAL_BYTES_MAX,
    DEPTH_MAX,
    SAFE_INT_MAX,
    TOO_DEEP,
    TOO_LONG,
    Json,
    Path,
    refusal,
)
from amends.core.money import Money
from amends.core.secret import Secret


def decode(data: bytes) -> Any:
    """A fresh value from canonical bytes; tuples come back as lists, whole floats as ints.

    For bytes made by ``canonical_bytes`` it is the exact inverse: encoding again gives the same bytes.
    Other JSON is read as far as it has a meaning here; whether bytes *are* canonical it does not judge.

    Raises:
        CanonicalError: not JSON, too long, too deep, or a marker is malformed.
    """
    if len(data) > CANONICAL_BYTES_MAX:
        raise refusal(None, TOO_LONG, data)
    try:
        parsed = _parse(data.decode())
    except (ValueError, RecursionError):
        raise refusal(None, "these bytes are not JSON in UTF-8; pass what canonical_bytes made", data) from None
    return decode_value(parsed)


def decode_value(encoded: Json) -> Any:
    """The value that ``encode`` turned into ``encoded``; shares no container with it.

    Raises:
        CanonicalError: a marker is malformed, or the value could not have come from ``encode``.
    """
    return _restore(encoded, None, 0)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_parse: Final = json.JSONDecoder(parse_constant=_refuse_constant).decode


def _restore(encoded: Any, path: Path, depth: int) -> Any:
    kind = type(encoded)
    if kind is str:
        return checked_text(encoded, path)
    if kind is dict or kind is list:
        if depth >= DEPTH_MAX and not _is_tagged(encoded):
            raise refusal(path, TOO_DEEP, encoded)
        if kind is dict:
            return _restore_dict(encoded, path, depth)
        return [_restore(item, (path, index), depth + 1) for index, item in enumerate(encoded)]
    if kind is float:
        return encode_float(encoded, path)
    if kind is int and abs(encoded) > SAFE_INT_MAX:
        raise refusal(path, 'a plain number of 2^53 or more; its canonical form is {"$int": …}', encoded)
    if encoded is None or kind in (bool, int):
        return encoded
    raise refusal(path, "not plain JSON; pass what encode made", encoded)


def _restore_dict(encoded: dict[Any, Any], path: Path, depth: int) -> Any:
    if _is_tagged(encoded):
        return _untag(encoded, path)
    value: dict[str, Any] = {}
    for key, item in encoded.items():
        if type(key) is not str:
            raise refusal(path, "an object's keys must be plain str", key)
        checked_text(key, path)
        name = key
        if key[:1] == "$":
            if key[:2] != "$$":
                raise refusal(path, "a marker must be its object's only key", key)
            name = key[1:]
        value[name] = _restore(item, (path, name), depth + 1)
    return value


def _is_tagged(encoded: Any) -> bool:
    if type(encoded) is not dict or len(encoded) != 1:
        return False
    (key,) = encoded
    return type(key) is str and key[:1] == "$" and key[:2] != "$$"


def _untag(encoded: dict[str, Any], path: Path) -> Any:
    """The marked value; only its one canonical spelling is taken, so that each value has one encoding."""
    ((tag, body),) = encoded.items()
    decoder = _DECODERS.get(tag)
    if decoder is None:
        raise refusal(path, "an unknown marker; was this written by a newer release?", tag)
    try:
        if type(body) is not (dict if tag == "$money" else str):
            raise TypeError
        value = decoder(body)
        exact = encode(value) == encoded
    except (ValueError, TypeError, KeyError, ArithmeticError):
        exact = False
    if not exact:
        raise refusal(path, f"not the canonical form of a {tag}", body)
    return value


_DECODERS: Final[dict[str, Callable[[Any], Any]]] = {
    "$int": int,
    "$decimal": Decimal,
    "$money": lambda body: Money(body["minor"], body["currency"]),
    "$instant": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$duration_us": lambda body: timedelta(microseconds=int(body)),
    "$bytes": lambda body: b64decode(body, validate=True),
    "$uuid": UUID,
    "$secret": Secret,
}
