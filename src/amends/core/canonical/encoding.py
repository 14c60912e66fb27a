"""From values to plain JSON: the typed encoding, one function for each type and one walk over containers."""

import math
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

from amends.core.canonical.refusal import (
    CANONICAL_BYTES_MAX,
    DECIMAL_DIGITS_MAX,
    DEPTH_MAX,
    INT_BITS_MAX,
    SAFE_INT_MAX,
    TOO_DEEP,
    TOO_LONG,
    VALUE_CHARS_MAX,
    Json,
    Path,
    refusal,
    type_name,
)
from amends.core.money import Money
from amends.core.secret import Secret

_PLAIN_FLOAT_MIN: Final = 1e-4  # Python and ECMAScript print a fraction alike from here up


def encode(value: object) -> Json:
    """The typed encoding of ``value``: plain JSON, sharing no container with it.

    Raises:
        CanonicalError: as for ``canonical_bytes``; the length is bounded from below only.
    """
    return Walk().encode(value, None, 0)


class Walk:
    """One pass over a value: encodes, counts, and notes whether ``json`` alone writes RFC 8785 for it.

    ``bytes_left`` falls by the least that each part can take, so that a value that repeats one list
    2^60 times is refused early, and none is refused that would have fitted.
    """

    __slots__ = ("bytes_left", "plain")

    def __init__(self) -> None:
        self.bytes_left: int = CANONICAL_BYTES_MAX
        self.plain: bool = True

    def encode(self, value: Any, path: Path, depth: int) -> Json:
        kind = type(value)
        encoded: Json
        if kind is str:
            self.bytes_left -= len(value) + 2
            encoded = checked_text(value, path)
        elif kind is dict:
            return self._encode_dict(value, path, depth)
        elif kind is list or kind is tuple:
            return self._encode_list(value, path, depth)
        else:
            self.bytes_left -= 1
            encoder = _ENCODERS.get(kind)
            if encoder is None:
                raise refusal(path, _why_unsupported(kind), value)
            encoded = encoder(value, path)
            if kind is float and 0 < abs(value) < _PLAIN_FLOAT_MIN:
                self.plain = False
            elif type(encoded) is dict:
                self.bytes_left -= _marker_bytes_min(encoded)
        if self.bytes_left < 0:
            raise refusal(path, TOO_LONG, value)
        return encoded

    def _encode_dict(self, value: dict[object, object], path: Path, depth: int) -> Json:
        self._enter(value, path, depth)
        encoded: dict[str, Json] = {}
        for key, item in value.items():
            if type(key) is not str:
                raise refusal(path, "an object's keys must be plain str; convert the key yourself", key)
            self.bytes_left -= len(key) + 3
            if not key.isascii():
                self.plain = False
                checked_text(key, path)
            encoded["$" + key if key[:1] == "$" else key] = self.encode(item, (path, key), depth + 1)
        return encoded

    def _encode_list(self, value: list[object] | tuple[object, ...], path: Path, depth: int) -> Json:
        self._enter(value, path, depth)
        return [self.encode(item, (path, index), depth + 1) for index, item in enumerate(value)]

    def _enter(self, value: object, path: Path, depth: int) -> None:
        if depth >= DEPTH_MAX:
            raise refusal(path, TOO_DEEP, value)
        self.bytes_left -= 2
        if self.bytes_left < 0:
            raise refusal(path, TOO_LONG, value)


def _marker_bytes_min(marker: Any) -> int:
    return sum(map(len, marker.values()))


def checked_text(text: str, path: Path) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            reason = f"text with a lone surrogate at character {error.start} is not Unicode; repair it first"
            raise refusal(path, reason, text[error.start : error.start + 8]) from None
    return text


def _same(value: bool | None, path: Path) -> Json:
    return value


def _encode_int(value: int, path: Path) -> Json:
    if -SAFE_INT_MAX <= value <= SAFE_INT_MAX:
        return value
    if value.bit_length() > INT_BITS_MAX:
        raise refusal(path, f"an integer of more than {INT_BITS_MAX} bits; pass it as bytes", value)
    return {"$int": str(value)}


def encode_float(value: float, path: Path) -> int | float:
    if not math.isfinite(value):
        raise refusal(path, "NaN and infinity are not numbers in JSON; pass None or a word", value)
    if abs(value) > SAFE_INT_MAX:
        raise refusal(path, "a float of 2^53 or more stands for many integers; pass an int or a Decimal", value)
    return int(value) if value.is_integer() else value


def _encode_decimal(value: Decimal, path: Path) -> Json:
    if not value.is_finite():
        raise refusal(path, "NaN and infinity are not amounts; pass None or a word", value)
    return {"$decimal": _plain_decimal(value, path) if value else "0"}


def _plain_decimal(value: Decimal, path: Path) -> str:
    """Digits without exponent and without trailing zeros; never through a context, which may round."""
    sign, all_digits, exponent = value.as_tuple()
    digits = "".join(map(str, all_digits))
    significant = digits.rstrip("0")
    power = int(exponent) + len(digits) - len(significant)
    if -power > DECIMAL_DIGITS_MAX or len(significant) + power > DECIMAL_DIGITS_MAX:
        reason = f"a decimal of more than {DECIMAL_DIGITS_MAX} digits before or after its point"
        raise refusal(path, reason, value)
    minus = "-" if sign else ""
    if power >= 0:
        return minus + significant + "0" * power
    padded = significant.rjust(1 - power, "0")
    return f"{minus}{padded[:power]}.{padded[power:]}"


def _encode_money(value: Money, path: Path) -> Json:
    return {"$money": {"currency": value.currency, "minor": value.minor}}


def _encode_instant(value: datetime, path: Path) -> Json:
    if value.utcoffset() is None:
        reason = "a datetime without a zone names no moment; add one, e.g. .replace(tzinfo=UTC)"
        raise refusal(path, reason, value)
    try:
        text = value.astimezone(UTC).replace(tzinfo=None).isoformat()
    except OverflowError:
        raise refusal(path, "an instant outside the years 1 to 9999 of UTC", value) from None
    return {"$instant": f"{text.rstrip('0') if '.' in text else text}Z"}


def _encode_date(value: date, path: Path) -> Json:
    return {"$date": value.isoformat()}


def _encode_duration(value: timedelta, path: Path) -> Json:
    return {"$duration_us": str((value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds)}


def _encode_bytes(value: bytes, path: Path) -> Json:
    if len(value) > CANONICAL_BYTES_MAX:
        raise refusal(path, TOO_LONG, value)
    return {"$bytes": b64encode(value).decode()}


def _encode_uuid(value: UUID, path: Path) -> Json:
    return {"$uuid": str(value)}


def _encode_secret(value: Secret, path: Path) -> Json:
    return {"$secret": value.reference}


_ENCODERS: Final[dict[type, Callable[[Any, Path], Json]]] = {
    type(None): _same,
    bool: _same,
    int: _encode_int,
    float: encode_float,
    Decimal: _encode_decimal,
    Money: _encode_money,
    datetime: _encode_instant,
    date: _encode_date,
    timedelta: _encode_duration,
    bytes: _encode_bytes,
    UUID: _encode_uuid,
    Secret: _encode_secret,
}


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
    name = type_name(kind)[:VALUE_CHARS_MAX]
    for base in (str, dict, list, tuple, *_ENCODERS):
        if issubclass(kind, base):
            return f"{name} is a subclass of {base.__name__}; pass a plain {base.__name__}"
    return f"{name} has no canonical form; pass one of {_KINDS}"
