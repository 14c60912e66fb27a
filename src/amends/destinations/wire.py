"""A request, checked before anything is sent.

What an effect passes may come from a model: a header value with a line break would be a second header,
``..`` in a path another endpoint, and a key of one's own the end of the fence. Each is refused here, with
``ValueError``, while it is certain that nothing has left.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlencode, urlsplit

BODY_BYTES_MAX: Final = 1024 * 1024
"""A request is an action somebody may have to read."""

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""The methods that change nothing (RFC 9110, 9.2.1)."""

_METHOD: Final = re.compile(r"[A-Z]{1,20}", re.ASCII)
_PATH: Final = re.compile(r"/[!-~]*", re.ASCII)
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)
_HEADER_VALUE: Final = re.compile(r"[\t -~]{0,8192}", re.ASCII)
_OURS: Final = frozenset(
    {
        "accept-encoding", "connection", "content-length", "expect", "host", "if-match", "if-none-match",
        "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A request that may be sent: ``url`` with its query, ``headers`` with lower-case names."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes

    @property
    def changes_things(self) -> bool:
        """Whether it is more than a read."""
        return self.method not in SAFE


def outgoing(
    base_url: str,
    method: str,
    path: str,
    *,
    body: Any,
    form: Mapping[str, str] | None,
    params: Mapping[str, str] | None,
    headers: Mapping[str, str],
    ours: Mapping[str, str],
) -> Outgoing:
    """The request, or ``ValueError``. ``ours`` are the headers only the client itself may set."""
    if not _METHOD.fullmatch(method):
        raise ValueError(f"the method is {method[:40]!r}; write it in capitals, e.g. 'POST'")
    content, kind = _content(body, form)
    taken = {name.lower() for name in ours} | _OURS
    merged = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "amends"}
    merged |= {"content-type": kind} if kind else {}
    for name, value in checked_headers(headers).items():
        if name in taken:
            raise ValueError(f"the header {name!r} is set by the client itself; leave it out")
        merged[name] = value
    merged |= checked_headers(ours)
    query = f"?{urlencode(params)}" if params else ""
    return Outgoing(method=method, url=base_url + _checked_path(path) + query, headers=merged, content=content)


def checked_base_url(base_url: str) -> str:
    """``base_url`` without a closing slash.

    Raises:
        ValueError: it is no plain http or https address, or it carries a password or a query.
    """
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"the base URL {base_url[:100]!r} is no http or https address")
    if parts.username is not None or parts.password is not None:
        raise ValueError("the base URL carries a name or password; put it into a header instead")
    if parts.query or parts.fragment:
        raise ValueError(f"the base URL {base_url[:100]!r} has a query or fragment; pass params with the request")
    return base_url.rstrip("/")


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """``headers`` with lower-case names.

    Raises:
        ValueError: a name or value cannot stand in a header. The value itself is not shown.
    """
    checked: dict[str, str] = {}
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{name[:40]!r} is no header name")
        if not _HEADER_VALUE.fullmatch(value):
            raise ValueError(f"the value of the header {name!r} is too long or not plain visible ASCII on one line")
        if name.lower() in checked:
            raise ValueError(f"the header {name!r} is given twice")
        checked[name.lower()] = value.strip(" \t")
    return checked


def _checked_path(path: str) -> str:
    if not _PATH.fullmatch(path) or path.startswith("//"):
        raise ValueError(f"the path {path[:100]!r} must begin with one '/' and be percent-encoded ASCII")
    if set(path) & set("?#\\"):
        raise ValueError(f"the path {path[:100]!r} has a query, fragment or backslash; pass params instead")
    if any(unquote(segment) in (".", "..") for segment in path.split("/")):
        raise ValueError(f"the path {path[:100]!r} climbs; an id in it must be percent-encoded and no dot segment")
    return path


def _content(body: Any, form: Mapping[str, str] | None) -> tuple[bytes, str]:
    if body is not None and form is not None:
        raise ValueError("both body and form are given; a request has one of them")
    if body is not None:
        content, kind = _as_json(body), "application/json"
    elif form is not None:
        content, kind = urlencode(form).encode(), "application/x-www-form-urlencoded"
    else:
        content, kind = b"", ""
    if len(content) > BODY_BYTES_MAX:
        raise ValueError(f"the request has {len(content)} bytes; at most {BODY_BYTES_MAX} are sent")
    return content, kind


def _as_json(body: Any) -> bytes:
    try:
        plain = dict(body) if isinstance(body, Mapping) else body
        return json.dumps(plain, allow_nan=False, separators=(",", ":"), ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the body is not JSON ({type(error).__name__}); pass text, whole numbers, lists") from error
