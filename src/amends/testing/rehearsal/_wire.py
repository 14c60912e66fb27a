"""What crosses the boundary of a rehearsal destination: a parsed call and an answer.

Endpoint functions are plain synchronous functions from (connection, call, knobs) to an answer, run inside one
SQLite transaction. They know nothing of HTTP, so the same machinery serves the SMTP side of the mail sink.
A refusal is an answer, never an exception: whether it is remembered under an idempotency key depends on its status.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

BODY_BYTES_MAX: Final = 64 * 1024
"""A request body: every rehearsal object is a few hundred bytes."""

KEY_CHARS_MAX: Final = 255
"""Stripe's limit on an idempotency key."""

TEXT_CHARS_MAX: Final = 2_000
"""One text field of a record."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request as the destination understands it; `arrival` is its row in the arrivals log (0 for a read)."""

    method: str
    path: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Json = field(default_factory=dict)
    account: str = "anonymous"
    key: str | None = None
    now_ms: int = 0
    arrival: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the destination says: a status, a JSON body and extra headers."""

    status: int
    body: Json
    headers: Mapping[str, str] = field(default_factory=dict)


def error(status: int, code: str, message: str, *, kind: str = "invalid_request_error") -> Answer:
    """A refusal in the shape Stripe uses; the other destinations share it so that tests read alike."""
    return Answer(status, {"error": {"type": kind, "code": code, "message": message}})


def account_of(authorization: str | None) -> str:
    """The creator's name: a rehearsal bearer token *is* the account name."""
    scheme, _, name = (authorization or "").partition(" ")
    return name.strip() if scheme.lower() == "bearer" and name.strip() else "anonymous"


def text(body: Mapping[str, Any], name: str, *, required: bool = True) -> str | Answer:
    """A bounded text field, or the refusal that explains what is wrong with it."""
    value = body.get(name, "" if not required else None)
    if isinstance(value, str) and len(value) <= TEXT_CHARS_MAX and (value or not required):
        return value
    return error(400, "parameter_invalid", f"{name} must be text of at most {TEXT_CHARS_MAX} characters")


def whole(body: Mapping[str, Any], name: str, *, least: int, most: int) -> int | Answer:
    """A bounded whole number; a bool, a float or a numeral in quotes is refused as real services do."""
    value = body.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    return error(400, "parameter_invalid", f"{name} must be a whole number from {least} to {most}")


def unknown_fields(given: Mapping[str, Any], known: frozenset[str]) -> Answer | None:
    """Refuse what the endpoint does not know: a misspelt field must not pass for an absent one."""
    extra = sorted(set(given) - known)
    return error(400, "parameter_unknown", f"unknown parameters: {extra!r}") if extra else None
