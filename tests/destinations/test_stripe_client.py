"""The official Stripe client, as Amends sets it: a request arrives once, with our key; its errors are told apart.

A client left as the vendor ships it is tried too: the same server then counts more than one arrival.
"""

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import stripe as vendor
from counting import REFUSALS_ARE_JSON, Counting, counting
from scripted import KEY, ScriptedCall

from amends.core.failures import Ambiguous, CallEnded, Interval, NotSent, Rejected
from amends.core.identity import part_key
from amends.destinations import stripe
from amends.ports.destination import NEVER_LEFT, really_sent

pytestmark = [
    pytest.mark.requirement("R23"),
    pytest.mark.filterwarnings("ignore:Use 'content=<...>':DeprecationWarning"),  # the vendor's, about its own httpx
]
PARAMS: Any = {"amount": 100, "currency": "usd", "source": "tok_visa", "metadata": {"key": KEY}}
CHARGE = b'{"id": "ch_1", "object": "charge"}'
FAILURES = [
    {"drop": True},
    {"status": 500, "body": REFUSALS_ARE_JSON},
    {"status": 503, "body": REFUSALS_ARE_JSON},
    {"status": 409, "body": REFUSALS_ARE_JSON},
    {"status": 409, "body": REFUSALS_ARE_JSON, "headers": {"Stripe-Should-Retry": "true"}},
    {"status": 307, "headers": {"location": "/v1/elsewhere"}, "body": b""},
]
failing = pytest.mark.parametrize("how", FAILURES, ids=str)


@pytest.fixture(autouse=True)
def _global_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The vendor's settings of the process, put back afterwards, and no pause between its own retries."""
    monkeypatch.setattr(vendor, "enable_telemetry", True)
    monkeypatch.setattr(vendor.HTTPClient, "_sleep_time_seconds", lambda *_: 0.0)


def charge(server: Counting, call: ScriptedCall) -> Any:
    with stripe.sending(call, "POST /v1/charges") as options:
        return stripe.client("sk_test_1", base_url=server.url).v1.charges.create(PARAMS, options)


async def charge_async(server: Counting, call: ScriptedCall) -> Any:
    client = stripe.client("sk_test_1", base_url=server.url)
    with stripe.sending(call, "POST /v1/charges") as options:
        return await client.v1.charges.create_async(PARAMS, options)


def sync(server: Counting, call: ScriptedCall) -> Any:
    return charge(server, call)


def in_a_loop(server: Counting, call: ScriptedCall) -> Any:
    return asyncio.run(charge_async(server, call))


either = pytest.mark.parametrize("make", [sync, in_a_loop])
Make = Callable[[Counting, ScriptedCall], Any]


@either
@failing
def test_a_failing_request_arrives_once_with_our_key_and_nobody_knows(make: Make, how: dict[str, Any]) -> None:
    with counting(**how) as server:
        with pytest.raises(Ambiguous):
            make(server, ScriptedCall())
        assert server.header("idempotency-key") == [KEY]


@pytest.mark.parametrize("how", FAILURES[:4], ids=str)
def test_left_as_shipped_the_client_repeats_the_request_by_itself(
    how: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with counting(**how) as server:
        monkeypatch.setattr(vendor, "api_base", server.url)
        with pytest.raises(vendor.StripeError):
            vendor.Charge.create(**PARAMS, api_key="sk_test_1")
        assert len(server.arrivals) == 1 + vendor.max_network_retries > 1
        assert len(set(server.header("idempotency-key"))) == 1
        assert KEY not in server.header("idempotency-key"), "and it made a key of its own"


def test_a_client_of_the_vendor_without_our_key_makes_one() -> None:
    with counting(body=CHARGE) as server:
        vendor.StripeClient("sk_test_1", base_addresses={"api": server.url}).v1.charges.create(PARAMS)
        [minted] = server.header("idempotency-key")
        assert minted not in (None, KEY)


@either
def test_the_second_request_of_an_attempt_has_a_key_of_its_own(make: Make) -> None:
    with counting(body=CHARGE) as server:
        call = ScriptedCall()
        for _ in range(2):
            assert make(server, call).id == "ch_1"
        assert server.header("idempotency-key") == [KEY, part_key(KEY, "send 2")]


def test_a_request_reports_nothing_about_the_one_before() -> None:
    with counting(body=CHARGE, headers={"request-id": "req_1"}) as server:
        client = stripe.client("sk_test_1", base_url=server.url)
        for _ in range(2):
            client.v1.charges.create(PARAMS)
        assert server.header("x-stripe-client-telemetry") == [None, None]
        vendor.enable_telemetry = True
        client.v1.charges.create(PARAMS)
        client.v1.charges.create(PARAMS)
        assert server.header("x-stripe-client-telemetry")[-1], "what the setting turns off"


def test_a_call_outside_of_sending_is_not_repeated_either() -> None:
    with counting(drop=True) as server:
        with pytest.raises(vendor.APIConnectionError):
            stripe.client("sk_test_1", base_url=server.url).v1.charges.create(PARAMS)
        assert len(server.arrivals) == 1


def test_the_environment_sends_the_request_nowhere_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login someone password else\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with counting(body=CHARGE) as server:
        charge(server, ScriptedCall())
        assert server.header("authorization") == ["Bearer sk_test_1"]


@either
@pytest.mark.requirement("R17")
def test_a_refused_connection_never_left(make: Make) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        call = ScriptedCall()
        with pytest.raises(NotSent) as caught:
            make(Counting(port=taken.getsockname()[1]), call)
    assert caught.value.interval is Interval.CONNECT
    assert call.sends == [NEVER_LEFT + "POST /v1/charges"]


@pytest.mark.requirement("R17", "G1")
def test_a_spent_budget_sends_nothing() -> None:
    with counting(body=CHARGE) as server:
        with pytest.raises(NotSent):
            charge(server, ScriptedCall(left_s=lambda: 0.0))
        assert server.arrivals == []


def body(type_: str, code: str = "") -> bytes:
    return f'{{"error": {{"message": "no", "type": "{type_}", "code": "{code}"}}}}'.encode()


@either
@pytest.mark.requirement("R17", "C04", "F14")
@pytest.mark.parametrize(
    ("status", "answer", "kind", "facts"),
    [
        (400, body("invalid_request_error", "parameter_missing"), Rejected, {"retryable": False}),
        (400, body("idempotency_error"), Rejected, {"code": "key_conflict"}),
        (400, body("invalid_request_error", "rate_limit"), Rejected, {"retryable": True}),
        (401, body("invalid_request_error"), Rejected, {"retryable": False}),
        (402, body("card_error", "card_declined"), Rejected, {"retryable": False, "code": None}),
        (403, body("invalid_request_error"), Rejected, {"retryable": False}),
        (404, body("invalid_request_error", "resource_missing"), Rejected, {"retryable": False}),
        (409, body("invalid_request_error", "idempotency_key_in_use"), Ambiguous, {"code": "key_in_progress"}),
        (429, body("invalid_request_error", "lock_timeout"), Rejected, {"retryable": True, "retry_after_s": 3.0}),
        (500, body("api_error"), Ambiguous, {"status": 500}),
        (502, b"<html>", Ambiguous, {"status": 502}),
        (200, b"<html>", Ambiguous, {"status": 200}),
    ],
)
def test_what_each_answer_means(make: Make, status: int, answer: bytes, kind: type[CallEnded], facts: Any) -> None:
    with counting(status=status, body=answer, headers={"retry-after": "3"}) as server:
        with pytest.raises(CallEnded) as caught:
            make(server, ScriptedCall())
        assert len(server.arrivals) == 1
    assert type(caught.value) is kind
    assert {name: getattr(caught.value, name) for name in facts} == facts
    assert "no" not in str(caught.value).split(), "the vendor's text is not passed on"


@pytest.mark.parametrize("how", [{"drop": True}, {"status": 500, "body": REFUSALS_ARE_JSON}], ids=str)
def test_a_read_that_fails_is_sent_once_without_a_key_and_is_not_remembered(how: dict[str, Any]) -> None:
    with counting(**how) as server:
        call = ScriptedCall()
        with pytest.raises(Ambiguous), stripe.reading(call) as options:
            stripe.client("sk_test_1", base_url=server.url).v1.charges.list({"limit": 1}, options)
        assert (server.header("idempotency-key"), call.sends) == ([None], [])
        call = ScriptedCall(sends=["POST /first"])
        with pytest.raises(Ambiguous), stripe.reading(call) as options:
            stripe.client("sk_test_1", base_url=server.url).v1.charges.list({"limit": 1}, options)
        assert (len(call.sends), really_sent(call.sends)) == (2, ["POST /first"])


def test_a_client_without_a_key_never_sent() -> None:
    assert isinstance(stripe.classify(vendor.AuthenticationError("No API key provided.")), NotSent)


def test_every_class_of_error_has_been_thought_about() -> None:
    found = {kind.__name__ for kind in every_subclass(vendor.StripeError)}
    assert found, "the vendor moved its errors"
    assert found <= stripe.KNOWN_ERRORS, f"new in stripe {vendor.VERSION}: {sorted(found - stripe.KNOWN_ERRORS)}"


@pytest.mark.parametrize("kind", sorted(set(stripe.KNOWN_ERRORS)))
@pytest.mark.parametrize("status", [None, 500])
def test_no_error_without_a_telling_answer_passes_for_a_refusal(kind: str, status: int | None) -> None:
    error = type(kind, (vendor.StripeError,), {})("said", http_status=status)
    end = stripe.classify(error)
    allowed: tuple[type[CallEnded], ...] = (Ambiguous,)
    if kind == "AuthenticationError" and status is None:
        allowed = (NotSent,)
    if kind == "IdempotencyError" and status is not None:
        allowed = (Rejected,)
    assert isinstance(end, allowed)


def every_subclass(kind: type[Any]) -> Iterator[type[Any]]:
    import stripe.oauth_error  # noqa: F401 — a module that is loaded late

    for child in kind.__subclasses__():
        if child.__module__.startswith("stripe"):
            yield child
            yield from every_subclass(child)
