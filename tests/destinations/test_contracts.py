"""The shipped contracts: each has its source, and what follows from each for a repeat is written here a second time.

A fact that is changed changes a line of the table, so nobody loosens a rule by editing data.
"""

import re

import pytest

from amends.core.contract import Contract, Lookup, Mechanism
from amends.core.evidence import Absent
from amends.core.model import Operation
from amends.core.reconcile import Absence, judge_absence, replay_allowed
from amends.core.states import State
from amends.core.terms import Recovery, Terms
from amends.destinations.contracts import ALL, named
from amends.destinations.http import KEY_CHARS

pytestmark = pytest.mark.requirement("R23", "G3")

CLAIMED, ENDS = 0, 20_000
SOON = ENDS + 1
AFTER = {"6 min": 360_000, "11 min": 660_000, "23 h": 82_800_000, "25 h": 90_000_000}

REPEAT, PERSON, CANNOT_TELL = Absence.HARMLESS_TO_REPEAT, Absence.NOTHING_MAKES_IT_SAFE, Absence.NOT_AUTHORITATIVE

STRIPE = [REPEAT, REPEAT, REPEAT, REPEAT, PERSON]
BY_STATE = [REPEAT] * 5
BLIND = [CANNOT_TELL] * 5
UNFENCED = [PERSON] * 5
PERMITTED = {
    "stripe.v1": BLIND,
    "stripe.v1.charges.create": STRIPE,
    "stripe.v1.charges.create.found_by_search": BLIND,
    "stripe.v1.charges.capture": STRIPE,
    "stripe.v1.refunds.create": STRIPE,
    "stripe.v1.payment_intents.create": STRIPE,
    "stripe.v1.customers.delete": BLIND,
    "github.git.refs.create": BLIND,
    "github.pulls.merge": BLIND,
    "github.pulls.create": BLIND,
    "aws.ec2.RunInstances": BLIND,
    "aws.s3.PutObject.if_none_match": BY_STATE,
    "aws.s3.PutObject.if_match": BY_STATE,
    "aws.dynamodb.PutItem.attribute_not_exists": BY_STATE,
    "aws.dynamodb.UpdateItem.condition": BY_STATE,
    "aws.dynamodb.TransactWriteItems": [REPEAT, REPEAT, PERSON, PERSON, PERSON],
    "aws.sqs.SendMessage.fifo": BLIND,
    "kubernetes.create": BY_STATE,
    "kubernetes.core.create": BY_STATE,
    "kubernetes.replace": BY_STATE,
    "kubernetes.core.replace": BY_STATE,
    "kubernetes.apply": UNFENCED,
    "kubernetes.create.generate_name": UNFENCED,
    "smtp.submit": BLIND,
}
"""Contract → what a complete "absent" means when it was read at once, after 6 and 11 minutes, 23 and 25 hours."""

REPLAYED_WITHOUT_A_LOOK = {
    "stripe.v1",
    "stripe.v1.charges.create",
    "stripe.v1.charges.create.found_by_search",
    "stripe.v1.charges.capture",
    "stripe.v1.refunds.create",
    "stripe.v1.payment_intents.create",
    "aws.dynamodb.TransactWriteItems",
    "aws.sqs.SendMessage.fifo",
}
"""Where policy may allow a replay without a look, once a bound on late arrival is declared."""

each = pytest.mark.parametrize("contract", ALL, ids=lambda contract: contract.name)


def terms(contract: Contract, *, policy: bool = True) -> Terms:
    return Terms(
        action="act",
        recovery=Recovery.COMPENSATABLE,
        version="v1",
        target_template="t",
        contract=contract,
        replay_without_lookup=policy,
    )


OPERATION = Operation(
    id="op_1",
    key="am1_key",
    action="act",
    recovery="compensatable",
    state=State.RECONCILING,
    params_hash="h",
    effect_version="v1",
    identity="t",
    attempts=1,
    unknown_attempts=1,
    first_claim_at=CLAIMED,
    attempt_at=CLAIMED,
    attempt_ends_at=ENDS,
    lookups=1,
)


@each
def test_what_an_absent_permits(contract: Contract) -> None:
    reads = [SOON, *AFTER.values()]
    judged = [judge_absence(OPERATION, terms(contract), Absent(complete=True), read_at=at, now=at) for at in reads]
    assert [judgement.absence for judgement in judged] == PERMITTED[contract.name]


@each
def test_no_absent_counts_that_was_read_before_the_attempt_could_have_ended(contract: Contract) -> None:
    judged = judge_absence(OPERATION, terms(contract), Absent(complete=True), read_at=ENDS, now=ENDS)
    assert judged.absence in (Absence.TOO_EARLY, Absence.NOT_AUTHORITATIVE)


@each
def test_none_is_replayed_without_a_look_until_a_bound_on_late_arrival_is_declared(contract: Contract) -> None:
    assert contract.late_arrival_bound_s is None
    assert not replay_allowed(OPERATION, terms(contract), now=SOON)
    bounded = contract.with_(late_arrival_bound_s=60.0)
    assert replay_allowed(OPERATION, terms(bounded), now=SOON) is (contract.name in REPLAYED_WITHOUT_A_LOOK)
    assert not replay_allowed(OPERATION, terms(bounded, policy=False), now=SOON)


@each
def test_each_contract_says_where_its_facts_are_published_and_when_they_were_read(contract: Contract) -> None:
    assert re.fullmatch(r"([^<>;]+ <https://\S+>(; )?)+read \d{4}-\d{2}-\d{2}", contract.source), contract.source
    assert contract.note


@each
def test_each_contract_takes_our_keys_and_claims_no_retention_without_a_key(contract: Contract) -> None:
    assert contract.key_chars_max >= KEY_CHARS
    if contract.mechanism is not Mechanism.IDEMPOTENCY_KEY:
        assert (contract.key_retention_s, contract.idempotency_header, contract.replays_success) == (None, "", False)


def test_names_are_unique_and_the_table_covers_them_all() -> None:
    names = [contract.name for contract in ALL]
    assert len(set(names)) == len(names)
    assert set(PERMITTED) == set(names)
    assert {contract.name.partition(".")[0] for contract in ALL} == {"stripe", "github", "aws", "kubernetes", "smtp"}


def test_a_contract_is_found_by_its_name() -> None:
    assert named("stripe.v1.charges.create").lookup is Lookup.STRONG
    with pytest.raises(LookupError, match=r"stripe\.v1\.refunds\.create"):
        named("stripe.v2")


@pytest.mark.parametrize(
    ("endpoint", "method", "path", "covered"),
    [
        ("", "DELETE", "/x", True),
        ("POST /v1/charges", "POST", "/v1/charges", True),
        ("POST /v1/charges", "GET", "/v1/charges", False),
        ("POST /v1/charges", "POST", "/v1/charges/ch_1", False),
        ("POST /v1/charges/{id}/capture", "POST", "/v1/charges/ch_1/capture", True),
        ("POST /v1/charges/{id}/capture", "POST", "/v1/charges//capture", False),
        ("POST /v1/charges/{id}/capture", "POST", "/v1/charges/a/b/capture", False),
    ],
)
def test_which_requests_an_endpoint_is_about(endpoint: str, method: str, path: str, covered: bool) -> None:
    assert Contract(name="c", endpoint=endpoint).covers(method, path) is covered


@pytest.mark.parametrize("endpoint", ["/v1/charges", "post /v1", "POST v1", "POST /v1?a=b", "POST /v1 /v2"])
def test_an_endpoint_that_is_none_is_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match="endpoint"):
        Contract(name="c", endpoint=endpoint)
