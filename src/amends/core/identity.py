"""The name of a logical action: who, what, on which thing, for which intent — and nothing else.

A retry must carry the key that the first try carried, and another action another one. So a key is a
hash of the action alone: never of an attempt, a clock or a random number, and never of the parameters,
which are compared beside it (a re-worded wish then meets the operation that it repeats).

The parts are framed before hashing: a label that says what the hash is for, then each part with its
length in front. ``("a", "bc")`` and ``("ab", "c")`` are therefore different, and no character inside a
part, control characters included, can pass for a border. Text is hashed as it is given: two spellings
of one name (composed and decomposed accents) are two names, so pass the destination's own id.

The derivation is for ever. Keys in old ledgers and at destinations were made by it: a change here doubles
live operations. ``tests/core/test_identity.py`` pins values; a new derivation needs a new prefix.

Targets
-------
A target says what is changed, e.g. ``order:18431``, and is rendered from a template ``order:{order_id}``.
Two argument sets must not meet in one target by accident, so in a value each of these is written as
percent-encoded UTF-8: ``: / # | % { }``, white space, controls, and characters that cannot be seen.
Two fields of a template are set apart by at least one of ``: / # |``, which no value can then contain:
each border can be found again in the rendered text, and so can each value. An int and its decimal text
are one value on purpose: ``18431`` and ``"18431"`` are the same order, whatever type a caller used.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

KEY_CHARS_MAX: Final = 45
"""ASCII characters of a key: the shortest limit among known providers (Square's). Ours have 36."""

TENANT_CHARS_MAX: Final = 128
"""Characters of a tenant: it is a name."""

ACTION_CHARS_MAX: Final = 128
"""Characters of an action type: it is a name."""

TARGET_CHARS_MAX: Final = 512
"""Characters of a rendered target: some resource ids are paths; a document is not an id."""

LINEAGE_CHARS_MAX: Final = 128
"""Characters of an intent lineage root: an intent id, ours have 30."""

OCCURRENCE_CHARS_MAX: Final = 128
"""Characters of an occurrence: a program's word for "again, on purpose"."""

EVENT_CHARS_MAX: Final = 512
"""Characters of a business event's id, e.g. a message id, which mail systems make long."""

PART_CHARS_MAX: Final = 128
"""Characters of the name of a second call inside one operation."""

REVISION_MAX: Final = 1_000_000
"""The highest revision number: a counter of corrections, not a place to hide a clock or a hash."""

REGISTRATIONS: Final = "amends.registrations"
"""The type of the run that keeps what was sealed, which no program may use; and its event."""

_ID_CHARS: Final = 26  # 130 bits
_KEY_DIGEST_BYTES: Final = 20  # 160 bits, 32 characters
_LENGTH_BYTES: Final = 4
_KEY: Final = re.compile(r"am1_[a-z2-7]{32}", re.ASCII)


class IdentityError(ValueError):
    """A part of an identity cannot be used.

    Attributes:
        what: which part, e.g. ``target``.
        reason: what is wrong and what to do.
    """

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(what, reason)
        self.what = what
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.what} {self.reason}"


def idempotency_key(
    *, tenant: str, action: str, target: str, lineage: str, occurrence: str = "", revision: int = 0
) -> str:
    """The key that every attempt of one logical action carries: 36 ASCII characters.

    Args:
        tenant: whose action it is; 1 to 128 characters.
        action: the action type's name; 1 to 128 characters.
        target: what is changed; 1 to 512 characters, see ``TargetTemplate``.
        lineage: the root of the intent's lineage, so that a newer intent version keeps it; 1 to 128.
        occurrence: set by a program that says "again, on purpose"; up to 128 characters, default none.
        revision: how many corrected requests came before, each after proof that nothing happened.

    Raises:
        IdentityError: a part is empty, too long or not Unicode.
    """
    if type(revision) is not int or not 0 <= revision <= REVISION_MAX:
        raise IdentityError("revision", f"must be an int from 0 to {REVISION_MAX}")
    return _key(
        "amends key 1",
        _checked("tenant", tenant, TENANT_CHARS_MAX),
        _checked("action", action, ACTION_CHARS_MAX),
        _checked("target", target, TARGET_CHARS_MAX),
        _checked("lineage", lineage, LINEAGE_CHARS_MAX),
        _checked("occurrence", occurrence, OCCURRENCE_CHARS_MAX, chars_min=0),
        str(revision).encode(),
    )


def part_key(key: str, part: str) -> str:
    """The key of a second call inside the operation that owns ``key``; same form, another value.

    Raises:
        IdentityError: ``key`` is not one of ours, or ``part`` is empty or longer than 128 characters.
    """
    return _key("amends part key 1", _checked_key(key), _checked("part", part, PART_CHARS_MAX))


def operation_id(key: str) -> str:
    """The operation's id, ``op_`` and 26 characters: it follows from the key, so both stay together.

    Raises:
        IdentityError: ``key`` is not one of ours.
    """
    return _id("op_", "amends operation id 1", _checked_key(key))


def operation_of(text: str) -> str:
    """The operation that ``text``, if it is a key of ours, belongs to; empty for other text."""
    try:
        return operation_id(text)
    except IdentityError:
        return ""


def run_id(tenant: str, event: str) -> str:
    """The id of the run that handles a business event, ``run_`` and 26 characters.

    Raises:
        IdentityError: a part is empty, too long or not Unicode.
    """
    return _id("run_", "amends run id 1", *_tenant_and_event(tenant, event))


def intent_id(tenant: str, event: str) -> str:
    """The id of the intent that a business event gives rise to, ``int_`` and 26 characters.

    Raises:
        IdentityError: a part is empty, too long or not Unicode.
    """
    return _id("int_", "amends intent id 1", *_tenant_and_event(tenant, event))


def _tenant_and_event(tenant: str, event: str) -> tuple[bytes, bytes]:
    return _checked("tenant", tenant, TENANT_CHARS_MAX), _checked("event", event, EVENT_CHARS_MAX)


def _key(label: str, *parts: bytes) -> str:
    return f"am1_{_base32(_framed_hash(label, parts)[:_KEY_DIGEST_BYTES])}"


def _id(prefix: str, label: str, *parts: bytes) -> str:
    return f"{prefix}{_base32(_framed_hash(label, parts))[:_ID_CHARS]}"


def _framed_hash(label: str, parts: tuple[bytes, ...]) -> bytes:
    framed = sha256()
    for part in (label.encode(), *parts):
        framed.update(len(part).to_bytes(_LENGTH_BYTES, "big"))
        framed.update(part)
    return framed.digest()


_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"
_PAIRS: Final = tuple(first + second for first in _ALPHABET for second in _ALPHABET)
"""Base 32 (RFC 4648), ten bits at a time: the library's encoder takes longer than the hash that it spells."""


def _base32(data: bytes) -> str:
    """``data`` in lower case and without padding."""
    chars = (8 * len(data) + 4) // 5
    bits = 10 * ((chars + 1) // 2)
    number = int.from_bytes(data, "big") << (bits - 8 * len(data))
    return "".join([_PAIRS[number >> place & 1023] for place in range(bits - 10, -1, -10)])[:chars]


def _checked(what: str, text: object, chars_max: int, *, chars_min: int = 1) -> bytes:
    if type(text) is not str:
        raise IdentityError(what, f"must be a plain str, not {type(text).__name__}")
    if len(text) < chars_min:
        raise IdentityError(what, "is empty; without it unrelated actions would share one key")
    if len(text) > chars_max:
        raise IdentityError(what, f"has {len(text)} characters; at most {chars_max} are taken")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise IdentityError(what, f"has a lone surrogate at character {error.start}; repair it") from None


def _checked_key(key: object) -> bytes:
    if type(key) is not str or not _KEY.fullmatch(key):
        raise IdentityError("key", "is not an idempotency key of this release (am1_ and 32 characters)")
    return key.encode()


# --- targets -----------------------------------------------------------------------------------------

_SEPARATOR: Final = re.compile(r"[:/#|]")
_FIELD: Final = re.compile(r"\{([^{}]*)\}")

# Fixed ranges rather than str.isprintable(), which follows the Unicode version of the interpreter and
# would give one action two keys across two of them: separators and percent signs, braces, white space,
# C0 and C1 controls, and what is invisible or changes direction (Default_Ignorable_Code_Point).
_ESCAPED: Final = re.compile(
    r"[:/#|%{}\x00-\x20\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f"
    r"\u2028-\u202f\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


@dataclass(frozen=True, slots=True)
class TargetTemplate:
    """A pattern such as ``crm:{record}:{field}`` that names what an action changes.

    Args:
        text: literal text and ``{name}`` fields, 1 to 512 characters. A field is a bare parameter name:
            no attribute, index, format or conversion. Two fields have one of ``: / # |`` between them.
            Without fields the target is constant.

    Attributes:
        fields: the names, in order of appearance.

    Raises:
        IdentityError: the template is malformed; ``what`` is ``target template``.

    >>> TargetTemplate("crm:{record}:{field}").render({"record": "a:b", "field": 7})
    'crm:a%3Ab:7'
    """

    text: str
    fields: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _checked("target template", self.text, TARGET_CHARS_MAX)
        pieces = _FIELD.split(self.text)  # literal, name, literal, name, …, literal
        names = tuple(pieces[1::2])
        _check_literals(pieces[::2])
        _check_names(names)
        object.__setattr__(self, "fields", names)

    def check(self, parameter_names: Iterable[str]) -> tuple[str, ...]:
        """The fields that are not among ``parameter_names``, in order; empty when all are known."""
        known = frozenset(parameter_names)
        return tuple(name for name in self.fields if name not in known)

    def render(self, arguments: Mapping[str, object]) -> str:
        """The target for ``arguments``; arguments that the template does not name are left out.

        Raises:
            IdentityError: a field is missing, empty or neither str nor int, or the target exceeds 512
                characters.
        """
        unknown = self.check(arguments)
        if unknown:
            raise IdentityError("target", f"needs the argument {unknown[0]!r}, which was not given")
        target = _FIELD.sub(lambda match: _escaped(match[1], arguments[match[1]]), self.text)
        _checked("target", target, TARGET_CHARS_MAX)
        return target


def _check_literals(literals: list[str]) -> None:
    for literal in literals:
        found = _ESCAPED.search(_SEPARATOR.sub("", literal))
        if found and found[0] in "{}":
            raise _malformed(f"has a brace without a partner at {literal[:40]!r}; a field is {{name}}")
        if found:
            raise _malformed(f"has {found[0]!a} outside a field; use visible characters, no space and no '%'")
    for border in literals[1:-1]:
        if not _SEPARATOR.search(border):
            raise _malformed(
                f"has two fields with {border[:40]!r} between them; put one of : / # | there, "
                f"or two different argument sets could give one target"
            )


def _check_names(names: tuple[str, ...]) -> None:
    for name in names:
        if not (name.isascii() and name.isidentifier()):
            raise _malformed(
                f"has the field {name[:40]!r}; a field is the bare name of a parameter, "
                f"without attribute, index, format or conversion"
            )
    if len(set(names)) != len(names):
        raise _malformed("names a field twice; once is enough")


def _malformed(reason: str) -> IdentityError:
    return IdentityError("target template", reason)


def _escaped(name: str, value: object) -> str:
    if type(value) is int and value.bit_length() <= TARGET_CHARS_MAX:
        return str(value)
    if type(value) is not str:
        kind = "a huge int" if type(value) is int else type(value).__name__
        raise IdentityError("target", f"takes a plain str or int for {name!r}, not {kind}; pass the id")
    _checked(f"target field {name!r}", value, TARGET_CHARS_MAX)
    return _ESCAPED.sub(_percent_encoded, value)


def _percent_encoded(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode())
