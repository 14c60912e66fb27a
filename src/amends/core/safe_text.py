"""Text that somebody else wrote, made safe to show to a person.

What a destination, a model or a caller wrote may hold terminal escapes, characters that turn the reading
direction, and characters that cannot be seen. Shown as they are they let a text say one thing to the eye
and another to the machine. So each of them appears as an escape, ``\\u{202e}``, and a backslash is doubled:
what stands there can be read back in one way only.
"""

import unicodedata
from typing import Final

TEXT_CHARS_MAX: Final = 500
"""Characters of foreign text in one sentence: a person reads it; the record keeps all of it."""

MARKS_MAX: Final = 3
"""Combining marks on one letter: more than any script needs, fewer than hide the line above."""

_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
_BLANK: Final = (
    frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U0001d159")
    | {chr(n) for n in range(0xFE00, 0xFE10)}
    | {chr(n) for n in range(0xE0100, 0xE01F0)}
)
"""Printable by their class and yet not seen: fillers, joiners, variation selectors."""


def visible(text: str, chars_max: int = TEXT_CHARS_MAX, *, keep: str = "") -> str:
    """``text`` with every control, direction and invisible character as an escape, in one line.

    Args:
        text: anything.
        chars_max: the longest result; what is cut is counted behind it.
        keep: characters to leave alone, e.g. the line ends of our own messages.
    """
    out: list[str] = []
    length = marks = 0
    for place, char in enumerate(text):
        mark = unicodedata.category(char) in ("Mn", "Me")
        marks = marks + 1 if mark else 0
        hidden = mark and (place == 0 or marks > MARKS_MAX)
        shown = char if char in keep else _escaped(char, hidden=hidden)
        length += len(shown)
        if length > chars_max:
            return "".join(out) + f"… ({len(text) - place} more characters)"
        out.append(shown)
    return "".join(out)


def quoted(text: object, chars_max: int = TEXT_CHARS_MAX) -> str:
    """``text`` in double quotes, so that it cannot pass for our own words."""
    return '"' + visible(str(text), chars_max).replace('"', '\\"') + '"'


def _escaped(char: str, *, hidden: bool) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if hidden or char in _BLANK or not (char.isprintable() or char == " "):
        return f"\\u{{{ord(char):x}}}"
    return char
