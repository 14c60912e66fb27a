"""The HTTP client that turns a destination's contract into behaviour.

It sends the operation's key, checks the budget immediately before the send and enforces it as the total
time-out, and says how a call ended: never left, rejected, or unknown. It never retries and never follows
a redirect by itself: a repeat is decided by the ledger, or not at all.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from amends.core.contract import Contract
from amends.core.failures import Ambiguous, Interval, NotSent, Rejected

ANSWER_BYTES_MAX = 1024 * 1024
"""An answer is evidence that people read; more than a megabyte is a document."""

_REFUSED_FOR_NOW = frozenset({425, 429})
_SAYS_NOTHING = frozenset({408})


class Sending(Protocol):
    """What the client needs of a call."""

    @property
    def key(self) -> str:
        """The idempotency key."""
        ...

    @property
    def remaining_s(self) -> float:
        """Seconds of the budget that are left."""
        ...

    def check_budget(self) -> None:
        """Raises ``NotSent`` when the budget is spent."""
        ...

    def about_to_send(self, what: str) -> None:
        """The same before a request that changes things, which it remembers."""
        ...


class HttpDestination:
    """One destination under ``base_url`` with the promises of ``contract``."""

    def __init__(self, base_url: str, contract: Contract, *, headers: Mapping[str, str] | None = None) -> None:
        self._base_url, self.contract, self._headers = base_url.rstrip("/"), contract, dict(headers or {})

    async def post(self, call: Sending, path: str, body: Mapping[str, Any]) -> Any:
        """Send ``body`` as JSON with the key; the decoded answer of a 2xx.

        Raises:
            NotSent: nothing left. Rejected: refused, surely. Ambiguous: nobody knows.
        """
        headers = dict(self._headers)
        if self.contract.idempotency_header:
            headers[self.contract.idempotency_header] = call.key
        return await self._send(call, "POST", path, headers=headers, json=dict(body))

    async def get(self, call: Sending, path: str, **params: str) -> Any:
        """Read ``path``; the decoded answer of a 2xx. Raises like ``post``."""
        return await self._send(call, "GET", path, headers=self._headers, params=params)

    async def _send(self, call: Sending, method: str, path: str, **request: Any) -> Any:
        import httpx  # noqa: PLC0415 — heavy, and only needed once something is sent

        try:
            async with httpx.AsyncClient(base_url=self._base_url, follow_redirects=False, trust_env=False) as client:
                if method == "GET":
                    call.check_budget()
                else:
                    call.about_to_send(f"{method} {path}")
                response = await client.request(method, path, timeout=max(call.remaining_s, 0.001), **request)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol) as error:
            raise NotSent(f"could not connect: {type(error).__name__}", interval=Interval.CONNECT) from error
        except httpx.HTTPError as error:
            raise Ambiguous(f"the connection ended without an answer: {type(error).__name__}") from error
        if len(response.content) > ANSWER_BYTES_MAX:
            raise Ambiguous(f"the answer has {len(response.content)} bytes", status=response.status_code)
        if response.is_success:
            return response.json()
        raise self._refusal(response.status_code, _error_code(response), _retry_after_s(response))

    def _refusal(self, status: int, code: str, retry_after_s: float | None) -> Exception:
        facts: dict[str, Any] = {"status": status, "retry_after_s": retry_after_s}
        said = f"the destination answered {status}"
        if _says(self.contract.key_in_progress, status, code):
            return Ambiguous(f"{said}: the first request still runs", code="key_in_progress", **facts)
        if _says(self.contract.key_conflict, status, code):
            return Rejected(f"{said}: this key had other parameters", code="key_conflict", **facts)
        if status in _REFUSED_FOR_NOW:
            return Rejected(said, retryable=True, **facts)
        if 400 <= status < 500 and status not in _SAYS_NOTHING:
            return Rejected(said, **facts)
        return Ambiguous(said, **facts)


def _says(signs: tuple[tuple[int, str], ...], status: int, code: str) -> bool:
    return any(status == at and wanted in ("", code) for at, wanted in signs)


def _error_code(response: Any) -> str:
    try:
        error = response.json().get("error", {})
        return str(error.get("code") or error.get("type") or "")
    except (ValueError, AttributeError):
        return ""


def _retry_after_s(response: Any) -> float | None:
    try:
        seconds = float(response.headers.get("Retry-After", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
