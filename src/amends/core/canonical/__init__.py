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

from amends.core.canonical.decoding import decode, decode_value
from amends.core.canonical.encoding import encode
from amends.core.canonical.hashing import canonical_bytes, canonical_hash, digest
from amends.core.canonical.refusal import (
    CANONICAL_BYTES_MAX,
    DECIMAL_DIGITS_MAX,
    DEPTH_MAX,
    INT_BITS_MAX,
    VALUE_CHARS_MAX,
    CanonicalError,
    Json,
)

__all__ = [
    "CANONICAL_BYTES_MAX",
    "DECIMAL_DIGITS_MAX",
    "DEPTH_MAX",
    "INT_BITS_MAX",
    "VALUE_CHARS_MAX",
    "CanonicalError",
    "Json",
    "canonical_bytes",
    "canonical_hash",
    "decode",
    "decode_value",
    "digest",
    "encode",
]
