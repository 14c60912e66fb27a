"""Amazon Web Services: keys are parameters of the action, not headers, and each service has its own.

Errors are told apart by their code; the status is 400 for most of them.
"""

from typing import Final

from amends.core.contract import Contract, Lookup, Mechanism
from amends.destinations.contracts._citing import cited

_EC2_TOKEN = (
    "Amazon EC2 Developer Guide, Ensuring idempotency",
    "https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html",
)
_EC2_LAG = (
    "Amazon EC2 Developer Guide, Eventual consistency",
    "https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html",
)
_S3_CONDITIONS = (
    "Amazon S3 API Reference, PutObject (service model of botocore 1.44.8)",
    "https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutObject.html",
)
_S3_READS = (
    "Amazon S3 User Guide, data consistency model (as quoted elsewhere)",
    "https://docs.aws.amazon.com/AmazonS3/latest/userguide/Welcome.html#ConsistencyModel",
)
_DYNAMODB = (
    "Amazon DynamoDB API Reference (service model of botocore 1.44.8)",
    "https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/Welcome.html",
)
_SQS = (
    "Amazon SQS API Reference, SendMessage (service model of botocore 1.44.8)",
    "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html",
)

RUN_INSTANCES: Final = Contract(
    name="aws.ec2.RunInstances",
    endpoint="POST /",
    mechanism=Mechanism.IDEMPOTENCY_KEY,
    key_chars_max=64,
    replays_success=True,
    refuses_changed_parameters=True,
    key_conflict=((400, "IdempotentParameterMismatch"),),
    lookup=Lookup.EVENTUAL,
    source=cited(_EC2_TOKEN, _EC2_LAG),
    note="ClientToken. How long it is kept is no longer published (older pages: 24 hours past the end of the "
    "instance), so it is not counted on. NotFound is not absent.",
)

PUT_OBJECT_IF_ABSENT: Final = Contract(
    name="aws.s3.PutObject.if_none_match",
    endpoint="PUT /{bucket}/{key}",
    mechanism=Mechanism.CONDITIONAL_CREATE,
    lookup=Lookup.STRONG,
    already_exists=((412, ""),),
    refused_for_now=((409, "ConditionalRequestConflict"),),
    error_code_at=(),
    source=cited(_S3_CONDITIONS, _S3_READS),
    note="With `If-None-Match: *`. A deleted object no longer fences.",
)

PUT_OBJECT_IF_MATCH: Final = PUT_OBJECT_IF_ABSENT.with_(
    name="aws.s3.PutObject.if_match",
    mechanism=Mechanism.COMPARE_AND_SET,
    already_exists=(),
    note="With If-Match and the ETag that was read.",
)

PUT_ITEM_IF_ABSENT: Final = Contract(
    name="aws.dynamodb.PutItem.attribute_not_exists",
    endpoint="POST /",
    mechanism=Mechanism.CONDITIONAL_CREATE,
    lookup=Lookup.STRONG,
    already_exists=((400, "ConditionalCheckFailedException"),),
    error_code_at=("__type",),
    source=cited(_DYNAMODB),
    note="With attribute_not_exists(partition key). The lookup reads with ConsistentRead.",
)

UPDATE_ITEM_IF: Final = Contract(
    name="aws.dynamodb.UpdateItem.condition",
    endpoint="POST /",
    mechanism=Mechanism.COMPARE_AND_SET,
    lookup=Lookup.STRONG,
    precondition_failed=((400, "ConditionalCheckFailedException"),),
    error_code_at=("__type",),
    source=cited(_DYNAMODB),
    note="With a condition on the version that the update itself changes. The lookup reads with ConsistentRead.",
)

TRANSACT_WRITE: Final = Contract(
    name="aws.dynamodb.TransactWriteItems",
    endpoint="POST /",
    mechanism=Mechanism.IDEMPOTENCY_KEY,
    key_retention_s=600,
    key_chars_max=36,
    replays_success=True,
    refuses_changed_parameters=True,
    key_conflict=((400, "IdempotentParameterMismatchException"), (400, "IdempotentParameterMismatch")),
    key_in_progress=((400, "TransactionInProgressException"),),
    lookup=Lookup.STRONG,
    error_code_at=("__type",),
    source=cited(_DYNAMODB),
    note="ClientRequestToken, ten minutes. The lookup reads with ConsistentRead.",
)

SEND_MESSAGE_FIFO: Final = Contract(
    name="aws.sqs.SendMessage.fifo",
    endpoint="POST /",
    mechanism=Mechanism.IDEMPOTENCY_KEY,
    key_retention_s=300,
    key_chars_max=128,
    replays_success=True,
    key_conflict=(),
    error_code_at=("__type",),
    source=cited(_SQS),
    note="MessageDeduplicationId, five minutes, also after the message is deleted. "
    "Another body under the same id is accepted and swallowed. There is no lookup.",
)

ALL: Final = (
    RUN_INSTANCES,
    PUT_OBJECT_IF_ABSENT,
    PUT_OBJECT_IF_MATCH,
    PUT_ITEM_IF_ABSENT,
    UPDATE_ITEM_IF,
    TRANSACT_WRITE,
    SEND_MESSAGE_FIFO,
)
