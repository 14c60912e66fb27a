"""What an answer says about the world: done, refused, or nobody knows.

A status is believed as a refusal only where it must mean that nothing was done. 408, 409 and every 5xx
can also come when the work was done, or is being done by an earlier request; so can a redirect, and an
answer that cannot be read. What an endpoint means by 409, "already exists" or a 3xx is in its contract.
"""

import json
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final

from amends.core.contract import Contract, Mechanism
from amends.core.failures import Ambiguous, CallEnded, Rejected
from amends.ports.destination import Reply

RETRY_AFTER_S_MAX: Final = 86_400.0
"""A destination that asks for more than a day is asked again after one."""

_REFUSED_FOR_NOW: Final = frozenset({425, 429})
_SAYS_NOTHING: Final = frozenset({408, 409, 460, 499})  # 460 and 499: a gateway's word that its client left
_CODE_CHARS_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One whole answer. ``create`` says the request was conditional on there being nothing yet."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    changes_things: bool
    create: bool = False


def reply(contract: Contract, answer: Answer, *, now: Callable[[], float] = time.time) -> Reply:
    """The reply in ``answer``.

    Raises:
        Rejected: the destination surely did nothing.
        Ambiguous: the effect may have happened.
    """
    if 200 <= answer.status < 300 or (answer.status == 304 and not answer.changes_things):
        return Reply(status=answer.status, body=_body(answer), etag=answer.headers.get("etag"), headers=answer.headers)
    raise ended(
        contract,
        answer.status,
        error_codes(contract, answer.content),
        retry_after_s=retry_after_s(answer.headers, now),
        create=answer.create,
    )


def retry_after_s(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """``Retry-After`` in seconds from 0 to a day, from its number or date; ``None`` where it says nothing.

    A date is compared with the answer's own ``Date``, so that the two clocks need not agree.
    """
    said = headers.get("retry-after", "").strip()
    if said.isascii() and said.isdecimal():
        return min(float(said[:9]), RETRY_AFTER_S_MAX)
    until = _instant(said)
    if until is None:
        return None
    answered = _instant(headers.get("date", ""))
    return min(max(0.0, until - (now() if answered is None else answered)), RETRY_AFTER_S_MAX)


def _instant(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp() if date else None
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _body(answer: Answer) -> Any:
    if not answer.content or answer.status == 304:
        return None
    try:
        return _decoded(answer.content)
    except ValueError as error:
        said = f"the destination answered {answer.status} with {len(answer.content)} bytes that are not JSON"
        raise Ambiguous(said, status=answer.status, code="answer_unreadable") from error


def _decoded(content: bytes) -> Any:
    try:
        return json.loads(content, parse_constant=_no_json)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _no_json(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def ended(
    contract: Contract,
    status: int,
    codes: Collection[str] = (),
    *,
    retry_after_s: float | None = None,
    create: bool = False,
) -> CallEnded:
    """The end that an answer other than a success means; also for an SDK's exception that carries its facts.

    Args:
        contract: what the endpoint means by its answers.
        status: the HTTP status.
        codes: the machine's words in the answer.
        retry_after_s: how long the destination asks to be left alone.
        create: the request was conditional on there being nothing yet.
    """
    facts: dict[str, Any] = {"status": status, "retry_after_s": retry_after_s}
    said = f"the destination answered {status}"
    if contract.mechanism is Mechanism.IDEMPOTENCY_KEY:
        if _says(contract.key_in_progress, status, codes):
            return Ambiguous(f"{said}: the first request still runs", code="key_in_progress", **facts)
        if _says(contract.key_conflict, status, codes):
            return Rejected(f"{said}: this key had other parameters", code="key_conflict", **facts)
    if _says(contract.already_exists, status, codes) or (create and status == 412):
        return Ambiguous(f"{said}: there is one already, ours or another's", code="already_exists", **facts)
    if _says(contract.precondition_failed, status, codes):
        return Rejected(f"{said}: the version is another one", code="precondition_failed", **facts)
    if status in _REFUSED_FOR_NOW or _says(contract.refused_for_now, status, codes):
        return Rejected(said, retryable=True, **facts)
    if _says(contract.refused, status, codes) or (400 <= status < 500 and status not in _SAYS_NOTHING):
        return Rejected(said, **facts)
    if 300 <= status < 400:
        return Ambiguous(f"{said}: a redirect, which is never followed", code="redirect", **facts)
    return Ambiguous(said, **facts)


def _says(signs: tuple[tuple[int, str], ...], status: int, codes: Collection[str]) -> bool:
    return any(status == at and (wanted == "" or wanted in codes) for at, wanted in signs)


def error_codes(contract: Contract, content: bytes) -> frozenset[str]:
    """The machine's words in an error answer. They are compared and never shown."""
    try:
        error = _decoded(content)
    except ValueError:
        return frozenset()
    found = (_at(error, path.split(".")) for path in contract.error_code_at)
    # Some of Amazon's services write "namespace#Code".
    return frozenset(word.rpartition("#")[2][:_CODE_CHARS_MAX] for word in found if isinstance(word, str) and word)


def _at(value: Any, path: list[str]) -> Any:
    for name in path:
        if isinstance(value, list):
            value = value[int(name)] if name.isdecimal() and int(name) < len(value) else None
        else:
            value = value.get(name) if isinstance(value, dict) else None
    return value
