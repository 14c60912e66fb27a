"""Each fault of the proxy, and what it leaves at the destination, over real processes."""

import contextlib
import json
import select
import socket
import threading
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from amends.testing.rehearsal.world import ControlRefusedError, RehearsalDestination, World

DESTINATIONS = ("payments",)
pytestmark = pytest.mark.requirement("R56")
BODY = {"amount": 8500, "currency": "usd", "order": "18431"}


@pytest.fixture
def payments(world: World) -> RehearsalDestination:
    return world.payments


def charge(http: httpx.Client, payments: RehearsalDestination, key: str | None = None) -> httpx.Response:
    headers = {"Idempotency-Key": key} if key else {}
    return http.post(f"{payments.url}/v1/charges", json=BODY, headers=headers)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault, what the client sees, and the effects: at once, after release, after a retry without a key.

    A client that sees a TimeoutError sees silence; the test shows that without waiting for a time-out.
    """

    mode: str
    sees: type[Exception] | None
    effects: tuple[int, int, int]
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return "-".join([self.mode, *[str(value) for value in self.options.values() if isinstance(value, str)]])


FAULTS = [
    Fault(mode="refuse", sees=httpx.TransportError, effects=(0, 0, 1)),
    Fault(mode="refuse_connect", sees=httpx.ConnectError, effects=(0, 0, 1)),
    Fault(mode="drop_request", sees=httpx.RemoteProtocolError, effects=(0, 0, 1)),
    Fault(mode="drop_response", sees=httpx.RemoteProtocolError, effects=(1, 1, 2)),
    Fault(mode="cut", sees=httpx.RemoteProtocolError, effects=(1, 1, 2)),
    Fault(mode="hang", sees=TimeoutError, effects=(1, 1, 2)),
    Fault(mode="late", sees=httpx.RemoteProtocolError, effects=(0, 1, 2), options={"hold": True}),
    Fault(mode="late", sees=TimeoutError, effects=(0, 1, 2), options={"hold": True, "client": "hang"}),
    Fault(mode="duplicate", sees=None, effects=(2, 2, 3)),
    Fault(mode="latency", sees=None, effects=(1, 1, 2), options={"delay_ms": 0}),
]


def provoke(http: httpx.Client, payments: RehearsalDestination, fault: Fault, key: str | None) -> None:
    """Send one charge under the fault and see what its client sees."""
    payments.fault(fault.mode, **fault.options)
    if fault.sees is None:
        assert charge(http, payments, key).status_code == 200
    elif fault.sees is TimeoutError:
        charge_and_give_up(payments, key)
    else:
        with pytest.raises(fault.sees):
            charge(http, payments, key)


def charge_and_give_up(payments: RehearsalDestination, key: str | None) -> None:
    """Send, see the proxy hold the request and say nothing, and leave."""
    with connect(payments) as client:
        client.sendall(raw_charge(key))
        assert payments.wait_held() == 1
        assert select.select([client], [], [], 0)[0] == []


def connect(payments: RehearsalDestination) -> socket.socket:
    return socket.create_connection(("127.0.0.1", payments.addresses.proxy_port), timeout=5)


def raw_charge(key: str | None = None) -> bytes:
    body = json.dumps(BODY)
    named = f"Idempotency-Key: {key}\r\n" if key else ""
    return f"POST /v1/charges HTTP/1.1\r\nHost: x\r\n{named}Content-Length: {len(body)}\r\n\r\n{body}".encode()


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_fault_without_a_key(http: httpx.Client, payments: RehearsalDestination, fault: Fault) -> None:
    at_once, after_release, after_retry = fault.effects
    provoke(http, payments, fault, None)
    assert payments.effects(order="18431")["charges"] == at_once
    payments.release()
    assert payments.effects(order="18431")["charges"] == after_release
    payments.disarm()
    assert charge(http, payments).status_code == 200
    assert payments.effects(order="18431")["charges"] == after_retry


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_fault_with_a_key_always_ends_at_one_effect(
    http: httpx.Client, payments: RehearsalDestination, fault: Fault
) -> None:
    provoke(http, payments, fault, "k1")
    assert payments.effects(key="k1")["charges"] == min(fault.effects[0], 1)
    payments.release()
    payments.disarm()
    assert charge(http, payments, "k1").status_code == 200
    assert payments.effects(key="k1")["charges"] == 1


@pytest.mark.parametrize(
    ("mode", "statuses", "answered"),
    [
        ("refuse", [], False),
        ("drop_request", [], False),
        ("drop_response", [200], False),
        ("cut", [200], False),
        ("duplicate", [200, 200], True),
    ],
)
def test_log_tells_what_really_happened(
    http: httpx.Client, payments: RehearsalDestination, mode: str, statuses: list[int], answered: bool
) -> None:
    payments.fault(mode)
    with contextlib.suppress(httpx.TransportError):
        charge(http, payments, "k1")
    (entry,) = payments.proxy_log()
    assert (entry["mode"], entry["forwarded"], entry["upstream_statuses"]) == (
        mode,
        len(statuses),
        statuses,
    )
    assert entry["upstream_status"] == (statuses[-1] if statuses else None)
    assert entry["answered"] is answered
    if mode != "refuse":
        assert (entry["method"], entry["path"], entry["key"]) == ("POST", "/v1/charges", "k1")


def test_unfaulted_requests_pass_unchanged_and_are_logged(http: httpx.Client, payments: RehearsalDestination) -> None:
    made = charge(http, payments, "k1")
    again = charge(http, payments, "k1")
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json() == made.json()
    through = http.get(f"{payments.url}/v1/charges", params={"order": "18431"})
    direct = http.get(f"{payments.direct_url}/v1/charges", params={"order": "18431"})
    assert through.json() == direct.json()
    assert [(entry["method"], entry["mode"], entry["answered"]) for entry in payments.proxy_log()] == [
        ("POST", "none", True),
        ("POST", "none", True),
        ("GET", "none", True),
    ]


def test_late_request_commits_after_a_lookup_found_nothing(http: httpx.Client, payments: RehearsalDestination) -> None:
    payments.fault("late", hold=True)
    with pytest.raises(httpx.RemoteProtocolError):
        charge(http, payments, "k1")
    assert payments.wait_held() == 1
    assert http.get(f"{payments.url}/v1/charges?order=18431").json()["data"] == []
    (entry,) = payments.release()
    assert (entry["mode"], entry["upstream_status"], entry["answered"]) == ("late", 200, False)
    assert len(http.get(f"{payments.url}/v1/charges?order=18431").json()["data"]) == 1
    assert payments.release() == []


def test_released_hang_gives_the_answer_to_a_client_that_waited(
    http: httpx.Client, payments: RehearsalDestination
) -> None:
    payments.fault("hang")
    answers: list[httpx.Response] = []
    client = threading.Thread(target=lambda: answers.append(charge(http, payments, "k1")))
    client.start()
    assert payments.wait_held() == 1
    assert payments.effects()["charges"] == 1
    payments.release()
    client.join(5)
    assert answers[0].status_code == 200


def test_latency_can_be_held_instead_of_timed(http: httpx.Client, payments: RehearsalDestination) -> None:
    payments.fault("latency", hold=True)
    answers: list[httpx.Response] = []
    client = threading.Thread(target=lambda: answers.append(charge(http, payments)))
    client.start()
    assert payments.wait_held() == 1
    assert payments.effects()["charges"] == 0
    payments.release()
    client.join(5)
    assert answers[0].status_code == 200
    assert payments.effects()["charges"] == 1


@pytest.mark.parametrize(("answer", "replayed"), [("first", None), ("last", "true")])
def test_duplicate_gives_the_answer_that_was_chosen(
    http: httpx.Client, payments: RehearsalDestination, answer: str, replayed: str | None
) -> None:
    payments.fault("duplicate", answer=answer)
    assert charge(http, payments, "k1").headers.get("idempotent-replayed") == replayed


def test_cut_answer_shows_its_status_and_no_whole_body(payments: RehearsalDestination) -> None:
    payments.fault("cut")
    with connect(payments) as client:
        client.sendall(raw_charge())
        received = b"".join(iter(lambda: client.recv(65536), b""))
    head, _, part = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert 0 < len(part) < 100
    assert payments.effects()["charges"] == 1


def test_rules_count_requests_methods_and_paths(http: httpx.Client, payments: RehearsalDestination) -> None:
    payments.fault("drop_request", after=1, times=2, path="/v1/charges")
    assert charge(http, payments).status_code == 200
    assert http.get(f"{payments.url}/v1/charges").status_code == 200
    assert http.post(f"{payments.url}/v1/refunds", json={}).status_code == 400
    for _ in range(2):
        with pytest.raises(httpx.RemoteProtocolError):
            charge(http, payments)
    assert payments.proxy_state()["armed"] == []
    assert charge(http, payments).status_code == 200
    payments.fault("drop_response", methods=["get"])
    with pytest.raises(httpx.RemoteProtocolError):
        http.get(f"{payments.url}/v1/charges")


def test_several_rules_are_used_in_the_order_they_were_armed(
    http: httpx.Client, payments: RehearsalDestination
) -> None:
    payments.fault("drop_response")
    payments.fault("drop_request")
    for effects in (1, 1):
        with pytest.raises(httpx.RemoteProtocolError):
            charge(http, payments)
        assert payments.effects()["charges"] == effects
    assert [entry["mode"] for entry in payments.proxy_log()] == ["drop_response", "drop_request"]


def test_refused_connection_counts_and_a_closed_port_stays_closed_until_disarmed(
    http: httpx.Client, payments: RehearsalDestination
) -> None:
    payments.fault("refuse", times=2)
    for _ in range(2):
        with pytest.raises(httpx.TransportError):
            charge(http, payments)
    assert charge(http, payments).status_code == 200
    payments.fault("refuse_connect")
    assert payments.proxy_state()["listening"] is False
    for _ in range(2):
        with pytest.raises(httpx.ConnectError):
            charge(http, payments)
    payments.fault("none")
    assert charge(http, payments).status_code == 200


def test_reset_drops_what_is_held_unforwarded(http: httpx.Client, payments: RehearsalDestination) -> None:
    payments.fault("late", hold=True)
    with pytest.raises(httpx.RemoteProtocolError):
        charge(http, payments)
    payments.reset()
    assert payments.proxy_state() == {"armed": [], "held": [], "listening": True}
    assert payments.effects()["charges"] == 0
    assert payments.proxy_log() == []


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "explode"},
        {"mode": "cut", "times": 0},
        {"mode": "cut", "times": True},
        {"mode": "cut", "tmies": 2},
        {"mode": "late", "delay_ms": -1},
        {"mode": "late", "client": "shout"},
        {"mode": "cut", "methods": "POST"},
        {"mode": "cut", "path": 3},
    ],
)
def test_control_refuses_a_fault_it_does_not_understand(
    payments: RehearsalDestination, options: dict[str, Any]
) -> None:
    with pytest.raises(ControlRefusedError):
        payments.fault(**options)
    assert payments.proxy_state()["armed"] == []
