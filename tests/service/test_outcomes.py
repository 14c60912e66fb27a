"""What a program is told, and what is sent, for every way in which a call can end.

The destination here is an object beside the application; it counts the effects that were made.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from terms import FENCED, QUICK

from amends.bootstrap import Amends, answer
from amends.core.chain import Entry
from amends.core.contract import Contract, Lookup
from amends.core.evidence import Absent, Found, Observation, Receipt, Unsure
from amends.core.failures import NotSent, Rejected
from amends.core.model import Operation
from amends.core.states import State
from amends.errors import (
    ArgumentsRefused,
    Conflict,
    LedgerUnavailable,
    NotCommitted,
    OutcomeUnknown,
    RegistrationError,
    UsageError,
    VerificationFailed,
)
from amends.ledger import rebuild
from amends.ports.ledger import Answer, Append
from amends.service.call import Call
from amends.service.registry import Effect

UNFENCED = Contract(name="unfenced", lookup=Lookup.STRONG)

Behaviour = Callable[[Call], Awaitable[None]]


class World:
    """A destination that counts: ``made`` is what happened, ``sent`` every call that arrived."""

    def __init__(self) -> None:
        self.made: list[Receipt] = []
        self.sent: list[str] = []
        self.before: Behaviour | None = None
        self.after: Behaviour | None = None
        self.observation: Observation | None = None
        self.looks = 0
        self.looked_often = asyncio.Event()

    async def make(self, call: Call) -> Receipt:
        self.sent.append(call.key)
        if self.before:
            await self.before(call)
        receipt = Receipt(resource=f"r{len(self.made)}", correlation=call.key)
        self.made.append(receipt)
        if self.after:
            await self.after(call)
        return receipt

    async def find(self, call: Call) -> Observation:
        self.looks += 1
        if self.looks == 3:  # the third look comes after the attempt's budget
            self.looked_often.set()
        if self.observation is not None:
            return self.observation
        ours = [receipt for receipt in self.made if receipt.correlation == call.key]
        return Found(*ours) if ours else Absent(complete=True)


def wired(path: Path, world: World, contract: Contract = FENCED, timeout_s: float = 5.0) -> tuple[Amends, Effect]:
    app = Amends(path / "ledger.db")

    @app.effect(
        "make",
        recovery="compensatable",
        target="thing:{name}",
        owner="us",
        destination=contract,
        retry=QUICK,
        execution_timeout_s=timeout_s,
    )
    async def make(call: Call, *, name: str, size: int = 1) -> Receipt:
        return await world.make(call)

    make.lookup(world.find)
    return app, make


def once(action: Callable[[], None]) -> Behaviour:
    """Do ``action`` at the first call only."""
    left = [action]

    async def behave(_: Call) -> None:
        if left:
            left.pop()()

    return behave


def raising(error: Exception) -> Callable[[], None]:
    def action() -> None:
        raise error

    return action


@pytest.mark.requirement("R11", "R17", "R21", "G3", "E07")
@pytest.mark.parametrize("error", [ConnectionResetError(), TimeoutError(), ValueError("odd"), KeyError("x")])
async def test_an_effect_whose_response_is_lost_is_found_and_not_made_again(tmp_path: Path, error: Exception) -> None:
    world = World()
    world.after = once(raising(error))
    app, make = wired(tmp_path, world)
    async with app, app.run("job", event="e1") as run:
        receipt = await run.do(make, name="a")
    assert (receipt.resource, len(world.made), len(world.sent)) == ("r0", 1, 1)
    assert run.outcome() == "completed"
    assert rebuild.check(tmp_path / "ledger.db") == []


@pytest.mark.requirement("R18", "R22", "G3", "G8", "C07")
async def test_absent_at_a_fenced_destination_is_sent_again_under_the_same_key(tmp_path: Path) -> None:
    world = World()
    world.before = once(raising(ConnectionResetError()))
    app, make = wired(tmp_path, world, timeout_s=0.05)
    async with app, app.run("job", event="e1") as run:
        await run.do(make, name="a")
    assert (len(world.made), len(world.sent), len(set(world.sent))) == (1, 2, 1)


@pytest.mark.requirement("R18", "R25", "G3", "G7")
async def test_absent_without_fence_and_bound_goes_to_a_person_and_is_never_sent_again(tmp_path: Path) -> None:
    world = World()
    world.before = once(raising(ConnectionResetError()))
    app, make = wired(tmp_path, world, UNFENCED, timeout_s=0.05)
    async with app:
        with pytest.raises(OutcomeUnknown):
            async with app.run("job", event="e1") as run:
                await run.do(make, name="a")
        assert run.outcome() == "unknown"
        for _ in range(3):
            await app.recover()
            with pytest.raises(OutcomeUnknown):
                await run.do(make, name="a")
    assert len(world.sent) == 1


@pytest.mark.requirement("R22", "E13", "E11")
@pytest.mark.parametrize("answer", [Absent(complete=False), Unsure("index down")])
async def test_a_lookup_that_could_not_tell_permits_nothing(tmp_path: Path, answer: Observation) -> None:
    world = World()
    world.observation = answer
    world.after = once(raising(ConnectionResetError()))
    app, make = wired(tmp_path, world, timeout_s=0.05)
    async with app:
        caller = asyncio.ensure_future(one(app, make))
        async with asyncio.timeout(30):
            await world.looked_often.wait()
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        [row] = app.ledger.unresolved()
        assert (row.state, row.attempts) in {(State.OUTCOME_UNKNOWN, 1), (State.RECONCILING, 1)}
    assert (len(world.made), len(world.sent)) == (1, 1)


def ending(app: Amends) -> str | None:
    """The ending of the one job that was run."""
    [job] = [row for row in app.ledger.runs() if row.type == "job"]
    return job.ending


async def one(app: Amends, make: Effect) -> Receipt:
    async with app.run("job", event="e1") as run:
        return await run.do(make, name="a")


@pytest.mark.requirement("R21", "C03")
async def test_two_records_under_one_key_are_a_duplicate_and_neither_is_adopted(tmp_path: Path) -> None:
    world = World()
    world.after = once(raising(ConnectionResetError()))
    app, make = wired(tmp_path, world)
    key = []

    async def find(call: Call) -> Observation:
        key.append(call.key)
        return Found(Receipt(resource="x", correlation=call.key), Receipt(resource="y", correlation=call.key))

    make.lookup(find)
    async with app:
        with pytest.raises(VerificationFailed):
            await one(app, make)
        assert ending(app) == "failed_reconciliation_required"


@pytest.mark.requirement("R21", "R19")
@pytest.mark.parametrize("record", [{"correlation": None}, {"correlation": "another"}])
async def test_a_found_record_that_is_not_surely_ours_is_not_adopted(
    tmp_path: Path, record: dict[str, str | None]
) -> None:
    world = World()
    world.after = once(raising(ConnectionResetError()))
    world.observation = Found(Receipt(resource="x", correlation=record["correlation"]))
    app, make = wired(tmp_path, world)
    async with app:
        with pytest.raises(VerificationFailed):
            await one(app, make)
    assert len(world.sent) == 1


@pytest.mark.requirement("R17", "R18", "F14", "R36")
async def test_a_refusal_by_the_destination_is_final_and_not_retried(tmp_path: Path) -> None:
    world = World()
    world.before = once(raising(Rejected("card declined", status=402)))
    app, make = wired(tmp_path, world)
    async with app:
        for _ in range(2):
            with pytest.raises(NotCommitted):
                await one(app, make)
        assert ending(app) == "failed_clean"
    assert (len(world.sent), len(world.made)) == (1, 0)


@pytest.mark.requirement("R5")
async def test_after_proof_that_nothing_happened_a_corrected_request_is_a_linked_revision(tmp_path: Path) -> None:
    world = World()
    world.before = once(raising(Rejected("too large", status=402)))
    app, make = wired(tmp_path, world)
    async with app, app.run("job", event="e1") as run:
        with pytest.raises(NotCommitted):
            await run.do(make, name="a", size=9)
        await run.do(make, name="a", size=2)
        first, second = run.state.operations.values()
        assert (second.revision, second.previous) == (1, first.id)
    assert (len(world.made), len(set(world.sent))) == (1, 2)


@pytest.mark.requirement("R17", "R18")
async def test_a_call_that_never_left_is_tried_again_within_its_budget_of_attempts(tmp_path: Path) -> None:
    world = World()

    async def never(_: Call) -> None:
        raise NotSent("refused")

    world.before = never
    app, make = wired(tmp_path, world)
    async with app:
        with pytest.raises(NotCommitted):
            await one(app, make)
    assert (len(world.sent), len(world.made)) == (QUICK.attempts, 0)


@pytest.mark.requirement("R17", "R18")
async def test_a_request_that_the_client_refuses_to_make_is_final_and_not_tried_again(tmp_path: Path) -> None:
    world = World()

    async def refuse(_: Call) -> None:
        raise NotSent("the header has a line break", code="request_refused")

    world.before = refuse
    app, make = wired(tmp_path, world)
    async with app:
        with pytest.raises(NotCommitted, match="request_refused"):
            await one(app, make)
        assert ending(app) == "failed_clean"
    assert (len(world.sent), len(world.made)) == (1, 0)


@pytest.mark.requirement("R5", "R6")
async def test_the_same_key_with_other_parameters_is_refused_and_both_sets_are_shown(tmp_path: Path) -> None:
    world = World()
    app, make = wired(tmp_path, world)
    async with app, app.run("job", event="e1") as run:
        await run.do(make, name="a", size=1)
        with pytest.raises(Conflict) as refused:
            await run.do(make, name="a", size=2)
    assert refused.value.requested == {"name": "a", "size": 2}
    assert refused.value.recorded == {"name": "a", "size": 1}
    assert len(world.made) == 1


@pytest.mark.requirement("R6", "A16", "C08")
async def test_again_on_purpose_acts_once_more_and_once_only(tmp_path: Path) -> None:
    world = World()
    app, make = wired(tmp_path, world)
    async with app, app.run("job", event="e1") as run:
        for again in ("", "2", "2", ""):
            await run.do(make, name="a", again=again)
    assert len(world.made) == 2


@pytest.mark.requirement("R3", "R12", "G2", "C19", "A02")
async def test_two_hundred_tasks_with_one_key_make_one_effect_and_all_get_its_receipt(tmp_path: Path) -> None:
    world = World()
    app, make = wired(tmp_path, world)
    async with app:
        async with app.run("job", event="e0") as run:  # a task that writes alone would be done before the others begin
            await run.do(make, name="a")
        receipts = await asyncio.gather(*[one(app, make) for _ in range(200)])
    assert {receipt.resource for receipt in receipts} == {"r1"}
    assert len(world.sent) == 2


@pytest.mark.requirement("R11", "R24", "G3")
async def test_a_caller_cancelled_after_the_call_left_leaves_unknown_and_recovery_finds_it(tmp_path: Path) -> None:
    world, left = World(), asyncio.Event()

    async def hang(_: Call) -> None:
        left.set()
        await asyncio.Event().wait()

    world.after = hang
    app, make = wired(tmp_path, world)
    async with app:
        caller = asyncio.ensure_future(one(app, make))
        await left.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        [row] = app.ledger.unresolved()
        assert row.state == State.OUTCOME_UNKNOWN
        assert (await app.recover()).runs == 1
        assert app.ledger.unresolved() == []
        world.after = None
        assert (await one(app, make)).resource == "r0"
    assert len(world.sent) == 1


@pytest.mark.requirement("R1", "R16")
async def test_registrations_are_refused_together_at_start(tmp_path: Path) -> None:
    app = Amends(tmp_path / "ledger.db")
    for name in ("one", "two"):

        @app.effect(name, recovery="unknown", target="t", owner="")
        async def effect(call: Call) -> Receipt:
            return Receipt(resource="x")

    with pytest.raises(RegistrationError) as refused:
        await app.__aenter__()
    assert len(refused.value.findings) == 4
    with pytest.raises(UsageError, match="risky"):
        app.effect("three", recovery="risky", target="t", owner="us")(effect.function)
    with pytest.raises(UsageError):
        app.effect("one", recovery="unknown", target="t", owner="us")


@pytest.mark.requirement("R7")
async def test_an_argument_without_a_canonical_form_is_refused_before_anything_is_recorded(tmp_path: Path) -> None:
    world = World()
    app, make = wired(tmp_path, world)
    async with app, app.run("job", event="e1") as run:
        for wrong in ({"name": "a", "size": float("nan")}, {"name": object()}, {"other": 1}):
            with pytest.raises(ArgumentsRefused):
                await run.do(make, **wrong)
        assert run.state.version == 0
    assert world.sent == []


@pytest.mark.requirement("R8")
async def test_an_operation_verified_by_its_receipt_costs_two_commits(tmp_path: Path) -> None:
    app, make = wired(tmp_path, World())
    async with app, app.run("job", event="e1") as run:
        before = app.ledger.counts.commits
        for name in "abc":
            await run.do(make, name=name)
        assert app.ledger.counts.commits - before == 3 * 2


@pytest.mark.requirement("R17", "R18", "G3")
@pytest.mark.parametrize("end", [NotSent("no connection"), Rejected("no", status=400)])
async def test_a_second_send_that_is_refused_does_not_prove_that_the_first_did_nothing(
    tmp_path: Path, end: Exception
) -> None:
    world = World()
    app, make = wired(tmp_path, world)

    async def twice(call: Call, **_: object) -> Receipt:
        call.about_to_send("POST /first")
        await world.make(call)
        call.about_to_send("POST /second")
        raise end

    make.function = twice
    async with app, app.run("job", event="e1") as run:
        assert (await run.do(make, name="a")).resource == "r0"
    assert len(world.made) == 1


@pytest.mark.requirement("R17", "R25", "G3")
def test_an_operation_that_waits_for_a_repeat_is_never_answered_with_nothing_happened() -> None:
    waiting = Operation(
        id="op_x",
        key="am1_x",
        action="make",
        recovery="compensatable",
        state=State.RETRYABLE,
        params_hash="",
        effect_version="",
        identity="",
    )
    for unsettled in (waiting._replace(wake_at=1), waiting._replace(unknown_attempts=1)):
        with pytest.raises(OutcomeUnknown):
            answer("run_x", unsettled)
    with pytest.raises(NotCommitted):
        answer("run_x", waiting)


@pytest.mark.requirement("R8", "R13", "G1")
async def test_nobody_is_answered_from_an_append_that_is_not_durable_yet(tmp_path: Path) -> None:
    world, called, durable = World(), asyncio.Event(), asyncio.Event()
    app, make = wired(tmp_path, world)
    append = app.ledger.append

    async def slow(entry: Append) -> Answer:
        if world.made:
            called.set()
            await durable.wait()
        return await append(entry)

    async with app, app.run("job", event="e1") as run:
        app.ledger.append = slow  # type: ignore[method-assign]
        first = asyncio.ensure_future(run.do(make, name="a"))
        await called.wait()
        second = asyncio.ensure_future(run.do(make, name="a"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not second.done()
        durable.set()
        assert await first == await second


@pytest.mark.requirement("R8", "R14")
async def test_a_run_whose_append_failed_goes_on_from_what_is_recorded(tmp_path: Path) -> None:
    world = World()
    app, make = wired(tmp_path, world)
    append, load = app.ledger.append, app.ledger.load

    async def failing(_: Append) -> Answer:
        raise LedgerUnavailable("the disk is full")

    def unreadable(_: str) -> list[Entry]:
        raise LedgerUnavailable("the disk is away")

    async with app, app.run("job", event="e1") as run:
        await run.do(make, name="a")
        app.ledger.append, app.ledger.load = failing, unreadable  # type: ignore[method-assign]
        with pytest.raises(LedgerUnavailable):
            await run.do(make, name="b")
        app.ledger.append, app.ledger.load = append, load  # type: ignore[method-assign]
        await run.do(make, name="b")
    assert len(world.made) == 2
    assert rebuild.check(tmp_path / "ledger.db") == []
