"""Money is a whole number of minor units and a currency; there is no other form of it.

A float cannot hold ten cents, and a decimal leaves open how many places count. Providers bill in minor
units (cents, yen, fils), so the amount that a person approved, the amount that is hashed and the amount
that is sent are the same integer. Adding or comparing two currencies has no meaning without a rate, and
a rate is a decision: it is refused, never guessed.

How many minor units make one major unit is ISO 4217's table; it is used for display only, so a wrong or
changed entry can mislead a reader but never move another amount.
"""

from dataclasses import dataclass
from typing import Final

MINOR_UNITS_MAX: Final = 10**15
"""Minor units, either sign: beyond any one payment, and below 2^53, so a JSON number holds it exactly."""

_DEFAULT_EXPONENT: Final = 2
_ISO_4217_EXPONENTS: Final[dict[str, int]] = {
    **dict.fromkeys(("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF"), 0),
    **dict.fromkeys(("UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF"), 0),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
    **dict.fromkeys(("CLF", "UYW"), 4),
}


@dataclass(frozen=True, slots=True)
class Money:
    """An exact amount: ``Money(8500, "USD")`` is USD 85.00.

    Args:
        minor: whole minor units (cents), at most 10^15 of either sign. No float, no Decimal, no bool.
        currency: three ASCII letters; lower case is taken as upper case.

    Raises:
        TypeError: ``minor`` is not an ``int`` or ``currency`` is not a ``str``.
        ValueError: the amount is out of bounds, or the currency is not three letters.

    >>> str(Money(8500, "usd") - Money(500, "USD"))
    'USD 80.00'
    """

    minor: int
    currency: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "minor", _checked_minor(self.minor))
        object.__setattr__(self, "currency", _checked_currency(self.currency))

    def __str__(self) -> str:
        exponent = _ISO_4217_EXPONENTS.get(self.currency, _DEFAULT_EXPONENT)
        sign = "-" if self.minor < 0 else ""
        digits = str(abs(self.minor)).rjust(exponent + 1, "0")
        point = len(digits) - exponent
        fraction = f".{digits[point:]}" if exponent else ""
        return f"{self.currency} {sign}{digits[:point]}{fraction}"

    def __add__(self, other: "Money") -> "Money":
        if not isinstance(other, Money):
            return NotImplemented
        return Money(self.minor + self._in_same_currency(other, "add"), self.currency)

    def __sub__(self, other: "Money") -> "Money":
        if not isinstance(other, Money):
            return NotImplemented
        return Money(self.minor - self._in_same_currency(other, "subtract"), self.currency)

    def __lt__(self, other: "Money") -> bool:
        if not isinstance(other, Money):
            return NotImplemented
        return self.minor < self._in_same_currency(other, "compare")

    def __le__(self, other: "Money") -> bool:
        if not isinstance(other, Money):
            return NotImplemented
        return self.minor <= self._in_same_currency(other, "compare")

    def __gt__(self, other: "Money") -> bool:
        if not isinstance(other, Money):
            return NotImplemented
        return self.minor > self._in_same_currency(other, "compare")

    def __ge__(self, other: "Money") -> bool:
        if not isinstance(other, Money):
            return NotImplemented
        return self.minor >= self._in_same_currency(other, "compare")

    def _in_same_currency(self, other: "Money", verb: str) -> int:
        if other.currency != self.currency:
            raise ValueError(
                f"cannot {verb} {self} and {other}: they are in different currencies, "
                f"and a rate is a decision; convert first"
            )
        return other.minor


def _checked_minor(minor: object) -> int:
    if type(minor) is not int:
        raise TypeError(
            f"Money takes an int of minor units, got {type(minor).__name__}: "
            f"pass Money(8500, 'USD') for USD 85.00, never a float, a Decimal or a bool"
        )
    if not -MINOR_UNITS_MAX <= minor <= MINOR_UNITS_MAX:
        raise ValueError(
            f"Money takes at most {MINOR_UNITS_MAX} minor units of either sign, got a number of "
            f"{minor.bit_length()} bits: every JSON reader must hold the amount exactly"
        )
    return minor


def _checked_currency(currency: object) -> str:
    if not isinstance(currency, str):
        raise TypeError(f"Money takes a currency such as 'USD', got {type(currency).__name__}")
    if not (len(currency) == 3 and currency.isascii() and currency.isalpha()):
        raise ValueError(f"a currency is three ASCII letters such as 'USD', got {currency[:10]!r}")
    return currency.upper()
