"""A program that calls wrongly is told what it did, and what to write instead."""

from pathlib import Path
from typing import Any

import pytest

from amends import Amends, Call, Partial, Receipt, UsageError, VerificationFailed


def wired(path: Path) -> Amends:
    return Amends(path / "ledger.db")


async def charge(call: Call, *, order: str) -> Receipt:
    return Receipt(resource="ch_1")


@pytest.mark.parametrize("verb", ["do", "propose"])
@pytest.mark.parametrize(
    ("what", "said"),
    [
        (charge, r"the function 'charge'.*@app\.effect\("),
        ("charge", r"'charge' \(a str\).*@app\.effect\("),
        (None, r"None \(a NoneType\).*@app\.effect\("),
    ],
)
async def test_what_is_no_effect_is_refused_with_the_decorator_that_makes_one(
    tmp_path: Path, verb: str, what: Any, said: str
) -> None:
    app = wired(tmp_path)
    async with app, app.run("sale", event="1") as run:
        with pytest.raises(UsageError, match=said):
            await getattr(run, verb)(what, order="1")
    assert run.outcome() == "completed"


async def test_an_effect_is_not_read_and_a_read_is_not_done(tmp_path: Path) -> None:
    app = wired(tmp_path)
    effect = app.effect("charge", recovery="irreversible", target="{order}", owner="us", lookup="escalate")(charge)

    @app.read("account", basis="contract")
    async def account(call: Call) -> str:
        return "a"

    async with app, app.run("sale", event="1") as run:
        with pytest.raises(UsageError, match=r"the read 'account'.*run\.read"):
            await run.do(account)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=r"the effect 'charge'.*run\.do"):
            await run.read(effect)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=r"the function 'charge'.*@app\.read\("):
            await run.read(charge)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("promises", "said"),
    [
        ({"idempotency_heder": "Idempotency-Key"}, "'idempotency_heder'.*did you mean 'idempotency_header'"),
        ({"colour": "red"}, "'colour'.*key_retention_s.*lookup_lag_s"),
        ({"lookup": "sometimes"}, "lookup='sometimes'.*none, strong, eventual"),
        ({"mechanism": "hope"}, "mechanism='hope'.*idempotency_key"),
        ({"key_retention_s": -1}, "key_retention_s"),
    ],
)
def test_a_promise_that_a_destination_cannot_make_is_named(tmp_path: Path, promises: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=f"destination 'till'.*{said}"):
        wired(tmp_path).destination("till", base_url="https://till.example", **promises)


def test_an_address_that_is_none_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"destination 'till'.*ftp"):
        wired(tmp_path).destination("till", base_url="ftp://till.example")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"recovery": "retryable"}, "recovery='retryable'.*reversible, compensatable, irreversible, unknown"),
        ({"exposure": "huge"}, "exposure='huge'.*low, moderate, high"),
        ({"target": "order:{order"}, "effect 'charge'.*target"),
    ],
)
@pytest.mark.requirement("R1")
def test_a_word_that_a_registration_does_not_know_is_refused_with_those_it_does(
    tmp_path: Path, words: dict[str, Any], said: str
) -> None:
    values = {"recovery": "irreversible", "target": "order:{order}", "owner": "us", **words}
    with pytest.raises(UsageError, match=said):
        wired(tmp_path).effect("charge", **values)(charge)


def test_a_level_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"level='all'.*verification, idempotency, ledger, recovery, graph"):
        Amends(tmp_path / "ledger.db", level="all")


@pytest.mark.requirement("R17")
async def test_a_part_that_surely_happened_goes_to_a_person_and_is_not_tried_again(tmp_path: Path) -> None:
    app, sent = wired(tmp_path), []

    @app.effect("pay_all", recovery="irreversible", target="{batch}", owner="us", lookup="escalate")
    async def pay_all(call: Call, *, batch: str) -> Receipt:
        sent.append(call.attempt)
        raise Partial("2 of 3 were paid")

    async with app, app.run("sale", event="1") as run:
        with pytest.raises(VerificationFailed):
            await run.do(pay_all, batch="b1")
        [operation] = run.state.operations.values()
    assert (sent, operation.state, operation.reason) == ([1], "reconciliation_required", "partial")
    assert run.outcome() == "failed_reconciliation_required"
