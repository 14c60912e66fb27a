"""One action, one text: the canonical form of parameters, and its hash.

An approval is for a hash, so equal actions must hash equal in every process and language, and unequal
ones never. RFC 8785 settles the text of JSON: key order by UTF-16, numbers as ECMAScript prints them.
It does not settle what JSON cannot carry, so a typed encoding goes before it:

    None, bool, str          as they are; strings are not normalised, lone surrogates are refused
    int                      a number below 2^53, else {"$int": "9007199254740992"}
    float                    a number below 2^53; 1.0 is 1, -0.0 is 0 (a hop through JavaScript, case C11)
    Decimal                  {"$decimal": "85.1"}; 1.0 and 1.00 are one decimal
    Money                    {"$money": {"currency": "USD", "minor": 8500}}
    datetime with a zone     {"$instant": "2026-01-31T09:30:00.5Z"}
    date, timedelta          {"$date": "2026-01-31"}, {"$duration_us": "1500000"}
    bytes, UUID              {"$bytes": "aGVsbG8="}, {"$uuid": "…"}
    Secret                   {"$secret": "env:CRM_TOKEN"}: the reference, never the value
    list, tuple              an array; which of the two it was is not kept
    dict with str keys       an object; a key that begins with "$" gets one more "$"

What equal means: int and float are one kind, *number*; every other type is a kind of its own. ``True``
is not ``1``, and ``Decimal("1")`` is not ``1``: the caller chose an exact type and gets it back. Of an
instant its zone is not kept: two zones that name one moment are one action, and zone rules change after
the fact. An action that depends on the zone itself ("nine o'clock in Oslo") passes its name as a string.
A local time that a clock change skips or repeats is the moment that Python's ``fold`` makes of it.

Anything else is refused, with the place and what to do; so are subclasses, whose behaviour would not
survive the copy. ``decode`` makes that copy: what runs is made from the bytes that were hashed.
"""

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from hashlib import sha256
from typing import Any, Final, TypeAlias
from uuid import UUID

import rfc8785

from amends.core.money import Money
from amends.core.secret import Secret

CANONICAL_BYTES_MAX: Final = 1024 * 1024
"""Bytes of one canonical form: a person approves it and a ledger row keeps it; files go by reference."""

DEPTH_MAX: Final = 64
"""Containers inside each other: deeper than any tool's schema, and far from every language's stack limit."""

INT_BITS_MAX: Final = 4_096
"""Bits of an integer: the largest RSA moduli in use; beyond it decimal text is slow and often limited."""

DECIMAL_DIGITS_MAX: Final = 1_000
"""Digits on either side of a decimal's point: ``Decimal("1e1000000")`` is short to write, huge to print."""

VALUE_CHARS_MAX: Final = 80
"""Characters of a refused value that an error shows: enough to recognise it, too few to leak a document."""

_SAFE_INT_MAX: Final = 2**53 - 1
_PLAIN_FLOAT_MIN: Final = 1e-4  # Python and ECMAScript print a fraction alike from here up

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""What ``json`` reads and writes."""

_Path: TypeAlias = "tuple[_Path, str | int] | None"


class CanonicalError(ValueError):
    """A value has no canonical form, or bytes are not one.

    Attributes:
        path: where in the value, e.g. ``$.items[2].amount``.
        reason: what is wrong and what to do.
        value_repr: what was found there, at most 80 characters; a container or a foreign object only by type.
    """

    def __init__(self, path: str, reason: str, value_repr: str) -> None:
        super().__init__(path, reason, value_repr)
        self.path = path
        self.reason = reason
        self.value_repr = value_repr

    def __str__(self) -> str:
        return f"{self.path}: {self.reason} (got {self.value_repr})"


def canonical_bytes(value: object) -> bytes:
    """The canonical form of ``value``: RFC 8785 over its typed encoding, UTF-8.

    Pure, and safe to call from anywhere as long as nobody changes ``value`` meanwhile.

    Raises:
        CanonicalError: the value has no canonical form, is deeper than 64 or longer than 1 MiB.

    >>> canonical_bytes({"b": 1.0, "a": Money(8500, "USD")})
    b'{"a":{"$money":{"currency":"USD","minor":8500}},"b":1}'
    """
    walk = _Walk()
    encoded = walk.encode(value, None, 0)
    data = _dump_plain(encoded).encode() if walk.plain else rfc8785.dumps(encoded)
    if len(data) > CANONICAL_BYTES_MAX:
        raise _refusal(None, _TOO_LONG, value)
    return data


def canonical_hash(value: object) -> str:
    """The hash of ``value``'s canonical form; equal for equal values and only for them."""
    return digest(canonical_bytes(value))


def digest(data: bytes) -> str:
    """SHA-256 in lower-case hexadecimal, 64 characters."""
    return sha256(data).hexdigest()


def encode(value: object) -> Json:
    """The typed encoding of ``value``: plain JSON, sharing no container with it.

    Raises:
        CanonicalError: as for ``canonical_bytes``; the length is bounded from below only.
    """
    return _Walk().encode(value, None, 0)


def decode(data: bytes) -> Any:
    """A fresh value from canonical bytes; tuples come back as lists, whole floats as ints.

    For bytes made by ``canonical_bytes`` it is the exact inverse: encoding again gives the same bytes.
    Other JSON is read as far as it has a meaning here; whether bytes *are* canonical it does not judge.

    Raises:
        CanonicalError: not JSON, too long, too deep, or a marker is malformed.
    """
    if len(data) > CANONICAL_BYTES_MAX:
        raise _refusal(None, _TOO_LONG, data)
    try:
        parsed = _parse(data.decode())
    except (ValueError, RecursionError):
        raise _refusal(None, "these bytes are not JSON in UTF-8; pass what canonical_bytes made", data) from None
    return decode_value(parsed)


def decode_value(encoded: Json) -> Any:
    """The value that ``encode`` turned into ``encoded``; shares no container with it.

    Raises:
        CanonicalError: a marker is malformed, or the value could not have come from ``encode``.
    """
    return _restore(encoded, None, 0)


class _Walk:
    """One pass over a value: encodes, counts, and notes whether ``json`` alone writes RFC 8785 for it.

    ``bytes_left`` falls by the least that each part can take, so that a value that repeats one list
    2^60 times is refused early, and none is refused that would have fitted.
    """

    __slots__ = ("bytes_left", "plain")

    def __init__(self) -> None:
        self.bytes_left = CANONICAL_BYTES_MAX
        self.plain = True

    def encode(self, value: Any, path: _Path, depth: int) -> Json:
        kind = type(value)
        encoded: Json
        if kind is str:
            self.bytes_left -= len(value) + 2
            encoded = _checked_text(value, path)
        elif kind is dict:
            return self._encode_dict(value, path, depth)
        elif kind is list or kind is tuple:
            return self._encode_list(value, path, depth)
        else:
            self.bytes_left -= 1
            encoder = _ENCODERS.get(kind)
            if encoder is None:
                raise _refusal(path, _why_unsupported(kind), value)
            encoded = encoder(value, path)
            if kind is float and 0 < abs(value) < _PLAIN_FLOAT_MIN:
                self.plain = False
            elif type(encoded) is dict:
                self.bytes_left -= _marker_bytes_min(encoded)
        if self.bytes_left < 0:
            raise _refusal(path, _TOO_LONG, value)
        return encoded

    def _encode_dict(self, value: dict[object, object], path: _Path, depth: int) -> Json:
        self._enter(value, path, depth)
        encoded: dict[str, Json] = {}
        for key, item in value.items():
            if type(key) is not str:
                raise _refusal(path, "an object's keys must be plain str; convert the key yourself", key)
            self.bytes_left -= len(key) + 3
            if not key.isascii():
                self.plain = False
                _checked_text(key, path)
            encoded["$" + key if key[:1] == "$" else key] = self.encode(item, (path, key), depth + 1)
        return encoded

    def _encode_list(self, value: list[object] | tuple[object, ...], path: _Path, depth: int) -> Json:
        self._enter(value, path, depth)
        return [self.encode(item, (path, index), depth + 1) for index, item in enumerate(value)]

    def _enter(self, value: object, path: _Path, depth: int) -> None:
        if depth >= DEPTH_MAX:
            raise _refusal(path, _TOO_DEEP, value)
        self.bytes_left -= 2
        if self.bytes_left < 0:
            raise _refusal(path, _TOO_LONG, value)


def _marker_bytes_min(marker: Any) -> int:
    return sum(map(len, marker.values()))


_TOO_LONG: Final = f"longer than {CANONICAL_BYTES_MAX} bytes; pass a reference to it, not the content"
_TOO_DEEP: Final = f"more than {DEPTH_MAX} containers inside each other, or a value that contains itself"

_dump_plain: Final = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_parse: Final = json.JSONDecoder(parse_constant=_refuse_constant).decode


# --- from values to JSON -----------------------------------------------------------------------------


def _checked_text(text: str, path: _Path) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            reason = f"text with a lone surrogate at character {error.start} is not Unicode; repair it first"
            raise _refusal(path, reason, text[error.start : error.start + 8]) from None
    return text


def _same(value: bool | None, path: _Path) -> Json:
    return value


def _encode_int(value: int, path: _Path) -> Json:
    if -_SAFE_INT_MAX <= value <= _SAFE_INT_MAX:
        return value
    if value.bit_length() > INT_BITS_MAX:
        raise _refusal(path, f"an integer of more than {INT_BITS_MAX} bits; pass it as bytes", value)
    return {"$int": str(value)}


def _encode_float(value: float, path: _Path) -> int | float:
    if not math.isfinite(value):
        raise _refusal(path, "NaN and infinity are not numbers in JSON; pass None or a word", value)
    if abs(value) > _SAFE_INT_MAX:
        raise _refusal(path, "a float of 2^53 or more stands for many integers; pass an int or a Decimal", value)
    return int(value) if value.is_integer() else value


def _encode_decimal(value: Decimal, path: _Path) -> Json:
    if not value.is_finite():
        raise _refusal(path, "NaN and infinity are not amounts; pass None or a word", value)
    return {"$decimal": _plain_decimal(value, path) if value else "0"}


def _plain_decimal(value: Decimal, path: _Path) -> str:
    """Digits without exponent and without trailing zeros; never through a context, which may round."""
    sign, all_digits, exponent = value.as_tuple()
    digits = "".join(map(str, all_digits))
    significant = digits.rstrip("0")
    power = int(exponent) + len(digits) - len(significant)
    if -power > DECIMAL_DIGITS_MAX or len(significant) + power > DECIMAL_DIGITS_MAX:
        reason = f"a decimal of more than {DECIMAL_DIGITS_MAX} digits before or after its point"
        raise _refusal(path, reason, value)
    minus = "-" if sign else ""
    if power >= 0:
        return minus + significant + "0" * power
    padded = significant.rjust(1 - power, "0")
    return f"{minus}{padded[:power]}.{padded[power:]}"


def _encode_money(value: Money, path: _Path) -> Json:
    return {"$money": {"currency": value.currency, "minor": value.minor}}


def _encode_instant(value: datetime, path: _Path) -> Json:
    if value.utcoffset() is None:
        reason = "a datetime without a zone names no moment; add one, e.g. .replace(tzinfo=UTC)"
        raise _refusal(path, reason, value)
    try:
        text = value.astimezone(UTC).replace(tzinfo=None).isoformat()
    except OverflowError:
        raise _refusal(path, "an instant outside the years 1 to 9999 of UTC", value) from None
    return {"$instant": f"{text.rstrip('0') if '.' in text else text}Z"}


def _encode_date(value: date, path: _Path) -> Json:
    return {"$date": value.isoformat()}


def _encode_duration(value: timedelta, path: _Path) -> Json:
    return {"$duration_us": str((value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds)}


def _encode_bytes(value: bytes, path: _Path) -> Json:
    if len(value) > CANONICAL_BYTES_MAX:
        raise _refusal(path, _TOO_LONG, value)
    return {"$bytes": b64encode(value).decode()}


def _encode_uuid(value: UUID, path: _Path) -> Json:
    return {"$uuid": str(value)}


def _encode_secret(value: Secret, path: _Path) -> Json:
    return {"$secret": value.reference}


_ENCODERS: Final[dict[type, Callable[[Any, _Path], Json]]] = {
    type(None): _same,
    bool: _same,
    int: _encode_int,
    float: _encode_float,
    Decimal: _encode_decimal,
    Money: _encode_money,
    datetime: _encode_instant,
    date: _encode_date,
    timedelta: _encode_duration,
    bytes: _encode_bytes,
    UUID: _encode_uuid,
    Secret: _encode_secret,
}


# --- from JSON to values -----------------------------------------------------------------------------


def _restore(encoded: Any, path: _Path, depth: int) -> Any:
    kind = type(encoded)
    if kind is str:
        return _checked_text(encoded, path)
    if kind is dict or kind is list:
        if depth >= DEPTH_MAX and not _is_tagged(encoded):
            raise _refusal(path, _TOO_DEEP, encoded)
        if kind is dict:
            return _restore_dict(encoded, path, depth)
        return [_restore(item, (path, index), depth + 1) for index, item in enumerate(encoded)]
    if kind is float:
        return _encode_float(encoded, path)
    if kind is int and abs(encoded) > _SAFE_INT_MAX:
        raise _refusal(path, 'a plain number of 2^53 or more; its canonical form is {"$int": …}', encoded)
    if encoded is None or kind in (bool, int):
        return encoded
    raise _refusal(path, "not plain JSON; pass what encode made", encoded)


def _restore_dict(encoded: dict[Any, Any], path: _Path, depth: int) -> Any:
    if _is_tagged(encoded):
        return _untag(encoded, path)
    value: dict[str, Any] = {}
    for key, item in encoded.items():
        if type(key) is not str:
            raise _refusal(path, "an object's keys must be plain str", key)
        _checked_text(key, path)
        name = key
        if key[:1] == "$":
            if key[:2] != "$$":
                raise _refusal(path, "a marker must be its object's only key", key)
            name = key[1:]
        value[name] = _restore(item, (path, name), depth + 1)
    return value


def _is_tagged(encoded: Any) -> bool:
    if type(encoded) is not dict or len(encoded) != 1:
        return False
    (key,) = encoded
    return type(key) is str and key[:1] == "$" and key[:2] != "$$"


def _untag(encoded: dict[str, Any], path: _Path) -> Any:
    """The marked value; only its one canonical spelling is taken, so that each value has one encoding."""
    ((tag, body),) = encoded.items()
    decoder = _DECODERS.get(tag)
    if decoder is None:
        raise _refusal(path, "an unknown marker; was this written by a newer release?", tag)
    try:
        if type(body) is not (dict if tag == "$money" else str):
            raise TypeError
        value = decoder(body)
        exact = encode(value) == encoded
    except (ValueError, TypeError, KeyError, ArithmeticError):
        exact = False
    if not exact:
        raise _refusal(path, f"not the canonical form of a {tag}", body)
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


# --- refusals ----------------------------------------------------------------------------------------


def _refusal(path: _Path, reason: str, value: object) -> CanonicalError:
    return CanonicalError(_path_text(path), reason, _short_repr(value))


def _path_text(path: _Path) -> str:
    steps: list[str] = []
    while path is not None:
        path, step = path
        if isinstance(step, str) and step.isascii() and step.isidentifier() and len(step) <= VALUE_CHARS_MAX:
            steps.append(f".{step}")
        else:
            steps.append(f"[{_short_repr(step)}]")
    return "$" + "".join(reversed(steps))


def _short_repr(value: Any) -> str:
    """At most 80 characters; never runs the value's own code, which may be anything."""
    kind = type(value)
    if kind is str or kind is bytes:
        text = repr(value[:VALUE_CHARS_MAX])
    elif kind is int and value.bit_length() > INT_BITS_MAX:
        text = f"<int of {value.bit_length()} bits>"
    elif kind is datetime:
        text = value.replace(tzinfo=None).isoformat()
    elif value is None or kind in (bool, int, float, Decimal):
        text = repr(value)
    else:
        text = f"<{_name(kind)}>"
    return text if len(text) <= VALUE_CHARS_MAX else text[: VALUE_CHARS_MAX - 1] + "…"


def _name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


_HINTS: Final[tuple[tuple[tuple[type, ...], str], ...]] = (
    ((Enum,), "an Enum member; pass its .value"),
    ((time,), "a time of day names no moment; pass a datetime with a zone, or a string"),
    ((set, frozenset), "a set has no order; pass a sorted list"),
    ((bytearray, memoryview), "bytes that can change; pass bytes(…)"),
)


_KINDS: Final = "None, bool, int, float, str, bytes, list, tuple, dict, Decimal, Money, datetime, date, timedelta, UUID"


def _why_unsupported(kind: type) -> str:
    for bases, hint in _HINTS:
        if issubclass(kind, bases):
            return hint
    name = _name(kind)[:VALUE_CHARS_MAX]
    for base in (str, dict, list, tuple, *_ENCODERS):
        if issubclass(kind, base):
            return f"{name} is a subclass of {base.__name__}; pass a plain {base.__name__}"
    return f"{name} has no canonical form; pass one of {_KINDS}"
