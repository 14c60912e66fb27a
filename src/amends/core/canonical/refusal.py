"""What has no canonical form, and where in the value it is; the limits, each with its unit and reason.

A message must never run the code of the value it refuses and never leak a document, so a place and a value
are shown short, and a container or a foreign object only by its type.
"""

from datetime import datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias

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

SAFE_INT_MAX: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly: 2^53 - 1."""

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""What ``json`` reads and writes."""

Path: TypeAlias = "tuple[Path, str | int] | None"
"""The way to a value from the root: its parent's way and the last step; None is the root."""

TOO_LONG: Final = f"longer than {CANONICAL_BYTES_MAX} bytes; pass a reference to it, not the content"
TOO_DEEP: Final = f"more than {DEPTH_MAX} containers inside each other, or a value that contains itself"


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


def refusal(path: Path, reason: str, value: object) -> CanonicalError:
    return CanonicalError(_path_text(path), reason, _short_repr(value))


def _path_text(path: Path) -> str:
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
        text = f"<{type_name(kind)}>"
    return text if len(text) <= VALUE_CHARS_MAX else text[: VALUE_CHARS_MAX - 1] + "…"


def type_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
