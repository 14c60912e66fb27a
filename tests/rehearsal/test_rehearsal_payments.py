"""The payment service keeps the rules of Stripe v1, over a real process and its own store."""

import threading
from typing import Any

import httpx
import pytest

from amends.testing.rehearsal.world import RehearsalDestination, World

DESTINATIONS = ("payments",)
DAY_MS = 24 * 3600 * 1000
pytestmark = pytest.mark.requirement("R23", "R56")


@pytest.fixture
def payments(world: World) -> RehearsalDestination:
    return world.payments


class Shop:
    """A client that speaks to the service directly."""

    def __init__(self, http: httpx.Client, payments: RehearsalDestination) -> None:
        self._http = http
        self._url = payments.direct_url

    def charge(self, key: str | None = None, account: str | None = None, **changes: Any) -> httpx.Response:
        return self.post("/v1/charges", {"amount": 8500, "currency": "usd", "order": "18431"} | changes, key, account)

    def refund(self, charge: str, key: str | None = None, **body: Any) -> httpx.Response:
        return self.post("/v1/refunds", {"charge": charge, **body}, key)

    def post(
        self, path: str, body: dict[str, Any], key: str | None = None, account: str | None = None
    ) -> httpx.Response:
        headers = {"Idempotency-Key": key} if key is not None else {}
        headers |= {"Authorization": f"Bearer {account}"} if account else {}
        return self._http.post(self._url + path, json=body, headers=headers)

    def get(self, path: str) -> httpx.Response:
        return self._http.get(self._url + path)


@pytest.fixture
def shop(http: httpx.Client, payments: RehearsalDestination) -> Shop:
    return Shop(http, payments)


def test_charge_carries_what_was_asked_and_who_asked(shop: Shop, payments: RehearsalDestination) -> None:
    made = shop.charge(account="agent-7", metadata={"operation": "op_1"}).json()
    assert (made["amount"], made["currency"], made["status"], made["order"]) == (8500, "usd", "succeeded", "18431")
    assert (made["account"], made["metadata"], made["object"]) == ("agent-7", {"operation": "op_1"}, "charge")
    assert abs(made["created"] - payments.now_ms()) < DAY_MS
    assert shop.get(f"/v1/charges/{made['id']}").json() == made
    assert shop.charge().json()["account"] == "anonymous"


def test_same_key_replays_the_stored_answer_and_makes_nothing(shop: Shop, payments: RehearsalDestination) -> None:
    first, second = shop.charge("k1"), shop.charge("k1")
    assert (first.status_code, second.status_code) == (200, 200)
    assert second.json() == first.json()
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert payments.effects(key="k1") == {"charges": 1, "refunds": 0}
    assert [(row["key"], row["path"], row["status"]) for row in payments.arrivals()] == [
        ("k1", "/v1/charges", 200),
        ("k1", "/v1/charges", 200),
    ]


def test_without_a_key_every_request_is_an_effect(shop: Shop, payments: RehearsalDestination) -> None:
    shop.charge()
    shop.charge()
    assert payments.effects(order="18431")["charges"] == 2


def test_same_key_with_other_parameters_is_refused(shop: Shop, payments: RehearsalDestination) -> None:
    shop.charge("k1")
    refused = shop.charge("k1", amount=8600)
    assert refused.status_code == 400
    assert refused.json()["error"]["type"] == "idempotency_error"
    assert payments.effects()["charges"] == 1


def test_same_key_at_another_endpoint_is_refused(shop: Shop, payments: RehearsalDestination) -> None:
    charge = shop.charge("k1").json()["id"]
    refused = shop.refund(charge, "k1")
    assert (refused.status_code, refused.json()["error"]["type"]) == (400, "idempotency_error")
    assert payments.effects()["refunds"] == 0


def test_keys_belong_to_an_account(shop: Shop, payments: RehearsalDestination) -> None:
    shop.charge("k1", account="a")
    shop.charge("k1", account="b")
    assert payments.effects()["charges"] == 2
    assert payments.effects(account="a")["charges"] == 1


def test_key_in_progress_is_a_conflict_until_the_first_is_done(shop: Shop, payments: RehearsalDestination) -> None:
    payments.control(hold_times=1)
    answers: list[httpx.Response] = []
    first = threading.Thread(target=lambda: answers.append(shop.charge("k1")))
    first.start()
    assert payments.wait_held_inside() == 1
    conflict = shop.charge("k1")
    assert (conflict.status_code, conflict.json()["error"]["code"]) == (409, "idempotency_key_in_use")
    assert conflict.json()["error"]["type"] == "invalid_request_error"
    assert payments.effects()["charges"] == 0
    payments.release_inside()
    first.join(5)
    assert answers[0].status_code == 200
    assert shop.charge("k1").headers["idempotent-replayed"] == "true"
    assert payments.effects()["charges"] == 1


@pytest.mark.parametrize("status", [402, 500])
def test_stored_error_is_replayed_and_never_becomes_a_success(
    shop: Shop, payments: RehearsalDestination, status: int
) -> None:
    payments.control(next_status=status)
    first, second = shop.charge("k1"), shop.charge("k1")
    assert (first.status_code, second.status_code) == (status, status)
    assert second.json() == first.json()
    assert second.headers["idempotent-replayed"] == "true"
    assert payments.effects()["charges"] == 0
    assert shop.charge("k2").status_code == 200


def test_stored_500_may_hide_an_effect(shop: Shop, payments: RehearsalDestination) -> None:
    payments.control(next_status=500, next_status_commits=True)
    assert (shop.charge("k1").status_code, shop.charge("k1").status_code) == (500, 500)
    assert payments.effects(key="k1")["charges"] == 1


@pytest.mark.parametrize("status", [403, 429, 503])
def test_status_given_before_execution_is_not_stored(shop: Shop, payments: RehearsalDestination, status: int) -> None:
    payments.control(next_status=status, next_status_times=2)
    assert [shop.charge("k1").status_code for _ in range(3)] == [status, status, 200]
    assert payments.effects()["charges"] == 1


def test_gateway_error_over_an_effect_leaves_the_true_answer_under_the_key(
    shop: Shop, payments: RehearsalDestination
) -> None:
    payments.control(next_status=502, next_status_commits=True)
    assert shop.charge("k1").status_code == 502
    again = shop.charge("k1")
    assert (again.status_code, again.headers["idempotent-replayed"]) == (200, "true")
    assert payments.effects()["charges"] == 1


def test_refused_parameters_are_not_stored_under_the_key(shop: Shop, payments: RehearsalDestination) -> None:
    assert shop.charge("k1", amount=0).status_code == 400
    assert shop.charge("k1").status_code == 200
    assert shop.refund("ch_none", "k2").status_code == 404
    charge = shop.charge().json()["id"]
    assert shop.refund(charge, "k2").status_code == 200


def test_expired_key_is_a_new_request_and_a_second_charge(shop: Shop, payments: RehearsalDestination) -> None:
    shop.charge("k1")
    payments.advance_clock(DAY_MS - 60_000)
    assert shop.charge("k1").headers["idempotent-replayed"] == "true"
    payments.advance_clock(60_000)
    assert "idempotent-replayed" not in shop.charge("k1").headers
    assert payments.effects(key="k1")["charges"] == 2
    assert shop.charge("k1").headers["idempotent-replayed"] == "true"


def test_key_retention_is_a_knob(shop: Shop, payments: RehearsalDestination) -> None:
    payments.control(key_retention_ms=1_000)
    shop.charge("k1")
    payments.advance_clock(1_000)
    shop.charge("k1", amount=1)
    assert payments.effects()["charges"] == 2


@pytest.mark.parametrize(("length", "status"), [(255, 200), (256, 400)])
def test_key_length_is_bounded(shop: Shop, length: int, status: int) -> None:
    assert shop.charge("k" * length).status_code == status


def test_keys_of_other_providers(shop: Shop, payments: RehearsalDestination) -> None:
    shop.charge("k1")
    payments.control(key_replay="refuse")
    assert shop.charge("k1").json()["error"]["code"] == "idempotency_key_duplicate"
    payments.control(key_replay="replay", key_mismatch="replay")
    assert shop.charge("k1", amount=1).json()["amount"] == 8500
    payments.control(keys_enabled=False)
    assert shop.charge("k1").status_code == 200
    assert payments.effects(key="k1")["charges"] == 2


def test_refunds_are_capped_at_the_charge(shop: Shop, payments: RehearsalDestination) -> None:
    charge = shop.charge().json()["id"]
    part = shop.refund(charge, amount=500).json()
    assert (part["amount"], part["charge"], part["status"], part["order"]) == (500, charge, "succeeded", "18431")
    assert shop.refund(charge, amount=8001).json()["error"]["code"] == "amount_too_large"
    assert shop.refund(charge).json()["amount"] == 8000
    assert shop.refund(charge, amount=1).json()["error"]["code"] == "charge_already_refunded"
    assert payments.effects(order="18431") == {"charges": 1, "refunds": 2}
    assert payments.effects(charge=charge) == {"refunds": 2}
    assert shop.get(f"/v1/charges/{charge}").json()["amount_refunded"] == 8500
    assert len(shop.get(f"/v1/refunds?charge={charge}").json()["data"]) == 2
    assert shop.get(f"/v1/refunds/{part['id']}").json() == part


def test_list_is_newest_first_and_paged_to_the_end(shop: Shop) -> None:
    made = [shop.charge(amount=n).json()["id"] for n in range(1, 13)]
    shop.charge(order="other")
    first = shop.get("/v1/charges?order=18431").json()
    assert (first["object"], first["has_more"]) == ("list", True)
    assert [charge["id"] for charge in first["data"]] == made[:1:-1]
    rest = shop.get(f"/v1/charges?order=18431&starting_after={first['data'][-1]['id']}").json()
    assert ([charge["id"] for charge in rest["data"]], rest["has_more"]) == (made[1::-1], False)
    assert shop.get("/v1/charges?limit=100").json()["has_more"] is False


@pytest.mark.parametrize("query", ["limit=101", "limit=0", "limit=x", "starting_after=ch_none", "colour=red"])
def test_list_refuses_what_it_does_not_understand(shop: Shop, query: str) -> None:
    assert shop.get(f"/v1/charges?{query}").status_code == 400


@pytest.mark.requirement("R22")
def test_list_lags_while_retrieve_does_not(shop: Shop, payments: RehearsalDestination) -> None:
    payments.control(index_lag_ms=3_600_000)
    made = shop.charge().json()
    assert shop.get("/v1/charges?order=18431").json()["data"] == []
    assert shop.get(f"/v1/charges/{made['id']}").status_code == 200
    payments.advance_clock(3_600_000)
    assert shop.get("/v1/charges?order=18431").json()["data"] == [made]


def test_lookups_can_be_down_while_writes_work(shop: Shop, payments: RehearsalDestination) -> None:
    payments.control(lookup_down=True)
    made = shop.charge()
    assert made.status_code == 200
    assert shop.get("/v1/charges").status_code == 503
    assert shop.get(f"/v1/charges/{made.json()['id']}").status_code == 503
    assert payments.effects()["charges"] == 1
    payments.control(lookup_down=False)
    assert shop.get("/v1/charges").status_code == 200


@pytest.mark.requirement("R19")
def test_success_without_an_effect_can_be_rehearsed(shop: Shop, payments: RehearsalDestination) -> None:
    payments.control(phantom_times=1)
    phantom = shop.charge()
    assert phantom.status_code == 200
    assert payments.effects()["charges"] == 0
    assert shop.get(f"/v1/charges/{phantom.json()['id']}").status_code == 404
    assert shop.charge().json()["id"] != phantom.json()["id"]


@pytest.mark.requirement("R19")
def test_effect_other_than_asked_can_be_rehearsed(shop: Shop, payments: RehearsalDestination) -> None:
    payments.control(amount_delta=-500, created_status="pending")
    made = shop.charge().json()
    assert (made["amount"], made["status"]) == (8000, "pending")


@pytest.mark.parametrize(
    "changes",
    [
        {"amount": "8500"},
        {"amount": True},
        {"amount": 85.0},
        {"amount": -1},
        {"amount": 100_000_000},
        {"currency": "USD"},
        {"currency": None},
        {"order": 18431},
        {"metadata": {"n": 1}},
        {"metadata": []},
        {"colour": "red"},
    ],
)
def test_malformed_charges_are_refused(shop: Shop, payments: RehearsalDestination, changes: dict[str, Any]) -> None:
    assert shop.charge(**changes).status_code == 400
    assert payments.effects()["charges"] == 0


def test_bodies_are_bounded_json_objects(http: httpx.Client, payments: RehearsalDestination) -> None:
    url = f"{payments.direct_url}/v1/charges"
    assert http.post(url, content=b"x" * (64 * 1024 + 1)).status_code == 413
    assert http.post(url, content=b"{").status_code == 400
    assert http.post(url, content=b"[" * 60_000).status_code == 400
    assert http.post(url, content=b"[]").status_code == 400
    assert payments.arrivals() == []
