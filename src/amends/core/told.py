"""Values that user code and destinations tell us, checked where they are made.

What a hook or an effect answers is recorded. A value that cannot be recorded — text with half a surrogate
pair, an infinite pause, a document in the place of an id — is refused when the answer is constructed, inside
the user's own code. There it is what any other error of that code is: the outcome stays *unknown*, or the
read *could not tell*; it never reaches the ledger, whose batch carries other runs' appends as well.
"""

import math
from collections.abc import Mapping

from amends.core.canonical import CanonicalError, encode
from amends.core.limits import BACKOFF_MS_MAX, REASON_CHARS_MAX, VALUE_CHARS_MAX


class ToldError(ValueError):
    """An answer holds a value that cannot be recorded. The message names the field, never the value."""


def text(what: str, value: object, chars_max: int = VALUE_CHARS_MAX) -> str:
    """``value``, which has to be text of at most ``chars_max`` characters.

    Raises:
        ToldError: it is not.
    """
    if not isinstance(value, str):
        raise ToldError(f"{what} is {article(value)}, not text: pass str(...) of the destination's own value")
    if len(value) > chars_max:
        raise ToldError(f"{what} has {len(value)} characters; at most {chars_max} are recorded")
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        raise ToldError(f"{what} holds half a surrogate pair, which is no text")
    return value


def optional_text(what: str, value: object, chars_max: int = VALUE_CHARS_MAX) -> None:
    """Check that ``value`` is ``None`` or text, as ``text`` does."""
    if value is not None:
        text(what, value, chars_max)


def flag(what: str, value: object) -> None:
    """Check that ``value`` is ``True`` or ``False`` itself: a word that is merely truthy promises nothing."""
    if value is not True and value is not False:
        raise ToldError(f"{what} is {article(value)}; say True or False")


def pause(what: str, value: object) -> None:
    """Check that ``value`` is ``None`` or a finite number of seconds, not negative."""
    if value is not None and seconds(value) is None:
        raise ToldError(f"{what} is no finite number of seconds from 0 up")


def mapping(what: str, value: object) -> None:
    """Check that ``value`` is ``None`` or a mapping with a canonical form."""
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise ToldError(f"{what} is {article(value)}, not a dict")
    try:
        encode(dict(value))
    except CanonicalError as error:
        raise ToldError(f"{what} has no canonical form: {error.reason} (at {error.path})") from None


def seconds(value: object) -> float | None:
    """``value`` as seconds to wait, at most the longest pause there is; ``None`` where it is no such number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return min(float(value), BACKOFF_MS_MAX / 1000) if math.isfinite(value) and value >= 0 else None


def sentence(value: object, chars_max: int = REASON_CHARS_MAX) -> str:
    """``value`` as one line of text that can be recorded: cut visibly, half surrogate pairs as escapes."""
    words = value if isinstance(value, str) else f"({article(value)} in the place of a reason)"
    if not words.isascii():
        words = words.encode("utf-8", "backslashreplace").decode()
    line = " ".join(words.split())
    return line if len(line) <= chars_max else line[: chars_max - 1] + "…"


def article(value: object) -> str:
    """The type of ``value`` in words: ``a dict``, ``an int``, ``None``."""
    if value is None:
        return "None"
    name = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    return name if isinstance(value, type) else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def number(value: object, most: int) -> int | None:
    """``value`` if it is an int from 0 to ``most``; ``None`` for everything else."""
    return value if type(value) is int and 0 <= value <= most else None
