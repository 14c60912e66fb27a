"""Conditional requests of RFC 9110 §13: strong entity tags, If-Match, If-None-Match.

An unconditional write is refused with 428, because the destinations rehearse compare-and-set. The RFC lets a server
answer 2xx to a false If-Match when the change appears to be applied already; the knob `already_applied` turns that on,
since a client must cope with both.
"""

from collections.abc import Mapping
from typing import Final

from amends.testing.rehearsal._knobs import Knob
from amends.testing.rehearsal._wire import Answer, Call, error

CONDITION_KNOBS: Final[Mapping[str, Knob]] = {"already_applied": Knob(False)}


def etag(version: int) -> str:
    """A strong entity tag for a version number."""
    return f'"{version}"'


def check_write(call: Call, version: int | None) -> Answer | None:
    """Refuse a write whose condition is missing (428) or false (412); None lets it proceed.

    `version` is that of the current representation, None when there is none.
    """
    match, none_match = call.headers.get("if-match"), call.headers.get("if-none-match")
    if match is None and none_match is None:
        return error(428, "precondition_required", "send If-Match, or If-None-Match: * to create")
    if none_match is not None:
        if none_match.strip() != "*":
            return error(400, "parameter_invalid", "only If-None-Match: * is supported")
        if version is not None:
            return stale(version)
    return check_match(call, version) if match is not None else None


def check_match(call: Call, version: int | None) -> Answer | None:
    """Refuse with 412 when If-Match is present and no listed tag is the current one (strong comparison)."""
    match = call.headers.get("if-match")
    if match is None:
        return None
    tags = {tag.strip() for tag in match.split(",")}
    if version is not None and ("*" in tags or etag(version) in tags):
        return None
    return stale(version)


def stale(version: int | None) -> Answer:
    """412 with the current tag, so that a client can see what it lost against."""
    headers = {} if version is None else {"ETag": etag(version)}
    refusal = error(412, "precondition_failed", f"the current version is {version!r}")
    return Answer(412, refusal.body, headers)
