"""Warehouse, carrier, CRM and the control surface, over real processes."""

from typing import Any

import httpx
import pytest

from amends.testing.rehearsal.world import ControlRefusedError, RehearsalDestination, World

DESTINATIONS = ("warehouse", "carrier", "crm")
pytestmark = pytest.mark.requirement("R23", "R56")
CREATE = {"If-None-Match": "*"}


@pytest.fixture
def warehouse(world: World) -> RehearsalDestination:
    world.warehouse.control(stock={"WIDGET": 5})
    return world.warehouse


@pytest.fixture
def stock(http: httpx.Client, warehouse: RehearsalDestination) -> "Stock":
    return Stock(http, warehouse.direct_url)


class Stock:
    def __init__(self, http: httpx.Client, url: str) -> None:
        self._http = http
        self._url = url

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._http.request(method, self._url + path, json=body, headers=named)

    def reserve(self, quantity: int, reference: str, **headers: str) -> httpx.Response:
        return self.ask(
            "POST",
            "/reservations",
            {"sku": "WIDGET", "quantity": quantity, "reference": reference},
            **headers,
        )


def test_item_has_a_strong_quoted_tag_that_moves_with_every_change(stock: Stock) -> None:
    item = stock.ask("GET", "/items/WIDGET")
    assert item.json() == {"sku": "WIDGET", "available": 5, "version": 1}
    assert item.headers["etag"] == '"1"'
    stock.reserve(2, "r1")
    assert stock.ask("GET", "/items/WIDGET").headers["etag"] == '"2"'
    assert stock.ask("GET", "/items/NONE").status_code == 404


def test_item_write_needs_a_true_condition(stock: Stock, warehouse: RehearsalDestination) -> None:
    body = {"available": 9}
    assert stock.ask("PUT", "/items/WIDGET", body).status_code == 428
    assert stock.ask("PUT", "/items/WIDGET", body, If_Match='W/"1"').status_code == 412
    assert stock.ask("PUT", "/items/WIDGET", body, If_Match='"7"').status_code == 412
    written = stock.ask("PUT", "/items/WIDGET", body, If_Match='"7", "1"')
    assert (written.status_code, written.json()["version"], written.headers["etag"]) == (200, 2, '"2"')
    stale = stock.ask("PUT", "/items/WIDGET", body, If_Match='"1"')
    assert (stale.status_code, stale.headers["etag"]) == (412, '"2"')
    assert warehouse.effects(sku="WIDGET")["item_writes"] == 1


def test_item_is_created_once(stock: Stock) -> None:
    assert stock.ask("PUT", "/items/NEW", {"available": 1}, If_None_Match="*").status_code == 201
    assert stock.ask("PUT", "/items/NEW", {"available": 1}, If_None_Match="*").status_code == 412
    assert stock.ask("PUT", "/items/GONE", {"available": 1}, If_Match="*").status_code == 412


def test_server_may_answer_success_to_a_change_already_applied(stock: Stock, warehouse: RehearsalDestination) -> None:
    warehouse.control(already_applied=True)
    for _ in range(2):
        assert stock.ask("PUT", "/items/WIDGET", {"available": 9}, If_Match='"1"').status_code == 200
    assert stock.ask("PUT", "/items/WIDGET", {"available": 8}, If_Match='"1"').status_code == 412
    assert warehouse.effects()["item_writes"] == 1


def test_reservation_takes_stock_until_there_is_none(stock: Stock, warehouse: RehearsalDestination) -> None:
    made = stock.reserve(3, "r1")
    assert (made.status_code, made.json()["status"], made.json()["quantity"]) == (201, "reserved", 3)
    refused = stock.reserve(3, "r2")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "out_of_stock")
    assert stock.ask("GET", "/items/WIDGET").json()["available"] == 2
    assert warehouse.effects(sku="WIDGET")["reservations"] == 1


def test_reservation_with_a_stale_item_is_refused(stock: Stock) -> None:
    assert stock.reserve(1, "r1", If_Match='"1"').status_code == 201
    assert stock.reserve(1, "r2", If_Match='"1"').status_code == 412


def test_reservation_key_is_optional_and_can_be_turned_off(stock: Stock, warehouse: RehearsalDestination) -> None:
    assert stock.reserve(1, "r1", Idempotency_Key="k").status_code == 201
    assert stock.reserve(1, "r1", Idempotency_Key="k").headers["idempotent-replayed"] == "true"
    assert warehouse.effects(reference="r1")["reservations"] == 1
    warehouse.control(keys_enabled=False)
    stock.reserve(1, "r1", Idempotency_Key="k")
    assert warehouse.effects(reference="r1")["reservations"] == 2


@pytest.mark.requirement("R21")
def test_several_reservations_under_one_reference_are_shown_as_such(stock: Stock) -> None:
    ids = {stock.reserve(1, "r1").json()["id"] for _ in range(2)}
    assert stock.ask("GET", "/reservations/r1").status_code == 300
    assert stock.ask("DELETE", "/reservations/r1").status_code == 300
    listed = stock.ask("GET", "/reservations?reference=r1").json()["data"]
    assert {row["id"] for row in listed} == ids
    assert stock.ask("DELETE", f"/reservations/{ids.pop()}").status_code == 200


def test_conditional_reservation_is_made_once_even_after_its_release(
    stock: Stock, warehouse: RehearsalDestination
) -> None:
    body = {"sku": "WIDGET", "quantity": 2}
    assert stock.ask("PUT", "/reservations/r1", body).status_code == 428
    assert stock.ask("PUT", "/reservations/r1", body, If_None_Match="*").status_code == 201
    assert stock.ask("PUT", "/reservations/r1", body, If_None_Match="*").status_code == 412
    assert stock.ask("GET", "/reservations/r1").json()["status"] == "reserved"
    assert stock.ask("DELETE", "/reservations/r1").json()["status"] == "released"
    assert stock.ask("DELETE", "/reservations/r1").status_code == 409
    assert stock.ask("DELETE", "/reservations/none").status_code == 404
    assert stock.ask("PUT", "/reservations/r1", body, If_None_Match="*").status_code == 412
    assert stock.ask("GET", "/items/WIDGET").json()["available"] == 5
    assert warehouse.effects(reference="r1") == {"reservations": 1, "releases": 1}


def ship(http: httpx.Client, carrier: RehearsalDestination, key: str | None = None) -> httpx.Response:
    body = {"order": "18431", "reference": "op_1", "address": "1 Main St"}
    headers = {"Idempotency-Key": key} if key else {}
    return http.post(f"{carrier.direct_url}/shipments", json=body, headers=headers)


def test_carrier_ignores_keys(http: httpx.Client, world: World) -> None:
    first, second = ship(http, world.carrier, "k1"), ship(http, world.carrier, "k1")
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["id"] != second.json()["id"]
    assert world.carrier.effects(reference="op_1") == {"shipments": 2, "cancellations": 0}
    assert [row["key"] for row in world.carrier.arrivals(key="k1")] == ["k1", "k1"]


@pytest.mark.requirement("R22")
def test_shipments_are_found_by_reference_after_the_lag(http: httpx.Client, world: World) -> None:
    carrier = world.carrier
    carrier.control(index_lag_ms=60_000)
    made = ship(http, carrier).json()
    url = f"{carrier.direct_url}/shipments"
    assert http.get(url, params={"reference": "op_1"}).json()["data"] == []
    assert http.get(f"{url}/{made['id']}").json() == made
    carrier.advance_clock(60_000)
    assert http.get(url, params={"reference": "op_1", "order": "18431"}).json()["data"] == [made]


def test_shipment_is_cancelled_once_and_not_after_pick_up(http: httpx.Client, world: World) -> None:
    carrier = world.carrier
    url = f"{carrier.direct_url}/shipments"
    first, second = ship(http, carrier).json()["id"], ship(http, carrier).json()["id"]
    carrier.control(refuse_cancel=True)
    assert http.post(f"{url}/{first}/cancel").json()["error"]["code"] == "cancel_refused"
    carrier.control(refuse_cancel=False, picked_up=[second])
    assert http.post(f"{url}/{first}/cancel").json()["status"] == "cancelled"
    assert http.post(f"{url}/{first}/cancel").json()["error"]["code"] == "cancelled"
    refused = http.post(f"{url}/{second}/cancel")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "picked_up")
    assert http.post(f"{url}/shp_none/cancel").status_code == 404
    assert carrier.effects() == {"shipments": 2, "cancellations": 1}


def test_contact_is_written_under_compare_and_set(http: httpx.Client, world: World) -> None:
    url = f"{world.crm.direct_url}/contacts/c1"
    old, new = {"fields": {"email": "a@x.invalid"}}, {"fields": {"email": "b@x.invalid"}}
    assert http.get(url).status_code == 404
    assert http.put(url, json=old).status_code == 428
    assert http.put(url, json=old, headers=CREATE).status_code == 201
    assert http.put(url, json=old, headers=CREATE).status_code == 412
    assert http.get(url).headers["etag"] == '"1"'
    assert http.put(url, json=new, headers={"If-Match": '"1"'}).json()["version"] == 2
    assert http.put(url, json=new, headers={"If-Match": '"1"'}).status_code == 412
    assert http.get(url).json() == {"id": "c1", "version": 2, **new}
    assert world.crm.effects() == {"contacts": 1, "contact_writes": 2, "notes": 0}


def test_notes_are_found_by_reference(http: httpx.Client, world: World) -> None:
    url = f"{world.crm.direct_url}/contacts/c1"
    note = {"text": "Refund sent", "reference": "op_1"}
    assert http.post(f"{url}/notes", json=note).status_code == 404
    http.put(url, json={"fields": {}}, headers=CREATE)
    made = http.post(f"{url}/notes", json=note)
    assert (made.status_code, made.json()["contact"]) == (201, "c1")
    assert http.get(f"{url}/notes", params={"reference": "op_1"}).json()["data"] == [made.json()]
    assert http.get(f"{url}/notes", params={"reference": "op_2"}).json()["data"] == []
    elsewhere = http.get(f"{world.crm.direct_url}/notes", params={"reference": "op_1"})
    assert elsewhere.json()["data"] == [made.json()]
    assert world.crm.effects(reference="op_1") == {"notes": 1}


@pytest.mark.parametrize(
    "knobs",
    [
        {"no_such_knob": 1},
        {"index_lag_ms": True},
        {"index_lag_ms": -1},
        {"lookup_down": 1},
        {"picked_up": ["none"]},
        {"picked_up": 3},
    ],
)
def test_control_refuses_what_it_does_not_know(world: World, knobs: dict[str, Any]) -> None:
    with pytest.raises(ControlRefusedError):
        world.carrier.control(**knobs)


def test_refused_control_changes_nothing(http: httpx.Client, world: World) -> None:
    shipment = ship(http, world.carrier).json()["id"]
    with pytest.raises(ControlRefusedError):
        world.carrier.control(picked_up=[shipment, "none"], refuse_cancel=True)
    assert http.post(f"{world.carrier.direct_url}/shipments/{shipment}/cancel").status_code == 200


def test_unknown_effect_filter_is_refused_and_not_counted_as_none(world: World) -> None:
    with pytest.raises(ControlRefusedError, match="filters are"):
        world.carrier.effects(colour="red")
    with pytest.raises(ControlRefusedError):
        world.carrier.arrivals(colour="red")


def test_reset_forgets_records_knobs_and_clock_but_no_id_comes_back(http: httpx.Client, world: World) -> None:
    carrier = world.carrier
    carrier.control(index_lag_ms=5)
    carrier.advance_clock(3_600_000)
    before = ship(http, carrier).json()
    carrier.reset()
    assert carrier.effects() == {"shipments": 0, "cancellations": 0}
    assert carrier.arrivals() == []
    assert carrier.control()["index_lag_ms"] == 0
    after = ship(http, carrier).json()
    assert after["created"] < before["created"]
    assert after["id"] != before["id"]
