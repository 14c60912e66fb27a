"""Stripe, API v1.

Each POST takes an ``Idempotency-Key``; on GET and DELETE it has no effect. A result is stored once the
endpoint has begun to run, a 500 too, and given again for at least 24 hours; after that the same key is
a new request. Validation failures, and a request that met its own first one still running, are not stored.
"""

from typing import Final

from amends.core.contract import Contract, Lookup, Mechanism
from amends.destinations.contracts._citing import cited

_KEYS = ("Stripe API reference, Idempotent requests", "https://docs.stripe.com/api/idempotent_requests")
_SEARCH = ("Stripe docs, Search, data freshness", "https://docs.stripe.com/search")
_CODES = (
    "stripe-python, error codes generated from Stripe's OpenAPI description",
    "https://github.com/stripe/stripe-python/blob/master/stripe/_payment_intent.py",
)

POST: Final = Contract(
    name="stripe.v1",
    mechanism=Mechanism.IDEMPOTENCY_KEY,
    idempotency_header="Idempotency-Key",
    key_retention_s=86_400,
    key_chars_max=255,
    replays_success=True,
    replays_errors=True,
    refuses_changed_parameters=True,
    key_conflict=((400, "idempotency_error"),),
    key_in_progress=((409, "idempotency_key_in_use"),),
    refused_for_now=((400, "rate_limit"),),
    source=cited(_KEYS, _CODES),
    note="A stored 500 never becomes a success under its key. The lookup depends on the endpoint.",
)

_LISTED: Final = POST.with_(
    lookup=Lookup.STRONG,
    source=cited(_KEYS, _SEARCH, _CODES),
    note="Look up by the list and a key in metadata, all pages; put the key into the first request.",
)

CREATE_CHARGE: Final = _LISTED.with_(name="stripe.v1.charges.create", endpoint="POST /v1/charges")
CREATE_REFUND: Final = _LISTED.with_(name="stripe.v1.refunds.create", endpoint="POST /v1/refunds")
CREATE_PAYMENT_INTENT: Final = _LISTED.with_(
    name="stripe.v1.payment_intents.create", endpoint="POST /v1/payment_intents"
)
CAPTURE_CHARGE: Final = _LISTED.with_(
    name="stripe.v1.charges.capture",
    endpoint="POST /v1/charges/{charge}/capture",
    note="Look up by retrieving the charge.",
)
CREATE_CHARGE_FOUND_BY_SEARCH: Final = CREATE_CHARGE.with_(
    name="stripe.v1.charges.create.found_by_search",
    lookup=Lookup.EVENTUAL,
    note="The same endpoint where the lookup uses search: under a minute as a rule and longer in an outage, "
    "so the lag is unbounded and nothing that search does not find is absent.",
)
DELETE_CUSTOMER: Final = Contract(
    name="stripe.v1.customers.delete",
    endpoint="DELETE /v1/customers/{customer}",
    source=cited(_KEYS),
    note="A key on DELETE has no effect.",
)

ALL: Final = (
    POST,
    CREATE_CHARGE,
    CREATE_CHARGE_FOUND_BY_SEARCH,
    CAPTURE_CHARGE,
    CREATE_REFUND,
    CREATE_PAYMENT_INTENT,
    DELETE_CUSTOMER,
)
