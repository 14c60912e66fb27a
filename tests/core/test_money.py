"""Money holds whole minor units of one currency, and says no to everything else."""

import pickle
from decimal import Decimal
from enum import IntEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends.core.money import MINOR_UNITS_MAX, Money

pytestmark = pytest.mark.requirement("R7")

minor_units = st.integers(-MINOR_UNITS_MAX, MINOR_UNITS_MAX)
currencies = st.sampled_from(["USD", "EUR", "JPY", "KWD"])


class Cents(IntEnum):
    FIVE = 5


@pytest.mark.parametrize(
    ("money", "shown"),
    [
        (Money(8500, "USD"), "USD 85.00"),
        (Money(5, "USD"), "USD 0.05"),
        (Money(0, "USD"), "USD 0.00"),
        (Money(-5, "USD"), "USD -0.05"),
        (Money(-8500, "EUR"), "EUR -85.00"),
        (Money(8500, "JPY"), "JPY 8500"),
        (Money(0, "XOF"), "XOF 0"),
        (Money(8500, "KWD"), "KWD 8.500"),
        (Money(-1, "BHD"), "BHD -0.001"),
        (Money(12345, "CLF"), "CLF 1.2345"),
        (Money(MINOR_UNITS_MAX, "USD"), "USD 10000000000000.00"),
    ],
)
def test_is_shown_with_the_places_of_its_currency(money: Money, shown: str) -> None:
    assert str(money) == shown


def test_a_lower_case_currency_is_the_same_currency() -> None:
    assert Money(1, "usd") == Money(1, "USD")
    assert hash(Money(1, "usd")) == hash(Money(1, "USD"))
    assert Money(1, "usd").currency == "USD"


@pytest.mark.parametrize("minor", [85.0, 85.5, Decimal(85), "85", True, None, Cents.FIVE])
def test_only_a_plain_int_of_minor_units_is_taken(minor: object) -> None:
    with pytest.raises(TypeError, match="int of minor units"):
        Money(minor, "USD")  # type: ignore[arg-type]


@pytest.mark.parametrize("minor", [MINOR_UNITS_MAX + 1, -MINOR_UNITS_MAX - 1, 10**4_000])
def test_amounts_beyond_the_bound_are_refused(minor: int) -> None:
    with pytest.raises(ValueError, match="at most 1000000000000000 minor units"):
        Money(minor, "USD")


@pytest.mark.parametrize("currency", ["", "US", "USDT", "U5D", "U D", "ÜSD", "ⅡSD", "ßD"])
def test_a_currency_is_three_ascii_letters(currency: str) -> None:
    with pytest.raises(ValueError, match="three ASCII letters"):
        Money(1, currency)


def test_a_currency_is_text() -> None:
    with pytest.raises(TypeError, match="currency"):
        Money(1, None)  # type: ignore[arg-type]


@given(a=minor_units, b=minor_units, currency=currencies)
def test_amounts_of_one_currency_order_as_their_minor_units(a: int, b: int, currency: str) -> None:
    left, right = Money(a, currency), Money(b, currency)
    assert (left < right) == (a < b)
    assert (left <= right) == (a <= b)
    assert (left > right) == (a > b)
    assert (left >= right) == (a >= b)
    assert (left == right) == (a == b)


@given(a=st.integers(-(10**14), 10**14), b=st.integers(-(10**14), 10**14), currency=currencies)
def test_sums_and_differences_are_exact(a: int, b: int, currency: str) -> None:
    assert Money(a, currency) + Money(b, currency) == Money(a + b, currency)
    assert Money(a, currency) + Money(b, currency) - Money(b, currency) == Money(a, currency)


def test_a_sum_beyond_the_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="at most"):
        Money(MINOR_UNITS_MAX, "USD") + Money(1, "USD")


@pytest.mark.parametrize("operator", ["__add__", "__sub__", "__lt__", "__le__", "__gt__", "__ge__"])
def test_two_currencies_never_meet(operator: str) -> None:
    with pytest.raises(ValueError, match="different currencies"):
        getattr(Money(1, "USD"), operator)(Money(1, "EUR"))
    assert Money(1, "USD") != Money(1, "EUR")


@pytest.mark.parametrize("operator", ["__add__", "__sub__", "__lt__", "__le__", "__gt__", "__ge__"])
def test_money_and_numbers_never_meet(operator: str) -> None:
    assert getattr(Money(1, "USD"), operator)(1) is NotImplemented


def test_is_a_frozen_value_that_pickles() -> None:
    money = Money(8500, "USD")
    with pytest.raises(AttributeError):
        money.minor = 1  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(money)) == money
