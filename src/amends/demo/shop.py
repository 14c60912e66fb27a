"""The shop: an application like any other. It does not know that it is rehearsed, nor which fault it meets.

Every effect has a lookup by the operation's key, as the destination stored it, and a verifying read of the
record itself. Receipts hold the destination's values. What the destinations promise stands in their
contracts, and what those allow after a lost answer differs:

* payments keep keys for a day, so a repeat under the same key is absorbed;
* the warehouse creates a reservation only where none of its name is there;
* carrier, CRM and mail have neither, only a bound on how late a request may still arrive.
"""

from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from amends.bootstrap import Amends, Run
from amends.core.contract import Contract, Lookup, Mechanism
from amends.core.evidence import Receipt
from amends.core.money import Money
from amends.core.terms import Retry
from amends.demo.reading import (
    MAIL_DOMAIN,
    by_reference,
    charge_of,
    lookup,
    mail,
    payment,
    verify_by_id,
    verify_by_list,
)
from amends.destinations.contracts.smtp import SUBMIT
from amends.destinations.http import HttpDestination
from amends.destinations.smtp import Mail, SmtpClient, key_of
from amends.ports.world import Clock
from amends.service.call import Call
from amends.service.registry import Effect, Read
from amends.testing.rehearsal.world import World

LAG_S: Final = 5.0
"""How long the rehearsal destinations' lists may miss a record; the stage lets them lag by less."""

LATE_S: Final = 120.0
"""How late a request may still arrive: what the shop's own network promises."""


PAYMENTS: Final = Contract(
    name="rehearsal.payments",
    mechanism=Mechanism.IDEMPOTENCY_KEY,
    idempotency_header="Idempotency-Key",
    key_retention_s=86_400,
    replays_success=True,
    replays_errors=True,
    refuses_changed_parameters=True,
    key_conflict=((400, "idempotency_error"),),
    key_in_progress=((409, "idempotency_key_in_use"),),
    lookup=Lookup.EVENTUAL,
    lookup_lag_s=LAG_S,
    late_arrival_bound_s=LATE_S,
    source="amends.testing.rehearsal.payments, after Stripe v1",
)
WAREHOUSE: Final = Contract(
    name="rehearsal.warehouse",
    mechanism=Mechanism.CONDITIONAL_CREATE,
    lookup=Lookup.STRONG,
    late_arrival_bound_s=LATE_S,
    source="amends.testing.rehearsal.warehouse",
)
UNFENCED: Final = Contract(
    name="rehearsal.unfenced",
    lookup=Lookup.EVENTUAL,
    lookup_lag_s=LAG_S,
    late_arrival_bound_s=LATE_S,
    source="amends.testing.rehearsal: carrier, crm",
)
MAIL: Final = SUBMIT.with_(
    lookup_lag_s=LAG_S, late_arrival_bound_s=LATE_S, source=f"{SUBMIT.source}; amends.testing.rehearsal.mail"
)

_COMMON: Final[dict[str, Any]] = {
    "retry": Retry(attempts=4, first_delay_s=0.2),
    "execution_timeout_s": 10.0,
    "lookups": 4,
    "evidence": ("resource", "correlation"),
}


class Shop:
    """The application over the destinations of ``world``; only those that are there get effects."""

    def __init__(self, ledger: Path, world: World, *, clock: Clock | None = None) -> None:
        self.app: Amends = Amends(ledger, clock=clock)
        self._world = world
        payments, warehouse = self._at("payments", PAYMENTS), self._at("warehouse", WAREHOUSE)
        carrier, crm, mailbox = self._at("carrier", UNFENCED), self._at("crm", UNFENCED), self._at("mail", MAIL)
        relay = SmtpClient(*world.mail.smtp_address, domain=MAIL_DOMAIN)
        self.capture_payment: Effect = _capture_payment(self.app, payments)
        self.issue_refund: Effect = _issue_refund(self.app, payments)
        self.reserve_stock: Effect = _reserve_stock(self.app, warehouse)
        self.create_shipment: Effect = _create_shipment(self.app, carrier)
        self.note_refund: Effect = _note_refund(self.app, crm)
        self.send_mail: Effect = _send_mail(self.app, mailbox, relay)
        self.charge_of: Read = self.app.read("charge_of", basis="support may read payments", destination=payments)(
            charge_of
        )

    def _at(self, name: str, contract: Contract) -> HttpDestination:
        return self.app.destination(name, base_url=self._world[name].url, contract=contract)

    async def replacement_order(self, run: Run, order: str) -> None:
        """Capture a payment, reserve stock, create a shipment, send a mail."""
        await run.do(self.capture_payment, order=order, amount=Money(8500, "USD"))
        reserved = await run.do(self.reserve_stock, order=order, sku=f"A-{order}")
        shipped = await run.do(self.create_shipment, order=order, reservation=reserved.resource)
        subject = f"Order {order}: your replacement is on its way"
        await run.do(self.send_mail, order=order, subject=subject, text=f"Shipment {shipped.resource} is on its way.")

    async def refund(self, run: Run, order: str) -> None:
        """Refund a payment, note it at the customer, send a mail."""
        charge = await run.read(self.charge_of, order=order)
        refunded = await run.do(self.issue_refund, order=order, charge=charge, amount=Money(8500, "USD"))
        said = f"Refund {refunded.resource} of {refunded.amount}"
        await run.do(self.note_refund, order=order, text=said)
        await run.do(self.send_mail, order=order, subject=f"Order {order}: your refund is on its way", text=said)


def _capture_payment(app: Amends, payments: HttpDestination) -> Effect:
    @app.effect(
        "capture_payment",
        recovery="compensatable",
        compensate="escalate",
        target="order:{order}",
        destination=payments,
        owner="billing",
        escalate_to="billing-oncall",
        amount="amount",
        accepts=("succeeded",),
        postcondition="the charge stands in full",
        **_COMMON,
    )
    async def capture_payment(call: Call, *, order: str, amount: Money) -> Receipt:
        return payment(await call.post("/v1/charges", {"order": order, **_asked(call, amount)}))

    capture_payment.lookup(lookup("/v1/charges", payment, by="order"))
    capture_payment.verify(verify_by_id("/v1/charges/{id}", payment))
    return capture_payment


def _issue_refund(app: Amends, payments: HttpDestination) -> Effect:
    @app.effect(
        "issue_refund",
        recovery="compensatable",
        compensate="escalate",
        target="order:{order}",
        destination=payments,
        owner="billing",
        escalate_to="billing-oncall",
        amount="amount",
        accepts=("succeeded",),
        postcondition="the refund has been made in full",
        **_COMMON,
    )
    async def issue_refund(call: Call, *, order: str, charge: str, amount: Money) -> Receipt:
        asked = {"charge": charge, "amount": amount.minor, "metadata": {"key": call.key}}
        return payment(await call.post("/v1/refunds", asked))

    issue_refund.lookup(lookup("/v1/refunds", payment, by="order"))
    issue_refund.verify(verify_by_id("/v1/refunds/{id}", payment))
    return issue_refund


def _reserve_stock(app: Amends, warehouse: HttpDestination) -> Effect:
    @app.effect(
        "reserve_stock",
        recovery="compensatable",
        compensate="escalate",
        target="order:{order}:stock",
        destination=warehouse,
        owner="fulfilment",
        accepts=("reserved",),
        postcondition="the reservation stands",
        **_COMMON,
    )
    async def reserve_stock(call: Call, *, order: str, sku: str) -> Receipt:
        path = f"/reservations/{quote(call.key, safe='')}"
        return by_reference(await call.put(path, {"sku": sku, "quantity": 1}, if_none_match="*"))

    reserve_stock.lookup(lookup("/reservations", by_reference))
    reserve_stock.verify(verify_by_id("/reservations/{id}", by_reference))
    return reserve_stock


def _create_shipment(app: Amends, carrier: HttpDestination) -> Effect:
    @app.effect(
        "create_shipment",
        recovery="compensatable",
        compensate="escalate",
        target="order:{order}:shipment",
        destination=carrier,
        owner="fulfilment",
        accepts=("created", "picked_up"),
        postcondition="the carrier has the shipment",
        **_COMMON,
    )
    async def create_shipment(call: Call, *, order: str, reservation: str) -> Receipt:
        asked = {"order": order, "reference": call.key, "address": f"collect reservation {reservation}"}
        return by_reference(await call.post("/shipments", asked))

    create_shipment.lookup(lookup("/shipments", by_reference))
    create_shipment.verify(verify_by_id("/shipments/{id}", by_reference))
    return create_shipment


def _note_refund(app: Amends, crm: HttpDestination) -> Effect:
    @app.effect(
        "note_refund",
        recovery="compensatable",
        compensate="escalate",
        target="order:{order}:note",
        destination=crm,
        owner="support",
        postcondition="the note is in the customer's file",
        **_COMMON,
    )
    async def note_refund(call: Call, *, order: str, text: str) -> Receipt:
        path = f"/contacts/{quote(f'customer-{order}', safe='')}/notes"
        return by_reference(await call.post(path, {"text": text, "reference": call.key}))

    note_refund.lookup(lookup("/notes", by_reference))
    note_refund.verify(verify_by_list("/notes", by_reference))
    return note_refund


def _send_mail(app: Amends, mailbox: HttpDestination, relay: SmtpClient) -> Effect:
    @app.effect(
        "send_mail",
        recovery="irreversible",
        target="order:{order}:mail",
        destination=mailbox,
        owner="support",
        postcondition="exactly one mail with our Message-ID is in the mailbox",
        **_COMMON,
    )
    async def send_mail(call: Call, *, order: str, subject: str, text: str) -> Receipt:
        to = f"customer-{order}@example.invalid"
        taken = await relay.send(call, Mail(sender="shop@example.invalid", to=to, subject=subject, text=text))
        # "OK queued as ID": the server's own name of what it took
        return Receipt(resource=taken.reply.rpartition(" ")[2], correlation=key_of(taken.message_id))

    send_mail.lookup(lookup("/messages", mail, by="message_id"))
    send_mail.verify(verify_by_list("/messages", mail, by="message_id"))
    return send_mail


def _asked(call: Call, amount: Money) -> dict[str, Any]:
    return {"amount": amount.minor, "currency": amount.currency.lower(), "metadata": {"key": call.key}}
