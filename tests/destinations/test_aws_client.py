"""``boto3``, as Amends sets it: each action arrives once, with our token, and its errors are told apart."""

import inspect
import json
import socket
import time
from typing import Any
from urllib.parse import parse_qs

import boto3
import boto3.exceptions
import botocore.exceptions
import pytest
from botocore.config import Config
from counting import Counting, counting
from scripted import KEY, ScriptedCall

from amends.core.failures import Ambiguous, CallEnded, Interval, NotSent, Rejected
from amends.destinations import aws
from amends.destinations.contracts import named
from amends.ports.destination import NEVER_LEFT

pytestmark = pytest.mark.requirement("R23")
RUN, WRITE, MAKE_ITEM = (
    "aws.ec2.RunInstances",
    "aws.dynamodb.TransactWriteItems",
    "aws.dynamodb.PutItem.attribute_not_exists",
)
ACCESS = {"region_name": "eu-central-1", "aws_access_key_id": "a", "aws_secret_access_key": "b"}
FAILURES: list[dict[str, Any]] = [{"drop": True}, *({"status": status, "body": b""} for status in (500, 502, 503, 504))]
failing = pytest.mark.parametrize("how", FAILURES, ids=str)


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """No files of a user; an environment that asks for retries; and no pause between the vendor's own."""
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "4")
    monkeypatch.setenv("AWS_RETRY_MODE", "standard")
    monkeypatch.setattr(time, "sleep", lambda _: None)


def launch(server: Counting, call: ScriptedCall, **config: Any) -> Any:
    client = aws.client("ec2", endpoint_url=server.url, **ACCESS, **config)
    with aws.sending(call, "ec2 RunInstances", contract=named(RUN)) as token:
        return client.run_instances(ImageId="ami-1", MinCount=1, MaxCount=1, ClientToken=token)


def write(server: Counting, call: ScriptedCall) -> Any:
    client = aws.client("dynamodb", endpoint_url=server.url, **ACCESS)
    with aws.sending(call, "dynamodb TransactWriteItems", contract=named(WRITE)) as token:
        put: Any = {"Put": {"TableName": "t", "Item": {"k": {"S": "v"}}}}
        return client.transact_write_items(TransactItems=[put], ClientRequestToken=token)


def put_item(server: Counting, call: ScriptedCall) -> Any:
    client = aws.client("dynamodb", endpoint_url=server.url, **ACCESS)
    with aws.sending(call, "dynamodb PutItem", contract=named(MAKE_ITEM)):
        condition = "attribute_not_exists(k)"
        return client.put_item(TableName="t", Item={"k": {"S": "v"}}, ConditionExpression=condition)


def put_object(server: Counting, call: ScriptedCall) -> Any:
    client = aws.client("s3", endpoint_url=server.url, **ACCESS)
    with aws.sending(call, "s3 PutObject", contract=named("aws.s3.PutObject.if_none_match")):
        return client.put_object(Bucket="b", Key="k", Body=b"x", IfNoneMatch="*")


def tokens(server: Counting) -> list[str]:
    return [parse_qs(body.decode())["ClientToken"][0] for _, _, _, body in server.arrivals]


@failing
def test_a_failing_action_arrives_once_with_our_token_and_nobody_knows(how: dict[str, Any]) -> None:
    with counting(**how) as server:
        with pytest.raises(Ambiguous):
            launch(server, ScriptedCall())
        assert tokens(server) == [KEY]


@pytest.mark.parametrize("how", [{"status": 500, "body": b"{"}, {"status": 200, "body": b"<html>"}], ids=str)
def test_an_answer_that_cannot_be_read_is_unknown_and_arrives_once(how: dict[str, Any]) -> None:
    with counting(**how) as server:
        with pytest.raises(Ambiguous):
            launch(server, ScriptedCall())
        assert tokens(server) == [KEY]


@failing
@pytest.mark.parametrize("act", [write, put_item, put_object])
def test_other_services_send_once_too(act: Any, how: dict[str, Any]) -> None:
    with counting(**how) as server:
        with pytest.raises(Ambiguous):
            act(server, ScriptedCall())
        assert len(server.arrivals) == 1


@failing
def test_left_as_shipped_the_client_repeats_the_action_with_a_token_of_its_own(how: dict[str, Any]) -> None:
    with counting(**how) as server:
        client = boto3.client("ec2", endpoint_url=server.url, **ACCESS)
        with pytest.raises((botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError)):
            client.run_instances(ImageId="ami-1", MinCount=1, MaxCount=1)
        assert len(server.arrivals) == 4
        assert len(set(tokens(server))) == 1
        assert KEY not in tokens(server)


def test_retries_in_a_configuration_of_ones_own_are_turned_off_and_the_rest_is_kept() -> None:
    config = Config(retries={"total_max_attempts": 9, "mode": "adaptive"}, read_timeout=7, user_agent_extra="x")
    with counting(drop=True) as server:
        with pytest.raises(Ambiguous):
            launch(server, ScriptedCall(), config=config)
        assert len(server.arrivals) == 1
    settings = aws.client("ec2", config=config, **ACCESS).meta.config
    assert (settings.retries, settings.read_timeout) == ({"mode": "standard", "total_max_attempts": 1}, 7)


@pytest.mark.requirement("C07")
def test_an_action_without_our_token_is_refused_before_it_is_sent() -> None:
    with counting() as server:
        client, call = aws.client("ec2", endpoint_url=server.url, **ACCESS), ScriptedCall()
        with pytest.raises(NotSent, match="ClientToken") as caught, aws.sending(call, "ec2", contract=named(RUN)):
            client.run_instances(ImageId="ami-1", MinCount=1, MaxCount=1)
        assert (caught.value.code, server.arrivals, call.sends) == ("request_refused", [], [NEVER_LEFT + "ec2"])


@pytest.mark.requirement("R17")
def test_a_refused_connection_never_left() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        call = ScriptedCall()
        with pytest.raises(NotSent) as caught:
            launch(Counting(port=taken.getsockname()[1]), call)
    assert (caught.value.interval, call.sends) == (Interval.CONNECT, [NEVER_LEFT + "ec2 RunInstances"])


@pytest.mark.requirement("R17")
def test_parameters_that_do_not_fit_never_left() -> None:
    with counting() as server:
        client, call = aws.client("ec2", endpoint_url=server.url, **ACCESS), ScriptedCall()
        with pytest.raises(NotSent), aws.sending(call, "ec2", contract=named(RUN)) as token:
            client.run_instances(ImageId=7, ClientToken=token)
        assert server.arrivals == []


@failing
def test_a_read_that_fails_is_sent_once_and_is_not_remembered(how: dict[str, Any]) -> None:
    with counting(**how) as server:
        call = ScriptedCall()
        with pytest.raises(Ambiguous), aws.reading(call):
            aws.client("ec2", endpoint_url=server.url, **ACCESS).describe_instances()
        assert (len(server.arrivals), call.sends) == (1, [])


def answer(code: str) -> bytes:
    return json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "no"}).encode()


@pytest.mark.requirement("R17", "C04")
@pytest.mark.parametrize(
    ("act", "status", "code", "kind", "facts"),
    [
        (write, 400, "ValidationException", Rejected, {"retryable": False}),
        (write, 400, "IdempotentParameterMismatchException", Rejected, {"code": "key_conflict"}),
        (write, 400, "TransactionInProgressException", Ambiguous, {"code": "key_in_progress"}),
        (write, 400, "ProvisionedThroughputExceededException", Rejected, {"retryable": True}),
        (write, 400, "ThrottlingException", Rejected, {"retryable": True, "retry_after_s": 3.0}),
        (write, 503, "SlowDown", Rejected, {"retryable": True}),
        (write, 500, "InternalServerError", Ambiguous, {"status": 500}),
        (put_item, 400, "ConditionalCheckFailedException", Ambiguous, {"code": "already_exists"}),
    ],
)
def test_what_each_answer_means(act: Any, status: int, code: str, kind: type[CallEnded], facts: Any) -> None:
    with counting(status=status, body=answer(code), headers={"retry-after": "3"}) as server:
        with pytest.raises(CallEnded) as caught:
            act(server, ScriptedCall())
        assert len(server.arrivals) == 1
    assert type(caught.value) is kind
    assert {name: getattr(caught.value, name) for name in facts} == facts


@pytest.mark.parametrize(
    ("status", "kind", "code"), [(412, Ambiguous, "already_exists"), (409, Rejected, None), (404, Rejected, None)]
)
def test_what_an_object_store_answers(status: int, kind: type[CallEnded], code: str | None) -> None:
    said = b"<Error><Code>ConditionalRequestConflict</Code></Error>"
    with counting(status=status, body=said) as server:
        with pytest.raises(CallEnded) as caught:
            put_object(server, ScriptedCall())
        assert len(server.arrivals) == 1
    assert (type(caught.value), caught.value.code) == (kind, code)


def test_every_class_of_error_has_been_thought_about() -> None:
    kinds = [kind for kind in vars(botocore.exceptions).values() if inspect.isclass(kind)]
    base = botocore.exceptions.BotoCoreError
    found = {kind.__name__ for kind in kinds if issubclass(kind, base)}
    known = [aws.NEVER_CONNECTED, aws.NOBODY_KNOWS, aws.BEFORE_SENDING]
    assert len(found) > 50, "the vendor moved its errors"
    assert found <= frozenset().union(*known), f"new: {sorted(found - frozenset().union(*known))}"
    assert sum(map(len, known)) == len(frozenset().union(*known)), "each stands in one list"
    others = {kind for kind in kinds if issubclass(kind, Exception) and not issubclass(kind, (base, Warning))}
    assert {kind.__name__ for kind in others if kind.__module__ == "botocore.exceptions"} <= {
        "ClientError",
        "EventStreamError",
        "UnknownClientMethodError",
        "UnsupportedSignatureVersionError",
        *aws.BEFORE_SENDING,
    } | {kind.__name__ for kind in others if issubclass(kind, botocore.exceptions.ClientError)}


@pytest.mark.parametrize("kind", [*sorted(aws.NOBODY_KNOWS), "SomethingNew"])
def test_what_does_not_say_for_certain_is_unknown(kind: str) -> None:
    assert isinstance(aws.classify(type(kind, (Exception,), {})()), Ambiguous)


def test_an_upload_that_failed_inside_boto3_is_unknown() -> None:
    call = ScriptedCall()
    with pytest.raises(Ambiguous), aws.sending(call, "s3", contract=named(RUN)):
        raise boto3.exceptions.S3UploadFailedError("no")
    assert call.sends == ["s3"]
