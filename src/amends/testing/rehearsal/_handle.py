"""A test's handle on one destination: where to send, what to count, what to break.

It holds addresses only, so any process can hold one; whoever owns the processes is the world's business.
"""

from dataclasses import asdict, dataclass
from typing import Any

from amends.testing.rehearsal._client import HOST, call


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The ports of one destination and its fault proxy. The two SMTP ports are 0 except for mail.

    `proxy_port` carries HTTP, and for mail SMTP; lookups of mail go to `http_port` directly.
    """

    name: str
    http_port: int
    proxy_port: int
    proxy_control_port: int
    smtp_port: int = 0


class RehearsalDestination:
    """One rehearsed service behind its fault proxy.

    All calls are synchronous, bounded, and safe from several processes at once.
    """

    def __init__(self, addresses: Addresses) -> None:
        self.addresses = addresses
        self.name: str = addresses.name

    @property
    def url(self) -> str:
        """Base URL for the tool under test: through the fault proxy (for mail, the lookup side: direct)."""
        return self.direct_url if self.addresses.smtp_port else f"http://{HOST}:{self.addresses.proxy_port}"

    @property
    def direct_url(self) -> str:
        """Base URL past the proxy."""
        return f"http://{HOST}:{self.addresses.http_port}"

    @property
    def smtp_address(self) -> tuple[str, int]:
        """Host and port of SMTP through the fault proxy (mail only)."""
        return self._smtp(self.addresses.proxy_port)

    @property
    def direct_smtp_address(self) -> tuple[str, int]:
        """Host and port of SMTP past the proxy (mail only)."""
        return self._smtp(self.addresses.smtp_port)

    def effects(self, **filters: str) -> dict[str, int]:
        """Count effects in the destination's own store, e.g. `effects(order="18431")["refunds"]`.

        A kind of effect that lacks one of the filters is left out of the answer.
        """
        answer: dict[str, int] = self._control("GET", "/effects", query=filters)["effects"]
        return answer

    def arrivals(self, **filters: str) -> list[dict[str, Any]]:
        """Mutating requests that reached the destination, oldest first; filters: key, path, method, account."""
        answer: list[dict[str, Any]] = self._control("GET", "/arrivals", query=filters)["arrivals"]
        return answer

    def control(self, **knobs: Any) -> dict[str, Any]:
        """Set knobs and seeds; returns all knobs. An unknown name raises ControlRefusedError."""
        answer: dict[str, Any] = self._control("POST", "/control", knobs)["knobs"]
        return answer

    def now_ms(self) -> int:
        """The destination's clock."""
        return int(self._control("GET", "/control")["now_ms"])

    def advance_clock(self, ms: int) -> int:
        """Move the destination's clock forward; returns its new time."""
        return int(self._control("POST", "/advance_clock", {"ms": ms})["now_ms"])

    def wait_held_inside(self, count: int = 1, *, wait_ms: int = 5_000) -> int:
        """Wait until the destination itself holds `count` mutations (knob `hold_times`); returns how many."""
        query = {"count": str(count), "wait_ms": str(wait_ms)}
        return int(self._control("GET", "/held", query=query)["held"])

    def release_inside(self) -> list[int]:
        """Let mutations held inside the destination go on, and wait until they have been executed."""
        answer: list[int] = self._control("POST", "/release", {})["released"]
        return answer

    def fault(self, mode: str, **options: Any) -> dict[str, Any]:
        """Arm a fault at the proxy: times, after, delay_ms, hold, methods, path, client, answer."""
        answer: dict[str, Any] = self._proxy("POST", "/fault", {"mode": mode, **options})
        return answer

    def disarm(self) -> None:
        """Forget armed faults and listen again after refuse_connect; what is held stays held."""
        self._proxy("DELETE", "/fault")

    def wait_held(self, count: int = 1, *, wait_ms: int = 5_000) -> int:
        """Wait until the proxy holds at least `count` requests; returns how many it holds."""
        return int(self._proxy("GET", "/held", query={"count": str(count), "wait_ms": str(wait_ms)})["held"])

    def release(self) -> list[dict[str, Any]]:
        """Let held requests go on and wait until they are through; returns their log entries."""
        answer: list[dict[str, Any]] = self._proxy("POST", "/release")["released"]
        return answer

    def proxy_log(self) -> list[dict[str, Any]]:
        """What the proxy did with each request, oldest first: the ground truth."""
        answer: list[dict[str, Any]] = self._proxy("GET", "/log")["log"]
        return answer

    def proxy_state(self) -> dict[str, Any]:
        """Armed rules, held requests, and whether the proxy listens."""
        answer: dict[str, Any] = self._proxy("GET", "/state")
        return answer

    def reset(self) -> None:
        """Forget all records, knobs, faults, logs and held requests, at the proxy and then at the destination."""
        self._proxy("POST", "/reset")
        self._control("POST", "/reset", {})

    def describe(self) -> dict[str, Any]:
        """The addresses as JSON."""
        return asdict(self.addresses)

    def _smtp(self, port: int) -> tuple[str, int]:
        if not self.addresses.smtp_port:
            raise LookupError(f"{self.name!r} has no SMTP side; only 'mail' has")
        return HOST, port

    def _control(self, method: str, path: str, body: object = None, query: dict[str, str] | None = None) -> Any:
        return call(self.addresses.http_port, method, f"/_rehearsal{path}", body, query)

    def _proxy(self, method: str, path: str, body: object = None, query: dict[str, str] | None = None) -> Any:
        return call(self.addresses.proxy_control_port, method, path, body, query)
