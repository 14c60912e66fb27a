"""How each end of a request is told: never left, rejected, or nobody knows. Arrivals are counted at the server."""

import asyncio
import json
import logging
import socket
import ssl
import time
from typing import Any

import httpx
import pytest
from scripted import KEY, Act, Scripted, ScriptedCall, answering, dropped, silent

from amends.core.contract import Contract, Mechanism
from amends.core.failures import Ambiguous, CallEnded, Interval, NotSent, Rejected
from amends.core.identity import part_key
from amends.destinations import http
from amends.destinations.http import HttpDestination
from amends.ports.destination import NEVER_LEFT, Destination, Reply, really_sent

KEYED = Contract(
    name="keyed",
    mechanism=Mechanism.IDEMPOTENCY_KEY,
    idempotency_header="Idempotency-Key",
    key_retention_s=3600,
    key_in_progress=((409, "in_progress"),),
)
PLAIN = Contract(name="plain")


async def ended(
    server: Scripted, contract: Contract = KEYED, *, call: ScriptedCall | None = None, **request: Any
) -> CallEnded:
    """Send one POST that does not succeed; how it ended."""
    with pytest.raises(CallEnded) as caught:
        await server.destination(contract).request(call or ScriptedCall(), "POST", "/things", body={"a": 1}, **request)
    return caught.value


@pytest.mark.requirement("R23", "C06")
async def test_the_key_goes_with_every_request_that_changes_things_and_with_no_read() -> None:
    methods = ("POST", "PUT", "PATCH", "DELETE", "GET", "HEAD")
    async with Scripted(answering(200, b"", keep=False)) as server:
        destination: Destination = server.destination(KEYED, headers={"Authorization": "Bearer s3cret"})
        for method in methods:
            await destination.request(ScriptedCall(), method, "/things")
        keys = [arrival.headers.get("idempotency-key") for arrival in server.arrivals]
        assert keys == [KEY, KEY, KEY, KEY, None, None]
        assert {arrival.headers["authorization"] for arrival in server.arrivals} == {"Bearer s3cret"}


async def test_a_reply_carries_status_body_etag_and_lower_case_headers() -> None:
    act = answering(201, b'{"id": "x"}', ETag='"v7"', X_Two="b")
    async with Scripted(act) as server:
        reply = await server.destination(KEYED).request(ScriptedCall(), "POST", "/things", body={"n": 1})
    assert (reply.status, reply.body, reply.etag, reply.headers["x-two"]) == (201, {"id": "x"}, '"v7"', "b")
    assert "id" not in repr(reply)
    assert json.loads(server.arrivals[0].body) == {"n": 1}


async def test_post_and_get_give_the_decoded_body_as_before() -> None:
    async with Scripted(answering(200, b'{"id": 1}'), answering(200, b"[]")) as server:
        destination = server.destination(KEYED)
        assert await destination.post(ScriptedCall(), "/things", {"a": "b"}) == {"id": 1}
        assert await destination.get(ScriptedCall(), "/things", key="a b&c") == []
    assert server.arrivals[1].target == "/things?key=a+b%26c"


async def test_a_form_is_sent_as_a_form() -> None:
    async with Scripted(answering(204, b"")) as server:
        reply = await server.destination(KEYED).request(
            ScriptedCall(), "POST", "/things", form={"amount": "85", "metadata[key]": "ü&"}
        )
    assert reply == Reply(status=204, headers=reply.headers)
    assert server.arrivals[0].body == b"amount=85&metadata%5Bkey%5D=%C3%BC%26"
    assert server.arrivals[0].headers["content-type"] == "application/x-www-form-urlencoded"


@pytest.mark.requirement("R17", "R23", "F14")
@pytest.mark.parametrize(
    ("act", "kind", "facts"),
    [
        (answering(400), Rejected, {"status": 400, "retryable": False}),
        (answering(402), Rejected, {"status": 402, "retryable": False}),
        (answering(403, b"<html>"), Rejected, {"status": 403, "retryable": False}),
        (answering(404), Rejected, {"status": 404}),
        (answering(412), Rejected, {"status": 412, "code": "precondition_failed"}),
        (answering(422), Rejected, {"status": 422, "code": "key_conflict"}),
        (answering(425), Rejected, {"retryable": True}),
        (answering(429, Retry_After="7"), Rejected, {"retryable": True, "retry_after_s": 7.0}),
        (answering(408), Ambiguous, {"status": 408}),
        (answering(409), Ambiguous, {"status": 409}),
        (answering(409, b'{"error": {"code": "in_progress"}}'), Ambiguous, {"code": "key_in_progress"}),
        (answering(460), Ambiguous, {}),
        (answering(499), Ambiguous, {}),
        (answering(500), Ambiguous, {"status": 500}),
        (answering(503, Retry_After="9"), Ambiguous, {"status": 503, "retry_after_s": 9.0}),
        (answering(301, Location="/other"), Ambiguous, {"status": 301, "code": "redirect"}),
        (answering(307, Location="/other"), Ambiguous, {"status": 307, "code": "redirect"}),
        (answering(304), Ambiguous, {"status": 304}),
        (answering(200, b"<html>done</html>"), Ambiguous, {"status": 200, "code": "answer_unreadable"}),
        (answering(200, b'{"a": NaN}'), Ambiguous, {"code": "answer_unreadable"}),
        (answering(200, b"[" * 200_000), Ambiguous, {"code": "answer_unreadable"}),
        (answering(200, b"\xff\xfe"), Ambiguous, {"code": "answer_unreadable"}),
        (answering(200, b"x", Content_Encoding="gzip"), Ambiguous, {"code": "answer_unreadable"}),
        (answering(200, b'{"a": 1', length=100), Ambiguous, {"status": 200}),
        (answering(402, b'{"a": 1', length=100), Ambiguous, {"status": 402}),
        (dropped, Ambiguous, {"status": None}),
    ],
)
async def test_how_an_answer_ends_the_call_and_that_it_arrived_once(
    act: Act, kind: type[CallEnded], facts: dict[str, Any]
) -> None:
    async with Scripted(act) as server:
        end = await ended(server)
    assert type(end) is kind
    assert {name: getattr(end, name) for name in facts} == facts
    assert len(server.arrivals) == 1, "nothing is repeated and no redirect followed"


@pytest.mark.requirement("R23")
@pytest.mark.parametrize(
    ("declared", "act", "kind", "code"),
    [
        ({"refused": ((409, ""),)}, answering(409), Rejected, None),
        ({"refused": ((409, "busy"),)}, answering(409, b'{"error": {"code": "other"}}'), Ambiguous, None),
        ({"refused": ((303, ""),)}, answering(303), Rejected, None),
        ({"refused": ((503, "shed"),)}, answering(503, b'{"error": {"type": "shed"}}'), Rejected, None),
        (
            {"already_exists": ((409, "AlreadyExists"),), "error_code_at": ("reason",)},
            answering(409, b'{"reason": "AlreadyExists"}'),
            Ambiguous,
            "already_exists",
        ),
        (
            {"precondition_failed": ((409, "Conflict"),), "error_code_at": ("reason",)},
            answering(409, b'{"reason": "Conflict"}'),
            Rejected,
            "precondition_failed",
        ),
        (
            {"already_exists": ((422, "already_exists"),), "error_code_at": ("errors.0.code",)},
            answering(422, b'{"errors": [{"code": "already_exists"}]}'),
            Ambiguous,
            "already_exists",
        ),
        ({}, answering(422), Rejected, None),
    ],
)
async def test_an_endpoint_may_say_what_its_answers_mean(
    declared: dict[str, Any], act: Act, kind: type[CallEnded], code: str | None
) -> None:
    async with Scripted(act) as server:
        end = await ended(server, PLAIN.with_(**declared))
    assert (type(end), end.code) == (kind, code)


async def test_create_only_if_absent_meets_something_that_may_be_ours() -> None:
    async with Scripted(answering(412)) as server:
        end = await ended(server, PLAIN, if_none_match="*")
    assert (type(end), end.code) == (Ambiguous, "already_exists")
    assert server.arrivals[0].headers["if-none-match"] == "*"


async def test_a_version_is_passed_as_the_destination_wrote_it_and_another_one_is_a_refusal() -> None:
    async with Scripted(answering(412)) as server:
        end = await ended(server, PLAIN, if_match='"v7"')
    assert (type(end), end.code) == (Rejected, "precondition_failed")
    assert server.arrivals[0].headers["if-match"] == '"v7"'


async def test_a_conditional_read_that_finds_nothing_new_is_a_reply() -> None:
    async with Scripted(answering(304, b"")) as server:
        reply = await server.destination(PLAIN).request(ScriptedCall(), "GET", "/a", if_none_match='"v7"')
    assert (reply.status, reply.body) == (304, None)


@pytest.mark.requirement("R17")
async def test_a_refused_connection_never_left() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        destination = HttpDestination(f"http://127.0.0.1:{taken.getsockname()[1]}", KEYED)
        call = ScriptedCall()
        with pytest.raises(NotSent) as caught:
            await destination.post(call, "/things", {})
    assert caught.value.interval is Interval.CONNECT
    assert (call.sends, really_sent(call.sends)) == ([NEVER_LEFT + "POST /things"], [])


@pytest.mark.requirement("R17")
async def test_a_server_whose_certificate_is_not_trusted_is_sent_nothing(tmp_path: Any) -> None:
    async with Scripted(answering(200), tls=self_signed(tmp_path)) as server:
        end = await ended(server)
    assert (type(end), end.interval, server.arrivals) == (NotSent, Interval.CONNECT, [])


@pytest.mark.requirement("R17")
async def test_a_connection_that_is_never_finished_ends_in_the_connect_interval() -> None:
    async with Silence() as silence:  # accepts, and never answers the TLS greeting
        spent = 0.2
        destination = HttpDestination(f"https://127.0.0.1:{silence.port}", KEYED)
        with pytest.raises(NotSent) as caught:
            await destination.post(ScriptedCall(left_s=lambda: spent), "/things", {})
    assert caught.value.interval is Interval.CONNECT


@pytest.mark.requirement("R17", "E07", "B13")
async def test_silence_after_the_send_is_unknown_in_the_execution_interval_and_ends_with_the_budget() -> None:
    async with Scripted(silent) as server:
        call = ScriptedCall(left_s=lambda: 0.2)
        end = await ended(server, call=call)
    assert (type(end), end.interval, len(server.arrivals)) == (Ambiguous, Interval.EXECUTION, 1)
    assert call.sends == ["POST /things"]


@pytest.mark.requirement("R17")
async def test_an_answer_that_drips_for_ever_ends_with_the_budget_though_each_read_is_quick() -> None:
    async def dripping(peer: Any) -> bool:
        await peer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        while True:
            await peer.write(b" ")
            await asyncio.sleep(0.005)

    async with Scripted(dripping) as server:
        end = await ended(server, call=ScriptedCall(left_s=lambda: 0.2))
    assert (type(end), end.interval, end.status) == (Ambiguous, Interval.EXECUTION, 200)


@pytest.mark.requirement("R17")
async def test_an_endless_answer_is_cut_at_the_limit_while_it_is_read() -> None:
    sent = 0

    async def endless(peer: Any) -> bool:
        nonlocal sent
        await peer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            await peer.write(b" " * 65536)
            sent += 65536

    async with Scripted(endless) as server:
        end = await ended(server)
        assert (type(end), end.code, end.status) == (Ambiguous, "answer_too_large", 200)
    assert sent < 64 * http.ANSWER_BYTES_MAX


async def test_an_answer_of_exactly_the_limit_is_taken() -> None:
    content = b'"' + b"a" * (http.ANSWER_BYTES_MAX - 2) + b'"'
    async with Scripted(answering(200, content)) as server:
        assert len(await server.destination(KEYED).get(ScriptedCall(), "/a")) == http.ANSWER_BYTES_MAX - 2


@pytest.mark.requirement("R17", "G1")
async def test_a_budget_that_is_spent_before_the_send_sends_nothing() -> None:
    async with Scripted(answering(200)) as server:
        call = ScriptedCall(left_s=lambda: 0.0)
        end = await ended(server, call=call)
    assert (type(end), end.interval, server.connections, call.sends) == (
        NotSent,
        Interval.QUEUE,
        0,
        [NEVER_LEFT + "POST /things"],
    )


@pytest.mark.requirement("R17", "G1")
async def test_a_budget_that_was_spent_while_connecting_sends_nothing() -> None:
    """The process stood still between its first check and the send: the clock is read once more."""
    looks = iter([30.0, 30.0])  # the check, the time-out; every later look finds nothing left
    async with Scripted(answering(200)) as server:
        call = ScriptedCall(left_s=lambda: next(looks, 0.0))
        end = await ended(server, call=call)
    assert (type(end), end.interval, server.arrivals) == (NotSent, Interval.CONNECT, [])
    assert really_sent(call.sends) == []


async def test_connections_are_reused() -> None:
    async with Scripted(answering(200, keep=True)) as server:
        destination = server.destination(KEYED)
        for _ in range(3):
            await destination.post(ScriptedCall(), "/things", {})
        await destination.aclose()
        assert (len(server.arrivals), server.connections) == (3, 1)
        await destination.post(ScriptedCall(), "/things", {})
        await destination.aclose()
        assert server.connections == 2


@pytest.mark.requirement("R17", "R23", "G3")
async def test_a_kept_connection_that_ends_under_a_request_is_unknown_and_not_tried_on_another() -> None:
    async with Scripted(answering(200, keep=True), dropped) as server:
        destination = server.destination(KEYED)
        await destination.post(ScriptedCall(), "/things", {})
        with pytest.raises(Ambiguous):
            await destination.post(ScriptedCall(), "/things", {})
        await destination.aclose()
    assert [arrival.connection for arrival in server.arrivals] == [1, 1]


@pytest.mark.requirement("R17")
async def test_a_kept_connection_that_ended_before_is_not_used() -> None:
    closed = asyncio.Event()

    async def answer_then_close(peer: Any) -> bool:
        await answering(200)(peer)
        peer.writer.close()
        await peer.writer.wait_closed()
        closed.set()
        return False

    async with Scripted(answer_then_close, answering(200)) as server:
        destination = server.destination(KEYED)
        await destination.post(ScriptedCall(), "/things", {})
        await closed.wait()
        await asyncio.sleep(0)
        await destination.post(ScriptedCall(), "/things", {})
        await destination.aclose()
    assert [arrival.connection for arrival in server.arrivals] == [1, 2]


async def test_cookies_are_not_kept_between_calls() -> None:
    async with Scripted(answering(200, keep=True, Set_Cookie="session=abc")) as server:
        destination = server.destination(KEYED)
        for _ in range(2):
            await destination.get(ScriptedCall(), "/things")
        await destination.aclose()
    assert all("cookie" not in arrival.headers for arrival in server.arrivals)


def test_each_event_loop_has_its_own_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    destination = HttpDestination(f"http://127.0.0.1:{port}", KEYED)

    async def once() -> int:
        async with Scripted(answering(200, keep=True), port=port) as server:
            await destination.get(ScriptedCall(), "/things")
            await destination.aclose()
            return len(server.arrivals)

    assert [asyncio.run(once()) for _ in range(2)] == [1, 1]


@pytest.mark.requirement("R23", "C10")
async def test_each_further_send_of_an_attempt_has_a_key_of_its_own_and_the_same_one_in_the_next_attempt() -> None:
    async with Scripted(answering(200)) as server:
        destination = server.destination(KEYED)
        for _ in range(2):
            call = ScriptedCall()
            await destination.post(call, "/charges", {})
            await destination.get(call, "/charges")
            await destination.post(call, "/transfers", {})
            await destination.post(call, "/transfers", {})
        keys = [arrival.headers["idempotency-key"] for arrival in server.arrivals if arrival.method == "POST"]
    assert keys == [KEY, part_key(KEY, "send 2"), part_key(KEY, "send 3")] * 2
    assert len(set(keys)) == 3


@pytest.mark.requirement("R23", "C10")
async def test_requests_sent_at_once_in_one_attempt_never_share_a_key() -> None:
    async with Scripted(answering(200)) as server:
        destination, call = server.destination(KEYED), ScriptedCall()
        await asyncio.gather(*[destination.post(call, f"/{n}", {}) for n in range(5)])
        assert len({arrival.headers["idempotency-key"] for arrival in server.arrivals}) == 5


@pytest.mark.requirement("R23", "C07")
async def test_a_request_that_never_left_gives_its_key_to_its_repeat() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nowhere = HttpDestination(f"http://127.0.0.1:{taken.getsockname()[1]}", KEYED)
        call = ScriptedCall()
        with pytest.raises(NotSent):
            await nowhere.post(call, "/charges", {})
    async with Scripted(answering(200)) as server:
        await server.destination(KEYED).post(call, "/charges", {})
        assert server.arrivals[0].headers["idempotency-key"] == KEY


@pytest.mark.requirement("R17", "G3")
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("then", ["refused", "no budget", "not to be sent", "no connection"])
async def test_no_end_of_a_later_request_passes_for_the_end_of_the_attempt(method: str, then: str) -> None:
    """The driver takes a refusal at its word only while ``sends`` has one entry."""
    acts = [answering(200)] if then == "no connection" else [answering(200), answering(404)]
    left = {"s": 30.0}
    call = ScriptedCall(left_s=lambda: left["s"])
    async with Scripted(*acts) as server:
        destination = server.destination(KEYED)
        await destination.post(call, "/first", {})
        if then != "no connection":
            left["s"] = 0.0 if then == "no budget" else 30.0
            path = "/../second" if then == "not to be sent" else "/second"
            with pytest.raises((NotSent, Rejected)):
                await destination.request(call, method, path)
    if then == "no connection":
        with pytest.raises(NotSent):
            await destination.request(call, method, "/second")
    assert len(call.sends) == 2
    assert len(really_sent(call.sends)) == (2 if (method, then) == ("POST", "refused") else 1)


async def test_a_read_that_fails_leaves_no_trace_where_nothing_was_sent_before() -> None:
    async with Scripted(answering(404)) as server:
        call = ScriptedCall()
        with pytest.raises(Rejected):
            await server.destination(KEYED).get(call, "/a")
    assert call.sends == []


@pytest.mark.requirement("R23", "C07")
@pytest.mark.parametrize(
    "request_",
    [
        {"headers": {"idempotency-KEY": "mine"}},
        {"headers": {"X-A": "a\r\nX-B: b"}},
        {"headers": {"X-A": "a\nb"}},
        {"headers": {"X-A": "a\0b"}},
        {"headers": {"X-A": "naïve"}},
        {"headers": {"X A": "b"}},
        {"headers": {"X-A:": "b"}},
        {"headers": {"Content-Length": "0"}},
        {"headers": {"Transfer-Encoding": "chunked"}},
        {"headers": {"Host": "elsewhere"}},
        {"if_match": '"v"\r\nX: y'},
        {"path": "things"},
        {"path": "//elsewhere/things"},
        {"path": "https://elsewhere/things"},
        {"path": "/things?a=b"},
        {"path": "/things#a"},
        {"path": "/things/../admin"},
        {"path": "/things/%2e%2E/admin"},
        {"path": "/things/.."},
        {"path": "/a b"},
        {"path": "/ü"},
        {"path": "/a\r\nX: y"},
        {"path": "/a\\b"},
        {"method": "post"},
        {"method": "POST /x"},
        {"body": {"a": float("nan")}},
        {"body": {"a": object()}},
        {"body": {"a": 1}, "form": {"a": "1"}},
        {"body": {"a": "x" * 1_100_000}},
    ],
)
async def test_a_request_that_must_not_be_sent_is_refused_before_anything_is_done(request_: dict[str, Any]) -> None:
    async with Scripted(answering(200)) as server:
        values = {"method": "POST", "path": "/things", **request_}
        call = ScriptedCall()
        with pytest.raises(NotSent) as caught:
            await server.destination(KEYED).request(call, **values)
    assert (caught.value.code, server.connections, really_sent(call.sends)) == ("request_refused", 0, [])


@pytest.mark.parametrize(
    ("base_url", "options"),
    [
        ("ftp://a", {}),
        ("a.example", {}),
        ("http://", {}),
        ("https://user:pass@a.example", {}),
        ("https://a.example?x=1", {}),
        ("https://a.example", {"headers": {"X": "a\r\nb"}}),
        ("https://a.example", {"headers": {"X": "ä"}}),
    ],
)
def test_a_destination_that_cannot_work_is_refused_at_once(base_url: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError) as caught:
        HttpDestination(base_url, KEYED, **options)
    assert "pass@" not in str(caught.value)


def test_a_contract_whose_keys_are_shorter_than_ours_is_refused_at_once() -> None:
    HttpDestination("https://a.example", KEYED.with_(key_chars_max=36))
    HttpDestination("https://a.example", PLAIN.with_(key_chars_max=8))
    with pytest.raises(ValueError, match="35"):
        HttpDestination("https://a.example", KEYED.with_(key_chars_max=35))


@pytest.mark.parametrize("check_hostname", [True, False])
def test_a_tls_context_that_does_not_verify_is_refused(check_hostname: bool) -> None:
    context = ssl.create_default_context()
    if check_hostname:
        HttpDestination("https://a.example", KEYED, tls=context)
    context.check_hostname = False
    with pytest.raises(ValueError, match="verify"):
        HttpDestination("https://a.example", KEYED, tls=context)


@pytest.mark.requirement("G12", "G06")
async def test_no_body_header_key_or_query_is_logged_or_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with Scripted(
        answering(200, b'{"canary": "in-answer"}'), answering(402, b'{"canary": "in-refusal"}')
    ) as server:
        destination = server.destination(KEYED, headers={"Authorization": "canary-token"})
        reply = await destination.request(
            ScriptedCall(), "POST", "/a", body={"a": "canary-body"}, params={"q": "canary-query"}
        )
        with pytest.raises(Rejected) as caught:
            await destination.post(ScriptedCall(), "/a", {"a": "canary-body"})
    shown = caplog.text + repr(destination) + repr(reply) + str(caught.value) + repr(caught.value)
    assert "canary" not in shown
    assert KEY not in shown


async def test_the_environment_cannot_send_the_request_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with Scripted(answering(200)) as server:
        await server.destination(KEYED).post(ScriptedCall(), "/things", {})
        assert len(server.arrivals) == 1


def test_every_failure_the_transport_may_raise_is_one_this_client_translates() -> None:
    from httpx._transports.default import _load_httpcore_exceptions

    raised = set(_load_httpcore_exceptions().values())
    assert raised
    assert all(issubclass(error, httpx.HTTPError) for error in raised)


async def test_the_events_that_mark_the_border_are_there() -> None:
    """The border between never-left and unknown hangs on two names in the transport."""
    seen: list[str] = []

    async def trace(event: str, _: Any) -> None:
        seen.append(event)

    async with Scripted(answering(200)) as server, httpx.AsyncClient(trust_env=False) as client:
        await client.post(server.url, content=b"x", extensions={"trace": trace})
    names = [
        "connection.connect_tcp.started",
        "http11.send_request_headers.started",
        "http11.send_request_body.started",
    ]
    assert [event for event in seen if event in names] == names


class Silence:
    """Accepts connections and never says a word."""

    async def __aenter__(self) -> "Silence":
        self._done = asyncio.Event()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def _accept(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._done.wait()
        writer.close()

    async def __aexit__(self, *_: object) -> None:
        self._done.set()
        self._server.close()
        await self._server.wait_closed()


def self_signed(directory: Any) -> ssl.SSLContext:
    """A server context with a certificate nobody vouches for."""
    from datetime import UTC, datetime, timedelta
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.fromtimestamp(time.time(), UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    certificate = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (directory / "server.pem").write_bytes(secret + certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.pem")
    return context
