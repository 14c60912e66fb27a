"""Equal actions hash equal, unequal ones never, and what has no canonical form is refused."""

import json
import math
import pickle
import sys
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, localcontext
from enum import Enum, IntEnum, StrEnum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
import rfc8785
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rfc8785_vectors import VECTORS, Vector

from amends.core.canonical import (
    CANONICAL_BYTES_MAX,
    DECIMAL_DIGITS_MAX,
    DEPTH_MAX,
    INT_BITS_MAX,
    VALUE_CHARS_MAX,
    CanonicalError,
    canonical_bytes,
    canonical_hash,
    decode,
    decode_value,
    digest,
    encode,
)
from amends.core.canonical.encoding import Walk
from amends.core.money import MINOR_UNITS_MAX, Money

pytestmark = pytest.mark.requirement("R7")

SAFE = 2**53 - 1

# --- what values there are ---------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
marker_like = st.sampled_from(["$", "$$", "$int", "$$int", "$money", "$decimal", "$$$", "a$", "\U0001f600", "\ufb33"])
keys = texts | marker_like
floats = st.floats(-SAFE, SAFE, allow_nan=False) | st.sampled_from([1e-7, -1e-7, 5e-324, 1e-4, 9.99e-5, 0.1, -0.0])
decimals = st.decimals(allow_nan=False, allow_infinity=False).filter(
    lambda d: d == 0 or abs(d.adjusted()) < DECIMAL_DIGITS_MAX - 40
)
zones = st.sampled_from(
    [UTC, timezone(timedelta(hours=5, minutes=45)), timezone(timedelta(hours=-9)), ZoneInfo("Europe/Oslo")]
)
instants = st.datetimes(timezones=zones).filter(lambda instant: 1 < instant.year < 9999)
money = st.builds(Money, st.integers(-MINOR_UNITS_MAX, MINOR_UNITS_MAX), st.sampled_from(["USD", "EUR", "JPY"]))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | floats
    | texts
    | decimals
    | money
    | instants
    | st.dates()
    | st.timedeltas()
    | st.binary(max_size=12)
    | st.uuids()
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple) | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=12,
)

# A small pool, so that two draws are often equal across types.
twins = st.recursive(
    st.sampled_from(
        [
            *(None, True, False, 0, 0.0, -0.0, 1, 1.0, 2, "1", "", b"1", b""),
            *(Decimal("1"), Decimal("1.00"), Decimal("0"), Decimal("-0.0"), Decimal("1E+2"), Decimal(100)),
            *(Money(1, "USD"), Money(1, "EUR"), 2**53, -(2**53), 2**53 + 1, float(SAFE), SAFE),
            *(
                datetime(2026, 1, 1, 12, tzinfo=UTC),
                datetime(2026, 1, 1, 13, tzinfo=timezone(timedelta(hours=1))),
            ),
            *(
                date(2026, 1, 1),
                "2026-01-01",
                timedelta(days=1),
                timedelta(hours=24),
                UUID(int=1),
                str(UUID(int=1)),
            ),
            *({"$int": "1"}, {"$$int": "1"}, {"$decimal": "1"}, {"$money": {"currency": "USD", "minor": 1}}),
        ]
    ),
    lambda inner: (
        st.lists(inner, max_size=2) | st.tuples(inner) | st.dictionaries(st.sampled_from("ab$"), inner, max_size=2)
    ),
    max_leaves=4,
)


def kind(value: object) -> type:
    """Two values of different kinds are never equal: int and float are one kind, list and tuple too."""
    return {float: int, tuple: list}.get(type(value), type(value))


def same(a: Any, b: Any) -> bool:
    """Semantic equality as the module's documentation states it, written apart from the encoding."""
    if kind(a) is not kind(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, datetime):  # == between zones is False in a skipped or repeated hour (PEP 495)
        return bool(a.astimezone(UTC) == b.astimezone(UTC))
    return bool(a == b)


# --- the standard ------------------------------------------------------------------------------------


@pytest.mark.requirement("R7", "C11", "C12")
@pytest.mark.parametrize("vector", VECTORS, ids=[vector.name for vector in VECTORS])
def test_the_public_vectors_of_rfc_8785(vector: Vector) -> None:
    parsed = json.loads(vector.given)
    assert rfc8785.dumps(parsed) == vector.canonical.encode()
    if vector.in_domain:
        assert canonical_bytes(parsed) == vector.canonical.encode()
        assert canonical_bytes(decode(vector.canonical.encode())) == vector.canonical.encode()
    else:
        with pytest.raises(CanonicalError, match="2\\^53"):
            canonical_bytes(parsed)


@given(values)
@settings(max_examples=400)
@example({"\U0001f600": 1, "\ufb33": 2})
@example({"a": 1e-7, "b": 9.999999999999999e-5, "c": 1e-4, "d": 0.00012})
@example({"\x00": '\x1f\x7f\x80\u2028\\"/\b\f\n\r\t'})
def test_every_form_is_what_the_library_writes_for_the_encoding(value: Any) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(encode(value))


@given(st.floats(-SAFE, SAFE, allow_nan=False))
@settings(max_examples=400)
def test_floats_are_written_as_the_library_writes_them(value: float) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value)


@pytest.mark.requirement("R7", "C12")
def test_keys_are_ordered_by_utf_16_not_by_code_point() -> None:
    expected = '{"\U0001f600":1,"\ufb33":2}'.encode()
    assert canonical_bytes({"\ufb33": 2, "\U0001f600": 1}) == expected
    assert sorted(["\ufb33", "\U0001f600"]) == ["\ufb33", "\U0001f600"], "code points would order them otherwise"


@pytest.mark.requirement("R7", "C12")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-7, "1e-7"),
        (1e-6, "0.000001"),
        (1.5e-5, "0.000015"),
        (0.1, "0.1"),
        (1.0, "1"),
        (-0.0, "0"),
        (0.1 + 0.2, "0.30000000000000004"),
        (float(SAFE), "9007199254740991"),
        (5e-324, "5e-324"),
    ],
)
def test_numbers_are_written_as_ecmascript_writes_them(value: float, text: str) -> None:
    assert canonical_bytes(value) == text.encode()


# --- round trip and equality -------------------------------------------------------------------------


@given(values)
@settings(max_examples=400)
def test_decoding_gives_an_equal_value_and_encoding_it_again_the_same_bytes(value: Any) -> None:
    data = canonical_bytes(value)
    copy = decode(data)
    assert same(copy, value)
    assert canonical_bytes(copy) == data
    assert same(decode_value(encode(value)), value)
    assert same(decode_value(json.loads(json.dumps(encode(value)))), value)


@given(values, values)
def test_any_two_values_hash_equal_exactly_when_they_are_equal(a: Any, b: Any) -> None:
    assert (canonical_hash(a) == canonical_hash(b)) == same(a, b)


@given(twins, twins)
@settings(max_examples=1_000)
def test_lookalikes_hash_equal_exactly_when_they_are_equal(a: Any, b: Any) -> None:
    assert (canonical_hash(a) == canonical_hash(b)) == same(a, b)


@given(st.dictionaries(keys, scalars, max_size=6).flatmap(lambda d: st.tuples(st.just(d), st.permutations(list(d)))))
def test_the_order_of_insertion_does_not_matter(drawn: tuple[dict[str, Any], list[str]]) -> None:
    value, order = drawn
    assert canonical_bytes({key: value[key] for key in order}) == canonical_bytes(value)


def test_the_copy_shares_nothing_with_the_original() -> None:
    value: dict[str, Any] = {"a": [{"b": [1]}]}
    encoded: Any = encode(value)
    copy = decode_value(encoded)
    value["a"][0]["b"].append(2)
    assert encoded == {"a": [{"b": [1]}]}
    encoded["a"][0]["b"].append(3)
    assert copy == {"a": [{"b": [1]}]}


@pytest.mark.requirement("R7", "C11")
def test_an_approval_survives_a_hop_through_javascript() -> None:
    approved = canonical_hash({"qty": 1.0})
    assert approved == canonical_hash({"qty": 1})
    assert canonical_bytes({"qty": 1.0}) == b'{"qty":1}'


def test_a_decimal_is_not_a_number_and_true_is_not_one() -> None:
    hashes = {canonical_hash(value) for value in (1, 1.0, True, Decimal("1"), Decimal("1.00"), "1", Money(1, "USD"))}
    assert len(hashes) == 5
    assert canonical_hash(Decimal("1.0")) == canonical_hash(Decimal("1.00"))
    assert canonical_hash(Decimal("1.0")) != canonical_hash(1.0)


def test_the_example_of_the_interface_is_pinned() -> None:
    value = {"order_id": "18431", "amount": Money(8500, "USD"), "note": "hello"}
    data = b'{"amount":{"$money":{"currency":"USD","minor":8500}},"note":"hello","order_id":"18431"}'
    assert canonical_bytes(value) == data
    assert canonical_hash(value) == digest(data)
    assert digest(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


# --- what JSON cannot carry --------------------------------------------------------------------------

OSLO, NEPAL = ZoneInfo("Europe/Oslo"), timezone(timedelta(hours=5, minutes=45))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (SAFE, SAFE),
        (-SAFE, -SAFE),
        (2**53, {"$int": "9007199254740992"}),
        (2**53 + 1, {"$int": "9007199254740993"}),
        (-(2**53), {"$int": "-9007199254740992"}),
        (10**20, {"$int": "100000000000000000000"}),
        (Decimal("85.10"), {"$decimal": "85.1"}),
        (Decimal("-0.00"), {"$decimal": "0"}),
        (Decimal("0E+999999"), {"$decimal": "0"}),
        (Decimal("1E+3"), {"$decimal": "1000"}),
        (Decimal("-1.5E-3"), {"$decimal": "-0.0015"}),
        (Decimal("0.1"), {"$decimal": "0.1"}),
        (Decimal("12.34"), {"$decimal": "12.34"}),
        (Money(-5, "jpy"), {"$money": {"currency": "JPY", "minor": -5}}),
        (datetime(2026, 1, 31, 9, 30, tzinfo=UTC), {"$instant": "2026-01-31T09:30:00Z"}),
        (datetime(2026, 1, 31, 9, 30, 0, 500_000, tzinfo=UTC), {"$instant": "2026-01-31T09:30:00.5Z"}),
        (datetime(2026, 1, 31, 9, 30, 10, 1, tzinfo=UTC), {"$instant": "2026-01-31T09:30:10.000001Z"}),
        (datetime(1, 1, 1, tzinfo=UTC), {"$instant": "0001-01-01T00:00:00Z"}),
        (date(2026, 1, 31), {"$date": "2026-01-31"}),
        (timedelta(seconds=1.5), {"$duration_us": "1500000"}),
        (timedelta.max, {"$duration_us": "86399999999999999999"}),
        (timedelta(microseconds=-1), {"$duration_us": "-1"}),
        (b"hello", {"$bytes": "aGVsbG8="}),
        (UUID(int=1), {"$uuid": "00000000-0000-0000-0000-000000000001"}),
    ],
)
def test_exact_forms_are_pinned(value: object, encoded: object) -> None:
    assert encode(value) == encoded
    assert same(decode_value(encode(value)), value)


def test_one_moment_in_two_zones_is_one_action() -> None:
    utc = datetime(2026, 7, 1, 10, 0, tzinfo=UTC)
    assert {
        canonical_hash(utc),
        canonical_hash(utc.astimezone(OSLO)),
        canonical_hash(utc.astimezone(NEPAL)),
    } == {canonical_hash(utc)}
    assert canonical_hash(utc) != canonical_hash(utc.replace(tzinfo=OSLO))


def test_the_two_passes_of_a_repeated_hour_are_two_moments() -> None:
    first = datetime(2026, 10, 25, 2, 30, tzinfo=OSLO)
    assert canonical_hash(first) != canonical_hash(first.replace(fold=1))
    assert encode(first) == {"$instant": "2026-10-25T00:30:00Z"}


def test_a_skipped_hour_is_the_moment_that_python_makes_of_it() -> None:
    skipped = datetime(2026, 3, 29, 2, 30, tzinfo=OSLO)
    assert encode(skipped) == {"$instant": "2026-03-29T01:30:00Z"}
    assert canonical_hash(skipped) == canonical_hash(datetime(2026, 3, 29, 1, 30, tzinfo=UTC))


@pytest.mark.parametrize("key", ["$", "$$", "$int", "$$int", "$money", "$unknown"])
def test_user_data_can_never_be_taken_for_a_marker(key: str) -> None:
    user: dict[str, Any] = {key: "9007199254740993"}
    assert decode(canonical_bytes(user)) == user
    assert canonical_hash(user) != canonical_hash(9007199254740993)


def test_decimals_do_not_depend_on_the_context() -> None:
    value = Decimal("123456789.123456789")
    with localcontext() as context:
        context.prec = 3
        assert encode(value) == {"$decimal": "123456789.123456789"}
        assert decode(canonical_bytes(value)) == value


@given(decimals)
def test_a_decimal_keeps_its_value_in_plain_digits(value: Decimal) -> None:
    encoded: Any = encode(value)
    assert Decimal(encoded["$decimal"]) == value
    assert "E" not in encoded["$decimal"]


# --- refusals ----------------------------------------------------------------------------------------


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    ONE = 1


class Word(StrEnum):
    GO = "go"


class Text(str):
    __slots__ = ()


class Hostile:
    def __repr__(self) -> str:
        raise AssertionError("a refusal must not run the value's own code")

    __str__ = __repr__


Point = namedtuple("Point", "x y")

REFUSED: list[tuple[object, str]] = [
    (float("nan"), "NaN"),
    (float("inf"), "infinity"),
    (float("-inf"), "infinity"),
    (1e20, "int or a Decimal"),
    (2.0**53, "int or a Decimal"),
    (-(2.0**53), "int or a Decimal"),
    (sys.float_info.max, "int or a Decimal"),
    (2**INT_BITS_MAX, "4096 bits"),
    (-(10**6_000), "4096 bits"),
    (Decimal("NaN"), "NaN"),
    (Decimal("sNaN"), "NaN"),
    (Decimal("-Infinity"), "infinity"),
    (Decimal("1e1000000"), "1000 digits"),
    (Decimal("1e-1000000"), "1000 digits"),
    (Decimal("1e1000"), "1000 digits"),
    (datetime.fromisoformat("2026-01-01T00:00"), "without a zone"),
    (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "1 to 9999"),
    (datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-2))), "1 to 9999"),
    (time(9, 30), "names no moment"),
    ("\ud800", "lone surrogate"),
    ("ok \udc00", "lone surrogate"),
    ({"\ud83d": 1}, "lone surrogate"),
    ({1: "a"}, "keys must be plain str"),
    ({None: "a"}, "keys must be plain str"),
    ({Text("a"): 1}, "keys must be plain str"),
    (Colour.RED, r"\.value"),
    (Level.ONE, r"\.value"),
    (Word.GO, r"\.value"),
    (Text("a"), "subclass of str"),
    (OrderedDict(a=1), "subclass of dict"),
    (defaultdict(list), "subclass of dict"),
    (Point(1, 2), "subclass of tuple"),
    ({1, 2}, "sorted list"),
    (frozenset(), "sorted list"),
    (bytearray(b"a"), "bytes"),
    (memoryview(b"a"), "bytes"),
    (1j, "no canonical form"),
    (object(), "no canonical form"),
    (Hostile(), "no canonical form"),
    (len, "no canonical form"),
]


@pytest.mark.parametrize(
    ("value", "reason"), REFUSED, ids=[f"{type(value).__name__}-{reason}" for value, reason in REFUSED]
)
def test_what_has_no_canonical_form_is_refused(value: object, reason: str) -> None:
    for refuse in (canonical_bytes, encode, canonical_hash):
        with pytest.raises(CanonicalError, match=reason) as caught:
            refuse(value)
        assert len(caught.value.value_repr) <= VALUE_CHARS_MAX


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (math.nan, "$"),
        ({"items": [0, 1, {"amount": math.nan}]}, "$.items[2].amount"),
        ({"odd key": (1, [math.nan])}, "$['odd key'][1][0]"),
        ({"$int": math.nan}, "$['$int']"),
        ({"a": {1: 2}}, "$.a"),
    ],
)
def test_a_refusal_names_the_place(value: object, path: str) -> None:
    with pytest.raises(CanonicalError) as caught:
        canonical_bytes(value)
    assert caught.value.path == path
    assert str(caught.value).startswith(f"{path}: ")


def test_a_refusal_shows_little_of_the_value_and_survives_pickling() -> None:
    with pytest.raises(CanonicalError) as caught:
        canonical_bytes("s" * (CANONICAL_BYTES_MAX + 1))
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.path, error.reason, error.value_repr) == (
        caught.value.path,
        caught.value.reason,
        caught.value.value_repr,
    )
    assert str(error).count("s" * 70) == 1
    assert len(str(error)) < 300
    with pytest.raises(CanonicalError) as long_key:
        canonical_bytes({"k" * 10_000: math.nan})
    assert len(long_key.value.path) < 100


# --- limits ------------------------------------------------------------------------------------------


def nested(wrap: Callable[[Any], Any], depth: int) -> Any:
    value: Any = wrap(None)
    for _ in range(depth - 1):
        value = wrap(value)
    return value


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: (v,), lambda v: {"a": v}, lambda v: {"$a": v}])
def test_the_depth_is_bounded_on_both_sides(wrap: Callable[[Any], Any]) -> None:
    deepest = nested(wrap, DEPTH_MAX)
    assert same(decode(canonical_bytes(deepest)), deepest)
    for depth in (DEPTH_MAX + 1, 50_000):
        with pytest.raises(CanonicalError, match="64 containers"):
            canonical_bytes(nested(wrap, depth))


def test_a_marker_takes_no_depth() -> None:
    value: Any = Money(1, "USD")
    for _ in range(DEPTH_MAX):
        value = [value]
    assert decode(canonical_bytes(value)) == value


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[object] = []
    loop.append(loop)
    ring: dict[str, object] = {}
    ring["a"] = {"b": ring}
    for value in (loop, ring):
        with pytest.raises(CanonicalError, match="contains itself"):
            canonical_bytes(value)


def test_the_length_is_bounded_in_bytes() -> None:
    assert len(canonical_bytes("a" * (CANONICAL_BYTES_MAX - 2))) == CANONICAL_BYTES_MAX
    for too_long in ("a" * (CANONICAL_BYTES_MAX - 1), "\u20ac" * (CANONICAL_BYTES_MAX // 3), ["a"] * 300_000):
        with pytest.raises(CanonicalError, match="1048576 bytes"):
            canonical_bytes(too_long)
    assert len(canonical_bytes([1] * (CANONICAL_BYTES_MAX // 2 - 1))) < CANONICAL_BYTES_MAX


def test_a_value_that_repeats_itself_without_end_is_refused_early() -> None:
    bomb: Any = ["x"]
    for _ in range(DEPTH_MAX - 1):
        bomb = [bomb, bomb]
    for value in (bomb, [b"x" * 1_000_000] * 1_000_000, [Decimal("1e999")] * 1_000_000, [b"x" * 10**7]):
        with pytest.raises(CanonicalError, match="1048576 bytes"):
            encode(value)


@given(values)
def test_the_early_bound_never_refuses_what_fits(value: Any) -> None:
    walk = Walk()
    walk.encode(value, None, 0)
    assert CANONICAL_BYTES_MAX - walk.bytes_left <= len(canonical_bytes(value)) + 1


# --- decoding what others wrote ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"$int":"5"}',
        '{"$int":5}',
        '{"$int":"9007199254740992.0"}',
        '{"$int":" 9007199254740992"}',
        '{"$int":"9_007_199_254_740_992"}',
        '{"$int":"٩٠٠٧١٩٩٢٥٤٧٤٠٩٩٢"}',
        '{"$int":"' + "9" * 5_000 + '"}',
        '{"$decimal":"1.0"}',
        '{"$decimal":"1E3"}',
        '{"$decimal":"NaN"}',
        '{"$decimal":"x"}',
        '{"$decimal":"1e1000000"}',
        '{"$money":{"currency":"usd","minor":1}}',
        '{"$money":{"currency":"USD","minor":1.0}}',
        '{"$money":{"currency":"USD","minor":true}}',
        '{"$money":{"currency":"USD"}}',
        '{"$money":{"currency":"USD","minor":1,"more":1}}',
        '{"$money":["USD",1]}',
        '{"$instant":"2026-01-31T09:30:00"}',
        '{"$instant":"2026-01-31T09:30:00.500Z"}',
        '{"$instant":"2026-01-31T09:30:00+00:00"}',
        '{"$instant":"2026-01-31T10:30:00+01:00"}',
        '{"$date":"20260131"}',
        '{"$date":"2026-02-30"}',
        '{"$duration_us":"1.5"}',
        '{"$duration_us":"99999999999999999999999"}',
        '{"$bytes":"aGVsbG8"}',
        '{"$bytes":"aGVs bG8="}',
        '{"$bytes":"é"}',
        '{"$uuid":"00000000000000000000000000000001"}',
        '{"$uuid":null}',
        '{"$unknown":"1"}',
        '{"$":"1"}',
        '{"$int":"9007199254740992","b":1}',
        '{"a":1,"$b":2}',
        '"\\ud800"',
        '{"\\ud800":1}',
        "9007199254740992",
        "-9007199254740992",
        "1e20",
        "1e400",
        "NaN",
        "-Infinity",
        "",
        "{",
        "[1,]",
        "1 2",
        "[" * 100_000,
        "[" * 65 + "]" * 65,
        "\ufeff1",
    ],
    ids=lambda text: text[:30],
)
def test_what_could_not_have_been_made_by_us_is_refused(text: str) -> None:
    with pytest.raises(CanonicalError):
        decode(text.encode())


@pytest.mark.parametrize("data", [b"\xff", b'"\xed\xa0\x80"', "1".encode("utf-16"), b" " * (CANONICAL_BYTES_MAX + 1)])
def test_bytes_that_are_not_json_in_utf_8_are_refused(data: bytes) -> None:
    with pytest.raises(CanonicalError):
        decode(data)


@pytest.mark.parametrize("value", [(1,), {1: 2}, object(), b"a", Decimal(1), {"a": {2}}])
def test_only_plain_json_is_decoded(value: Any) -> None:
    with pytest.raises(CanonicalError):
        decode_value(value)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@given(json_like)
@settings(max_examples=400)
@example({"$decimal": "sNaN"})
@example({"$instant": "9999-12-31T23:59:60Z"})
def test_decoding_refuses_or_gives_a_value_with_a_canonical_form(value: Any) -> None:
    try:
        decoded = decode_value(value)
    except CanonicalError:
        return
    assert same(decode(canonical_bytes(decoded)), decoded)


@given(st.binary(max_size=30) | texts.map(str.encode))
def test_decoding_any_bytes_raises_nothing_else(data: bytes) -> None:
    with suppress(CanonicalError):
        decode(data)
