"""Blotting: sensitive values are taken out of what user code and destinations say, before it is recorded (R15, G12).

A declared-sensitive argument, and a secret that a call revealed, may come back in a refusal, an error's text, a
receipt or a read. They come back in many spellings: a date as ISO text or as ``datetime.date(...)``, bytes as hex
or base64, an amount in minor units or with a point. So each value is turned into all its usual spellings, and each
of them is looked for, whatever its case. What is shorter than ``SHORTEST_BLOTTED`` is not looked for inside of
texts: it would be found in every word.

The border: a spelling nobody thought of, a part of a value, or a value that was hashed or translated passes.
"""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from unicodedata import normalize
from uuid import UUID

from amends.core.money import Money

SHORTEST_BLOTTED: Final = 4
"""Characters below which a value is not blotted out of texts."""

SHORTEST_NAME_BLOTTED: Final = 8
"""The same for the names in a sensitive mapping: short ones are words like ``number``."""

BLOT: Final = "[sensitive]"

ROOM: Final = 100
"""Characters that every recorded text may have. A text is never made longer than this by blots, or than it
was: what had room in the record before still has."""


class Blotter:
    """Blots ``values``, and what is ``revealed`` by the time it is asked, out of what is about to be recorded."""

    def __init__(self, values: Sequence[object], revealed: Sequence[str] = ()) -> None:
        self._values, self._revealed = values, revealed

    @property
    def hides_nothing(self) -> bool:
        """Whether there is nothing to blot out, so far."""
        return not self._values and not self._revealed

    def clean(self, value: Any) -> Any:
        """``value`` with each sensitive text replaced, and each number, instant or the like that is one."""
        if self.hides_nothing:
            return value
        said = {text for hidden in (*self._values, *self._revealed) for text in spellings(hidden)}
        found = {form for text in said for form in _forms(text) if len(form) >= SHORTEST_BLOTTED}
        if not found:
            return value
        longest_first = sorted(found, key=len, reverse=True)
        pattern = re.compile("|".join(map(re.escape, longest_first)), re.IGNORECASE)
        return _without(value, pattern, frozenset(text.casefold() for text in found))


def _forms(text: str) -> set[str]:
    """``text`` in each case and composition of its letters: some have a case that is longer (``ß``, ``İ``)."""
    composed = {text, *(normalize(form, text) for form in ("NFC", "NFD"))} if not text.isascii() else {text}
    return {form for each in composed for form in (each, each.casefold(), each.lower(), each.upper())}


def _cut(blotted: str, chars_max: int) -> str:
    """``blotted`` in at most ``chars_max`` characters; what is cut is marked."""
    return blotted if len(blotted) <= chars_max else blotted[: chars_max - 1] + "…"


def _without(value: Any, pattern: re.Pattern[str], hidden: frozenset[str]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _cut(pattern.sub(BLOT, value), max(len(value), ROOM))
    if isinstance(value, Mapping):
        clean = {_without(name, pattern, hidden): _without(item, pattern, hidden) for name, item in value.items()}
        return BLOT if _is_typed(value) and clean != value else clean
    if isinstance(value, list | tuple):
        return [_without(item, pattern, hidden) for item in value]
    return BLOT if any(text.casefold() in hidden for text in spellings(value)) else value


def _is_typed(value: Mapping[Any, Any]) -> bool:
    """A typed encoding, ``{"$instant": …}``: with a blot inside it could not be decoded any more."""
    name = next(iter(value), "") if len(value) == 1 else ""
    return isinstance(name, str) and name.startswith("$") and not name.startswith("$$")


def spellings(value: object) -> Iterator[str]:
    """The usual ways to write ``value``, and everything in it."""
    match value:
        case None | bool():
            return
        case str():
            yield from _of_text(value)
        case bytes():
            yield from _of_bytes(value)
        case Mapping():
            yield from (name for name in value if isinstance(name, str) and len(name) >= SHORTEST_NAME_BLOTTED)
            yield from _of_all(value.values())
        case list() | tuple():
            yield from _of_all(value)
        case datetime() | date():
            yield from _of_day(value)
        case Money():
            yield from (str(value), str(value).partition(" ")[2], str(value.minor))
        case timedelta():
            yield from (str(value), repr(value), f"{value.total_seconds():g}", str(int(value.total_seconds())))
        case UUID():
            yield from (str(value), value.hex, str(value.int))
        case int() | float() | Decimal():
            yield from _of_number(value)
        case _:
            yield from (str(value), repr(value))


def _of_all(values: Iterable[object]) -> Iterator[str]:
    for value in values:
        yield from spellings(value)


def _of_text(value: str) -> Iterator[str]:
    """The text, its lines, on one line, and as Python and JSON quote it."""
    yield value
    yield from (line.strip() for line in value.splitlines())
    yield " ".join(value.split())
    yield from (repr(value)[1:-1], json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])


def _of_bytes(value: bytes) -> Iterator[str]:
    text = value.decode("utf-8", "ignore")
    yield from _of_text(text)
    yield from (part for part in text.split("\0") if part)
    yield from (repr(value)[2:-1], value.hex(), value.hex(" "), value.hex(":"))
    yield from (encode(value).decode().rstrip("=") for encode in (b64encode, urlsafe_b64encode))


def _of_day(value: date) -> Iterator[str]:
    yield from (value.isoformat(), str(value), repr(value))
    day = value.date() if isinstance(value, datetime) else value
    if isinstance(value, datetime):
        for between in "T ":
            yield value.replace(tzinfo=None, microsecond=0).isoformat(between)
        if value.tzinfo is not None:
            yield from (f"{value.timestamp():.6f}".rstrip("0").rstrip("."), str(int(value.timestamp())))
    yield from (day.strftime(form) for form in ("%Y-%m-%d", "%Y%m%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y"))


def _of_number(value: float | Decimal) -> Iterator[str]:
    yield from (str(value), repr(value), f"{value:f}" if not isinstance(value, int) else f"{value:,}")
    if isinstance(value, int):
        yield from (f"{value:x}", f"{value:_}")
