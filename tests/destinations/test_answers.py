"""``Retry-After`` in its two forms, and the codes of providers' errors."""

from typing import Any

import pytest

from amends.core.contract import Contract
from amends.core.failures import Ambiguous, Rejected
from amends.destinations.answers import RETRY_AFTER_S_MAX, ended, error_codes, retry_after_s
from amends.destinations.contracts import named

NOON = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110


@pytest.mark.requirement("R17", "R23")
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "120"}, 120.0),
        ({"retry-after": " 7 "}, 7.0),
        ({"retry-after": "999999999999999999999999"}, RETRY_AFTER_S_MAX),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "1.5"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "٣"}, None),
        ({"retry-after": "Sun, 06 Nov 1994 08:50:07 GMT"}, 30.0),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:07 GMT"}, 0.0),
        ({"retry-after": "Sun, 06 Nov 2094 08:49:37 GMT"}, RETRY_AFTER_S_MAX),
        ({"retry-after": "Sun, 06 Nov 1994 08:50:07 GMT", "date": "Sun, 06 Nov 1994 08:50:00 GMT"}, 7.0),
        ({"retry-after": "Sun, 06 Nov 1994 08:50:07 GMT", "date": "never"}, 30.0),
        ({"retry-after": "Sun, 99 Nov 1994 08:50:07 GMT"}, None),
    ],
)
def test_how_long_the_destination_asks_to_be_left_alone(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, lambda: NOON) == seconds


STRIPE = named("stripe.v1")


@pytest.mark.parametrize(
    ("contract", "content", "codes"),
    [
        (STRIPE, b'{"error": {"type": "card_error", "code": "card_declined"}}', {"card_error", "card_declined"}),
        (STRIPE, b'{"error": {"type": "idempotency_error"}}', {"idempotency_error"}),
        (STRIPE, b'{"error": "text"}', set()),
        (STRIPE, b'{"error": {"code": 7}}', set()),
        (STRIPE, b"[]", set()),
        (STRIPE, b"<html>", set()),
        (STRIPE, b"[" * 100_000, set()),
        (named("kubernetes.create"), b'{"kind": "Status", "reason": "AlreadyExists"}', {"AlreadyExists"}),
        (named("github.git.refs.create"), b'{"message": "Reference already exists"}', {"Reference already exists"}),
        (
            named("aws.dynamodb.TransactWriteItems"),
            b'{"__type": "com.amazonaws.dynamodb.v20120810#TransactionInProgressException"}',
            {"TransactionInProgressException"},
        ),
    ],
)
def test_the_codes_in_an_error_are_found_where_the_contract_says(
    contract: Contract, content: bytes, codes: set[str]
) -> None:
    assert error_codes(contract, content) == codes


@pytest.mark.requirement("R23", "C04")
@pytest.mark.parametrize(
    ("contract", "status", "code", "kind", "meaning"),
    [
        ("stripe.v1", 400, "idempotency_error", Rejected, "key_conflict"),
        ("stripe.v1", 409, "idempotency_key_in_use", Ambiguous, "key_in_progress"),
        ("stripe.v1", 400, "parameter_missing", Rejected, None),
        ("stripe.v1", 402, "card_declined", Rejected, None),
        ("stripe.v1", 409, "", Ambiguous, None),
        ("stripe.v1", 500, "", Ambiguous, None),
        ("github.git.refs.create", 422, "Reference already exists", Ambiguous, "already_exists"),
        ("github.git.refs.create", 422, "Object does not exist", Rejected, None),
        ("github.pulls.merge", 409, "", Rejected, "precondition_failed"),
        ("github.pulls.create", 422, "", Rejected, None),
        ("aws.ec2.RunInstances", 400, "IdempotentParameterMismatch", Rejected, "key_conflict"),
        ("aws.s3.PutObject.if_none_match", 412, "PreconditionFailed", Ambiguous, "already_exists"),
        ("aws.s3.PutObject.if_match", 412, "PreconditionFailed", Rejected, "precondition_failed"),
        (
            "aws.dynamodb.PutItem.attribute_not_exists",
            400,
            "ConditionalCheckFailedException",
            Ambiguous,
            "already_exists",
        ),
        ("aws.dynamodb.UpdateItem.condition", 400, "ConditionalCheckFailedException", Rejected, "precondition_failed"),
        ("aws.dynamodb.TransactWriteItems", 400, "TransactionInProgressException", Ambiguous, "key_in_progress"),
        ("aws.dynamodb.TransactWriteItems", 400, "IdempotentParameterMismatchException", Rejected, "key_conflict"),
        ("kubernetes.create", 409, "AlreadyExists", Ambiguous, "already_exists"),
        ("kubernetes.create", 409, "Conflict", Ambiguous, None),
        ("kubernetes.replace", 409, "Conflict", Rejected, "precondition_failed"),
        ("kubernetes.create", 422, "Invalid", Rejected, None),
    ],
)
def test_what_a_provider_means_by_its_answers(
    contract: str, status: int, code: str, kind: type[Any], meaning: str | None
) -> None:
    end = ended(named(contract), status, {code} if code else ())
    assert (type(end), end.code, end.status) == (kind, meaning, status)


@pytest.mark.parametrize(
    ("contract", "status", "code"),
    [
        ("stripe.v1", 400, "rate_limit"),
        ("stripe.v1", 429, ""),
        ("aws.s3.PutObject.if_match", 409, "ConditionalRequestConflict"),
    ],
)
def test_what_may_be_tried_again_later(contract: str, status: int, code: str) -> None:
    end = ended(named(contract), status, {code})
    assert isinstance(end, Rejected)
    assert end.retryable
