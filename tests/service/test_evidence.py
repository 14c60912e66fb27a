"""Evidence that comes from outside, late, or from a lookup that something else overtook."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from placing import Place, effect_of

from amends.bootstrap import Amends
from amends.core.evidence import Found, Observation, Receipt
from amends.core.failures import Ambiguous, Rejected
from amends.core.history import history
from amends.core.states import Kind
from amends.errors import Conflict, NotCommitted, OutcomeUnknown, Refused, VerificationFailed
from amends.service.call import Call


@pytest.mark.requirement("R24", "C14")
async def test_evidence_from_outside_settles_an_unknown_outcome_and_plans_no_repeat(tmp_path: Path) -> None:
    app, place = Amends(tmp_path / "ledger.db"), Place()
    make = effect_of(app, place, lookup="escalate")
    make.lookup_function = None

    async def lost(call: Call, *, name: str, note: Any = "") -> Receipt:
        place.calls.append(call)
        place.take(call)
        raise Ambiguous("no answer")

    make.function = lost
    async with app:
        with pytest.raises(OutcomeUnknown) as unknown:
            async with app.run("job", event="e:1", wait_s=0.0) as run:
                await run.do(make, name="a")
        operation = str(unknown.value.operation)
        for _ in range(2):
            await app.evidence(operation, Receipt(resource="r0", correlation=place.calls[0].key))
        row = app.ledger.operation(operation)
        with pytest.raises(Refused, match="correlation"):
            await app.evidence(operation, Receipt(resource="r9"))
    assert row is not None
    assert (row.state, row.resource) == ("verified", "r0")
    assert len(place.calls) == 1


@pytest.mark.requirement("R21", "R24", "R25", "G7")
async def test_a_duplicate_stays_for_a_person_when_a_webhook_of_one_of_the_records_comes(tmp_path: Path) -> None:
    app, place = Amends(tmp_path / "ledger.db"), Place()
    make = effect_of(app, place)

    async def lost(call: Call, *, name: str, note: Any = "") -> Receipt:
        place.calls.append(call)
        raise Ambiguous("no answer")

    async def two(call: Call) -> Observation:
        return Found(*[Receipt(resource=f"r{n}", correlation=call.key) for n in range(2)])

    make.function, make.lookup_function = lost, two
    async with app:
        with pytest.raises(VerificationFailed) as failed:
            async with app.run("job", event="e:1") as run:
                await run.do(make, name="a")
        operation = str(failed.value.operation)
        await app.evidence(operation, Receipt(resource="r0", correlation=place.calls[0].key))
        row = app.ledger.operation(operation)
        assert row is not None
        assert row.state == "reconciliation_required"
        assert run.outcome() == "failed_reconciliation_required"


@pytest.mark.requirement("R24", "R12")
async def test_evidence_that_comes_before_the_first_claim_stops_the_send(tmp_path: Path) -> None:
    app, place = Amends(tmp_path / "ledger.db"), Place()
    make = effect_of(app, place)
    async with app:
        async with app.run("job", event="e:1") as run:
            operation = await run.propose(make, name="a")
            key = run.state.operations[operation].key
            await app.evidence(operation, Receipt(resource="r0", correlation=key))
            with pytest.raises(VerificationFailed, match="made_before_any_attempt"):
                await run.do(make, name="a")
        assert place.calls == []


async def lose(call: Call, *, name: str, note: Any = "") -> Receipt:
    raise Ambiguous("no answer")


@pytest.mark.requirement("R21", "R24", "G7")
async def test_several_records_in_one_piece_of_evidence_are_never_believed_for_a_moment(tmp_path: Path) -> None:
    app, place = Amends(tmp_path / "ledger.db"), Place()
    make = effect_of(app, place, lookup="escalate")
    make.function, make.lookup_function = lose, None
    async with app:
        with pytest.raises(OutcomeUnknown) as unknown:
            async with app.run("job", event="e:1", wait_s=0.0) as run:
                await run.do(make, name="a")
        operation, key = str(unknown.value.operation), str(unknown.value.key)
        await app.evidence(operation, Found(*[Receipt(resource=f"r{n}", correlation=key) for n in range(2)]))
        kinds = [step.event.kind for step in history(run.id, app.ledger.load(run.id)).steps]
        row = app.ledger.operation(operation)
    assert row is not None
    assert (row.state, row.reason) == ("reconciliation_required", "several_matches")
    assert Kind.POSTCONDITION_VERIFIED not in kinds


@pytest.mark.requirement("R24")
async def test_evidence_about_another_operation_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    app, place = Amends(tmp_path / "ledger.db"), Place()
    make = effect_of(app, place)
    async with app:
        async with app.run("job", event="e:1") as run:
            await run.do(make, name="a")
        [operation] = run.state.operations
        with pytest.raises(Refused, match="something else"):
            await app.evidence(operation, Receipt(resource="r7", correlation="am1_another"))
        row = app.ledger.operation(operation)
    assert row is not None
    assert row.state == "verified"


@pytest.mark.requirement("R21", "R24", "R25")
@pytest.mark.parametrize("seen", [["r0", "r1"], ["r1"]])
async def test_a_duplicate_that_a_lookup_saw_is_kept_although_a_webhook_was_faster(
    tmp_path: Path, seen: list[str]
) -> None:
    app, place = Amends(tmp_path / "ledger.db"), Place()
    make = effect_of(app, place)
    asked, told = asyncio.Event(), asyncio.Event()

    async def slow(call: Call) -> Observation:
        asked.set()
        await told.wait()
        return Found(*[Receipt(resource=resource, correlation=call.key) for resource in seen])

    make.function, make.lookup_function = lose, slow
    async with app:
        async with app.run("job", event="e:1") as run:
            doing = asyncio.ensure_future(run.do(make, name="a"))
            await asked.wait()
            [(operation, known)] = run.state.operations.items()
            await app.evidence(operation, Receipt(resource="r0", correlation=known.key))
            told.set()
            await asyncio.wait({doing})
            assert isinstance(doing.exception(), VerificationFailed)
        assert run.outcome() == "failed_reconciliation_required"


def refuse_once(place: Place) -> Any:
    async def make(call: Call, *, name: str, note: Any = "") -> Receipt:
        place.calls.append(call)
        if len(place.calls) == 1:
            raise Rejected("no", status=422, code="odd")
        return Receipt(resource="r9", correlation=call.key)

    return make


@pytest.mark.requirement("R5", "R24", "R21")
async def test_a_record_of_what_was_revised_and_sent_again_is_a_duplicate(tmp_path: Path) -> None:
    app, place = Amends(tmp_path / "ledger.db"), Place()
    make = effect_of(app, place)
    make.function = refuse_once(place)
    async with app:
        async with app.run("job", event="e:1") as run:
            with pytest.raises(NotCommitted):
                await run.do(make, name="a", note="wrong")
            await run.do(make, name="a", note="right")
        first = next(iter(run.state.operations.values()))
        assert run.outcome() == "completed"
        await app.evidence(first.id, Receipt(resource="r0", correlation=first.key))
        row, ended = app.ledger.operation(first.id), app.ledger.run(run.id)
    assert row is not None
    assert ended is not None
    assert (row.state, row.reason) == ("reconciliation_required", "revised_already")
    assert ended.ending == "failed_reconciliation_required"


@pytest.mark.requirement("R5", "R24", "R10")
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_evidence_of_what_was_revised_stops_the_revision_that_was_not_sent(
    tmp_path: Path, elsewhere: bool
) -> None:
    app, place = Amends(tmp_path / "ledger.db"), Place()
    make = effect_of(app, place)
    make.function = refuse_once(place)
    async with app:
        async with app.run("job", event="e:1") as run:
            with pytest.raises(NotCommitted):
                await run.do(make, name="a", note="wrong")
            first = next(iter(run.state.operations.values()))
        async with app.run("job", event="e:2" if elsewhere else "e:1", intent=run.intent) as second:
            revision = await second.propose(make, name="a", note="right")
            assert revision != first.id
            await app.evidence(first.id, Receipt(resource="r0", correlation=first.key))
            with pytest.raises((NotCommitted, Conflict)):
                await second.do(make, name="a", note="right")
        row = app.ledger.operation(first.id)
    assert row is not None
    assert row.state == "verified"
    assert len(place.calls) == 1
