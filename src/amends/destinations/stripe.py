"""The official ``stripe`` client, without its own retries and keys, and with its errors translated.

    client = stripe.client(api_key)

    async def charge(call: Call, *, order: str, amount: Money) -> Receipt:
        with stripe.sending(call, "POST /v1/charges") as options:
            charge = await client.v1.charges.create_async({…, "metadata": {"key": call.key}}, options)

What is turned off, and why: ``max_network_retries`` (2 in the module's own functions), because the ledger decides about
repeats; the key that the client makes for each POST without one, by passing ours; redirects; proxies and
credentials from the environment, and the telemetry that would report on the request before.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from amends.core.contract import Contract
from amends.core.failures import Ambiguous, CallEnded, Interval, NotSent, Rejected
from amends.destinations import sdk
from amends.destinations.answers import ended, retry_after_s
from amends.destinations.contracts.stripe import POST
from amends.ports.destination import Sending

if TYPE_CHECKING:
    from stripe import RequestOptions, StripeClient

TIMEOUT_S: Final = 80.0
"""Each phase of a request in a thread, where the attempt's budget cannot cut it short; the vendor's default."""

KNOWN_ERRORS: Final = frozenset(
    {
        "APIConnectionError", "APIError", "AlreadyCanceledError", "AuthenticationError", "BlockedByStripeError",
        "CannotProceedError", "CapabilityNotEnabledError", "CardError", "ControlledByAlternateResourceError",
        "FeatureNotEnabledError", "FinancialAccountNotOpenError", "FxQuoteNeedsRefreshError", "IdempotencyError",
        "InsufficientFundsError", "InvalidClientError", "InvalidGrantError", "InvalidPaymentMethodError",
        "InvalidPayoutMethodError", "InvalidRequestError", "InvalidScopeError", "InvalidVaultedCredentialError",
        "NotCancelableError", "OAuthError", "PermissionError", "QuotaExceededError", "RateLimitError",
        "RecipientNotNotifiableError", "SignatureVerificationError", "StripeErrorWithParamCode",
        "TemporarySessionExpiredError", "UnsupportedGrantTypeError", "UnsupportedResponseTypeError",
        "VerificationAttemptFailedError", "VerificationExpiredError", "VerificationNotInitiatedError",
    }
)  # fmt: skip
"""The classes somebody has thought about. All but three are judged by the answer they carry."""


def client(api_key: str, *, base_url: str | None = None, timeout_s: float = TIMEOUT_S) -> "StripeClient":
    """A client for synchronous and ``_async`` calls that sends each request once.

    Args:
        api_key: the secret key.
        base_url: another address than Stripe's, e.g. a proxy's.
        timeout_s: for each phase of a request.

    Turns ``stripe.enable_telemetry`` off, which is one setting for the whole process.
    """
    import requests  # noqa: PLC0415
    import stripe  # noqa: PLC0415

    stripe.enable_telemetry = False
    session = requests.Session()
    session.trust_env = False
    session.max_redirects = 0
    wire = stripe.RequestsClient(
        timeout=timeout_s, session=session, async_fallback_client=stripe.HTTPXClient(timeout=timeout_s)
    )
    addresses: Any = {"api": base_url} if base_url else {}
    return stripe.StripeClient(api_key, base_addresses=addresses, http_client=wire, max_network_retries=0)


@contextmanager
def sending(call: Sending, what: str, *, contract: Contract = POST) -> Iterator["RequestOptions"]:
    """Around one call of the client: the options to pass, with our key and no retries.

    Raises:
        NotSent: nothing left. Rejected: refused, surely. Ambiguous: nobody knows.
    """
    import stripe  # noqa: PLC0415

    def classified(error: Exception) -> CallEnded:
        return classify(error, contract=contract)

    with sdk.sending(call, what, errors=stripe.StripeError, classify=classified) as key:
        yield {"idempotency_key": key, "max_network_retries": 0}


@contextmanager
def reading(call: Sending) -> Iterator["RequestOptions"]:
    """Around one read of the client, e.g. in a lookup: the options to pass, without retries."""
    import stripe  # noqa: PLC0415

    with sdk.reading(call, errors=stripe.StripeError, classify=classify):
        yield {"max_network_retries": 0}


def classify(error: Any, *, contract: Contract = POST) -> CallEnded:
    """What a ``StripeError`` says about the request. What it does not say for certain is ``Ambiguous``."""
    kind, status = type(error).__name__, error.http_status
    if kind == "APIConnectionError":
        if _never_connected(error.__cause__):
            return NotSent("could not connect to Stripe", interval=Interval.CONNECT)
        return Ambiguous("the connection to Stripe ended without an answer")
    if kind == "AuthenticationError" and status is None:
        return NotSent("the client has no API key", code="request_refused")
    if not isinstance(status, int):
        return Ambiguous(f"the client raised {kind}")
    if kind == "IdempotencyError":
        return Rejected("this key had other parameters", status=status, code="key_conflict")
    return ended(contract, status, _codes(error), retry_after_s=retry_after_s(_headers(error)))


def _codes(error: Any) -> set[str]:
    body = error.json_body if isinstance(error.json_body, Mapping) else {}
    said = body.get("error")
    found = [error.code, *([said.get("code"), said.get("type")] if isinstance(said, Mapping) else [])]
    return {code for code in found if isinstance(code, str) and code}


def _headers(error: Any) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in (error.headers or {}).items()}


def _never_connected(cause: BaseException | None) -> bool:
    """Whether the transport below, ``httpx`` or ``requests``, failed before it had a connection to write to."""
    import httpx  # noqa: PLC0415
    import requests  # noqa: PLC0415
    import urllib3.exceptions  # noqa: PLC0415

    if isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return True
    if isinstance(cause, requests.exceptions.ConnectTimeout):
        return True
    if not isinstance(cause, requests.exceptions.ConnectionError) or not cause.args:
        return False
    fault = getattr(cause.args[0], "reason", None)
    return isinstance(fault, urllib3.exceptions.NewConnectionError)
