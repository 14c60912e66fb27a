"""``boto3`` clients without their own retries and tokens, and with their errors translated.

    ec2 = aws.client("ec2", region_name="eu-central-1")

    def launch(call: Call, *, image: str) -> Receipt:
        with aws.sending(call, "ec2 RunInstances", contract=RUN_INSTANCES) as token:
            made = ec2.run_instances(ImageId=image, MinCount=1, MaxCount=1, ClientToken=token)

What is turned off, and why: retries (4 unless set, and settable through the environment), because the
ledger decides about repeats; and the random token that the client puts into each action that takes one
and was given none: such an action is refused here, before it is sent.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from amends.core.contract import Contract
from amends.core.failures import Ambiguous, CallEnded, Interval, NotSent
from amends.destinations import sdk
from amends.destinations.answers import ended, retry_after_s
from amends.ports.destination import Sending

CONNECT_TIMEOUT_S: Final = 10.0
READ_TIMEOUT_S: Final = 60.0
"""Of one read in a thread, where the attempt's budget cannot cut it short; the vendor's default."""

NEVER_CONNECTED: Final = frozenset({"EndpointConnectionError", "ConnectTimeoutError", "ProxyConnectionError"})

NOBODY_KNOWS: Final = frozenset(
    {
        "AwsChunkedWrapperError", "BotoCoreError", "ChecksumError", "ConnectionClosedError", "ConnectionError",
        "EventStreamError", "FlexibleChecksumError", "HTTPClientError", "IncompleteReadError", "PaginationError",
        "ReadTimeoutError", "ResponseStreamingError", "SSLError", "UnseekableStreamError", "WaiterError",
    }
)  # fmt: skip

BEFORE_SENDING: Final = frozenset(
    {
        "AliasConflictParameterError", "ApiVersionNotFoundError", "BaseEndpointResolverError",
        "CapacityNotAvailableError", "ConfigNotFound", "ConfigParseError", "CredentialRetrievalError",
        "DataNotFoundError", "EndpointProviderError", "EndpointResolutionError", "EndpointVariantError",
        "InfiniteLoopConfigError", "InvalidChecksumConfigError", "InvalidConfigError", "InvalidDNSNameError",
        "InvalidDefaultsMode", "InvalidEndpointConfigurationError", "InvalidEndpointDiscoveryConfigurationError",
        "InvalidExpressionError", "InvalidHostLabelError", "InvalidIMDSEndpointError",
        "InvalidIMDSEndpointModeError", "InvalidMaxRetryAttemptsError", "InvalidProxiesConfigError",
        "InvalidRegionError", "InvalidRetryConfigurationError", "InvalidRetryModeError",
        "InvalidS3AddressingStyleError", "InvalidS3UsEast1RegionalEndpointConfigError",
        "InvalidSTSRegionalEndpointsConfigError", "LoginAuthorizationCodeError", "LoginError",
        "LoginInsufficientPermissions", "LoginRefreshRequired", "LoginTokenLoadError", "MD5UnavailableError",
        "MetadataRetrievalError", "MissingDependencyException", "MissingParametersError", "MissingServiceIdError",
        "NoAuthTokenError", "NoCredentialsError", "NoRegionError", "OperationNotPageableError",
        "ParamValidationError", "PartialCredentialsError", "ProfileNotFound", "RangeError",
        "RefreshWithMFAUnsupportedError", "SSOError", "SSOTokenLoadError", "ServiceNotInRegionError",
        "StubAssertionError", "StubResponseError", "TokenRetrievalError", "UnStubbedResponseError",
        "UnauthorizedSSOTokenError", "UndefinedModelAttributeError", "UnknownClientMethodError",
        "UnknownCredentialError", "UnknownEndpointError", "UnknownEndpointResolutionBuiltInName",
        "UnknownFIPSEndpointError", "UnknownKeyError", "UnknownParameterError", "UnknownRegionError",
        "UnknownServiceError", "UnknownServiceStyle", "UnknownSignatureVersionError", "UnknownTokenProviderError",
        "UnsupportedOutpostResourceError", "UnsupportedS3AccesspointConfigurationError", "UnsupportedS3ArnError",
        "UnsupportedS3ConfigurationError", "UnsupportedS3ControlArnError", "UnsupportedS3ControlConfigurationError",
        "UnsupportedServiceProtocolsError", "UnsupportedSignatureVersionError", "ValidationError",
        "WaiterConfigError",
    }
)  # fmt: skip
"""What is wrong with settings, credentials or parameters: it is raised while the request is being built."""

THROTTLED: Final = (
    "BandwidthLimitExceeded", "EC2ThrottledException", "ProvisionedThroughputExceededException",
    "RequestLimitExceeded", "RequestThrottled", "RequestThrottledException", "SlowDown", "ThrottledException",
    "Throttling", "ThrottlingException", "TooManyRequestsException",
)  # fmt: skip
"""Codes that mean "not taken, later": https://docs.aws.amazon.com/boto3/latest/guide/retries.html"""

_ANY: Final = Contract(name="aws", source="no contract was named: nothing is promised")


def client(service: str, *, config: Any = None, **options: Any) -> Any:
    """A ``boto3`` client that sends each request once and mints no token.

    Args:
        service: e.g. ``ec2``.
        config: a ``botocore`` ``Config`` of one's own; its ``retries`` are replaced.
        options: passed on to ``boto3.client``.
    """
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415
    from botocore.config import Config  # type: ignore[import-untyped]  # noqa: PLC0415

    times = Config(connect_timeout=CONNECT_TIMEOUT_S, read_timeout=READ_TIMEOUT_S)
    once = Config(retries={"mode": "standard", "total_max_attempts": 1})
    settings = (times.merge(config) if config is not None else times).merge(once)
    made = boto3.client(service, config=settings, **options)
    made.meta.events.register_first("before-parameter-build.*.*", _refuse_without_token)
    return made


def _refuse_without_token(*, params: dict[str, Any], model: Any, **_: Any) -> None:
    lacking = [name for name in model.idempotent_members if name not in params]
    if lacking:
        raise NotSent(
            f"{model.name} takes {lacking[0]!r} and was given none; the client would make one that no repeat "
            f"carries. Pass the token of amends.destinations.aws.sending",
            code="request_refused",
        )


@contextmanager
def sending(call: Sending, what: str, *, contract: Contract) -> Iterator[str]:
    """Around one action: the token to pass as ``ClientToken``, ``ClientRequestToken`` or deduplication id.

    Raises:
        NotSent: nothing left. Rejected: refused, surely. Ambiguous: nobody knows.
    """

    def classified(error: Exception) -> CallEnded:
        return classify(error, contract=contract)

    with sdk.sending(call, what, errors=_errors(), classify=classified) as token:
        yield token


@contextmanager
def reading(call: Sending) -> Iterator[None]:
    """Around one action that only reads, e.g. in a lookup."""
    with sdk.reading(call, errors=_errors(), classify=classify):
        yield


def _errors() -> tuple[type[Exception], ...]:
    """What the client raises; an answer that it cannot parse is none of its own classes."""
    from boto3.exceptions import Boto3Error  # type: ignore[import-untyped]  # noqa: PLC0415
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]  # noqa: PLC0415
    from botocore.parsers import ResponseParserError  # type: ignore[import-untyped]  # noqa: PLC0415

    return (BotoCoreError, ClientError, Boto3Error, ResponseParserError)


def classify(error: Any, *, contract: Contract = _ANY) -> CallEnded:
    """What an error of ``botocore`` says about the request. What it does not say for certain is ``Ambiguous``."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if "ClientError" in names:
        return _answered(error, contract)
    kind = type(error).__name__
    if kind in NEVER_CONNECTED:
        return NotSent(f"could not connect: {kind}", interval=Interval.CONNECT)
    if kind in BEFORE_SENDING:
        return NotSent(f"the request could not be built: {kind}", code="request_refused")
    return Ambiguous(f"the client raised {kind}")


def _answered(error: Any, contract: Contract) -> CallEnded:
    said, about = error.response.get("Error", {}), error.response.get("ResponseMetadata", {})
    status, code = about.get("HTTPStatusCode"), said.get("Code")
    if not isinstance(status, int):
        return Ambiguous("the answer carries no status")
    later = contract.with_(refused_for_now=(*contract.refused_for_now, *((status, name) for name in THROTTLED)))
    headers = {str(name).lower(): str(value) for name, value in about.get("HTTPHeaders", {}).items()}
    return ended(later, status, [code] if isinstance(code, str) else (), retry_after_s=retry_after_s(headers))
