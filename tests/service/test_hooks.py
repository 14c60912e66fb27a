"""What an effect may declare besides its call: versions, captures, locks, principals, reads, policy, secrets.

The destination is an object beside the application; it counts what arrived.
"""

import asyncio
import json
import sqlite3
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from placing import Place, effect_of
from terms import FENCED

from amends.bootstrap import Amends
from amends.core.contract import Contract, Lookup
from amends.core.evidence import Receipt
from amends.core.failures import Ambiguous, NotSent, Rejected
from amends.core.history import history
from amends.core.proposal import Verdict
from amends.core.secret import Secret
from amends.destinations.http import HttpDestination
from amends.errors import (
    ArgumentsRefused,
    Conflict,
    NotCommitted,
    OutcomeUnknown,
    Refused,
    RegistrationError,
    UsageError,
)
from amends.service.call import Call, SyncCall
from amends.service.registry import Effect


def entries(path: Path) -> str:
    """Everything the ledger's entries hold, as text."""
    with sqlite3.connect(path) as db:
        rows = db.execute("SELECT * FROM entries").fetchall()
    db.close()
    return json.dumps(rows, default=lambda value: value.decode("utf-8", "replace"))


def events(app: Amends, run: str) -> list[dict[str, Any]]:
    """The facts of the run's events, each with its kind."""
    return [
        {"kind": step.event.kind.value, **step.event.facts, **step.event.content}
        for step in history(run, app.ledger.load(run)).steps
    ]


# --- versions and captures ----------------------------------------------------------------------------


@pytest.mark.requirement("R10", "B13")
async def test_a_version_other_than_the_one_the_decision_rests_on_stops_the_claim(tmp_path: Path) -> None:
    app, place, version = Amends(tmp_path / "ledger.db"), Place(), ["v1"]
    make = effect_of(app, place)

    @make.resource_version
    async def read_version(call: Call) -> str:
        assert call.attempt == 0
        return version[0]

    async with app, app.run("job", event="e:1") as run:
        await run.do(make, name="a", if_version="v1")
        assert place.calls[0].resource_version == "v1", "the call can send it as If-Match"
        version[0] = "v2"
        with pytest.raises(NotCommitted) as refused:
            await run.do(make, name="b", if_version="v1")
    assert "state_fresh" in str(refused.value)
    assert len(place.calls) == 1


@pytest.mark.requirement("R10")
async def test_a_demanded_version_nobody_can_read_is_refused_before_anything_is_recorded(tmp_path: Path) -> None:
    app, place = Amends(tmp_path / "ledger.db"), Place()
    make = effect_of(app, place)
    async with app:
        with pytest.raises(UsageError, match="resource_version"):
            async with app.run("job", event="e:1") as run:
                await run.do(make, name="a", if_version="v1")
    assert place.calls == []


@pytest.mark.requirement("R10")
@pytest.mark.parametrize("hook", ["resource_version", "capture"])
async def test_a_hook_that_never_answers_is_held_to_the_lookups_budget(tmp_path: Path, hook: str) -> None:
    app, place = Amends(tmp_path / "ledger.db"), Place()
    make = effect_of(app, place, lookup_timeout_s=0.01)
    asked, cancelled = asyncio.Event(), asyncio.Event()

    async def hang(_: Call) -> str:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    getattr(make, hook)(hang)
    async with app:
        with pytest.raises(NotCommitted, match="a hook did not answer within its time budget"):
            async with app.run("job", event="e:1", wait_s=0.0) as run:
                await run.do(make, name="a")
        assert asked.is_set()
        assert cancelled.is_set(), "the budget ended the hook, not the test"
    assert place.calls == []


@pytest.mark.requirement("R2", "R12")
async def test_the_state_before_is_captured_once_and_not_on_a_repeat(tmp_path: Path) -> None:
    app, place, states = Amends(tmp_path / "ledger.db"), Place(), iter(["before", "after"])
    make, tries = effect_of(app, place), []

    @make.capture
    async def capture(_: Call) -> dict[str, str]:
        return {"status": next(states)}

    async def failing_once(call: Call, *, name: str, note: Any = "") -> Receipt:
        tries.append(call.pre_state)
        if len(tries) == 1:
            raise NotSent("no connection")
        return place.take(call)

    make.function = failing_once
    async with app, app.run("job", event="e:1") as run:
        await run.do(make, name="a")
    assert tries == [{"status": "before"}] * 2


# --- locks, principals, policy --------------------------------------------------------------------------


@pytest.mark.requirement("R12")
async def test_one_unsettled_operation_holds_a_lock_and_the_next_waits_for_it(tmp_path: Path) -> None:
    app, place = Amends(tmp_path / "ledger.db"), Place()
    make = effect_of(app, place, locks="press")
    inside, go = asyncio.Event(), asyncio.Event()
    order: list[str] = []

    async def slow(call: Call, *, name: str, note: Any = "") -> Receipt:
        order.append(f"{name} in")
        if name == "a":
            inside.set()
            await go.wait()
        order.append(f"{name} out")
        return place.take(call)

    make.function = slow
    async with app, app.run("job", event="e:1") as first, app.run("job", event="e:2") as second:
        one = asyncio.ensure_future(first.do(make, name="a"))
        await inside.wait()
        held = await second.propose(make, name="b")
        other = asyncio.ensure_future(second.do(make, name="b"))
        assert app.ledger.operation(held) is not None
        go.set()
        await asyncio.gather(one, other)
    assert order == ["a in", "a out", "b in", "b out"]


@pytest.mark.requirement("R16")
async def test_a_principal_who_is_not_admitted_sends_nothing(tmp_path: Path) -> None:
    app, place = Amends(tmp_path / "ledger.db"), Place()
    make = effect_of(app, place, principals=["finance"])
    async with app:
        with pytest.raises(NotCommitted, match="competence_sufficient"):
            async with app.run("job", event="e:1", principal="intern") as run:
                await run.do(make, name="a")
        async with app.run("job", event="e:2", principal="finance") as run:
            await run.do(make, name="a")
    assert len(place.calls) == 1


class Policy:
    """Denies at ``verb`` and keeps what it was asked."""

    def __init__(self, verb: str) -> None:
        self.verb, self.asked = verb, list[Mapping[str, Any]]()

    def decide(self, facts: Mapping[str, Any]) -> Verdict:
        self.asked.append(facts)
        return Verdict(allowed=facts["verb"] != self.verb, policy="house", policy_version="7")


@pytest.mark.requirement("R10")
@pytest.mark.parametrize(("verb", "refusal"), [("propose", Refused), ("commit", NotCommitted)])
async def test_policy_is_asked_for_the_wish_and_again_for_the_claim(
    tmp_path: Path, verb: str, refusal: type[Exception]
) -> None:
    policy, place = Policy(verb), Place()
    app = Amends(tmp_path / "ledger.db", policy=policy)
    make = effect_of(app, place)
    async with app:
        with pytest.raises(refusal):
            async with app.run("job", event="e:1", principal="p") as run:
                await run.do(make, name="a", note="a secret thought of a model")
        assert app.ledger.load(run.id), "a refusal is recorded"
    assert place.calls == []
    assert policy.asked[-1]["verb"] == verb
    assert policy.asked[-1]["principal"] == "p"
    assert "thought" not in repr(policy.asked)


@pytest.mark.requirement("R10")
async def test_each_of_the_eleven_checks_is_recorded_with_its_result(tmp_path: Path) -> None:
    app, place = Amends(tmp_path / "ledger.db"), Place()
    make = effect_of(app, place)
    async with app:
        async with app.run("job", event="e:1") as run:
            await run.do(make, name="a")
        [prepared] = [each for each in events(app, run.id) if each["kind"] == "operation.prepared"]
    assert set(prepared["checks"]) == {
        "intent_current",
        "authority_valid",
        "state_fresh",
        "schema_unchanged",
        "competence_sufficient",
        "verifier_available",
        "resources_available",
        "key_assigned",
        "operation_id_assigned",
        "compensation_known",
        "commitments_understood",
    }
    assert all(said.split(":")[0] == "ok" for said in prepared["checks"].values())


@pytest.mark.requirement("R16")
async def test_a_destination_made_by_hand_is_closed_with_the_application_and_once(tmp_path: Path) -> None:
    closed: list[str] = []

    class Kept(HttpDestination):
        async def aclose(self) -> None:
            closed.append(self.name)
            await super().aclose()

    app = Amends(tmp_path / "ledger.db")
    till, stock = [
        Kept("http://localhost", Contract(name=name, lookup=Lookup.STRONG), name=name) for name in ("till", "stock")
    ]
    effect_of(app, Place(), destination=till, lookup="escalate")
    app.read("stock", basis="public", destination=stock)(lambda call: 1)
    app.read("till", basis="public", destination=till)(lambda call: 1)
    async with app:
        assert closed == []
    assert closed == ["till", "stock"]


# --- reads ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("R1")
async def test_a_read_is_recorded_with_the_next_operation_and_alone_it_records_nothing(tmp_path: Path) -> None:
    app, place = Amends(tmp_path / "ledger.db"), Place()
    make = effect_of(app, place)

    @app.read("stock", basis="catalogue is public")
    async def stock(_: Call, *, sku: str) -> tuple[int, str]:
        return 3, f"v-{sku}"

    async with app:
        async with app.run("look", event="e:1") as looking:
            assert await looking.read(stock, sku="x") == (3, "v-x")
        assert looking.outcome() == "completed"
        assert app.ledger.load(looking.id) == []
        async with app.run("job", event="e:2") as run:
            await run.read(stock, sku="x")
            await run.do(make, name="a")
        [read] = [each for each in events(app, run.id) if each["kind"] == "run.read_recorded"]
        with pytest.raises(ArgumentsRefused):
            await run.read(stock, colour="red")
    assert (read["read"], read["basis"], read["version"]) == ("stock", "catalogue is public", "v-x")


# --- sensitive values -------------------------------------------------------------------------------------


@pytest.mark.requirement("R15", "G12", "G06")
async def test_a_sensitive_argument_reaches_the_call_and_no_part_of_the_ledger(tmp_path: Path) -> None:
    card = "4242-4242-4242-4242"
    app, place = Amends(tmp_path / "ledger.db", sensitive_key=b"k" * 32), Place()
    make, seen = effect_of(app, place, sensitive=["note"]), []

    async def telling(call: Call, *, name: str, note: Any = "") -> Receipt:
        seen.append(note)
        if len(seen) == 1:
            raise NotSent(f"no connection for {note}")
        return Receipt(resource=f"made for {note}", correlation=call.key)

    make.function = telling
    async with app:
        async with app.run("job", event="e:1") as run:
            await run.do(make, name="a", note=card)
            with pytest.raises(Conflict) as refused:
                await run.do(make, name="a", note="another")
        told = entries(tmp_path / "ledger.db")
    assert seen == [card, card]
    assert card not in told
    assert card not in str(refused.value) + repr(vars(refused.value))
    assert "another" not in repr(vars(refused.value))
    for file in tmp_path.iterdir():
        assert card.encode() not in file.read_bytes(), file.name


@pytest.mark.requirement("R15", "G06")
async def test_a_secret_is_recorded_by_its_reference_and_blotted_out_of_what_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILL_TOKEN", "hunter2-hunter2")
    app, place = Amends(tmp_path / "ledger.db"), Place()
    make, used = effect_of(app, place), []

    async def telling(call: Call, *, name: str, note: Any = "") -> Receipt:
        used.append(call.reveal(note))
        raise Ambiguous(f"gone with {used[-1]}")

    make.function = telling
    async with app:
        with pytest.raises(OutcomeUnknown):
            async with app.run("job", event="e:1", wait_s=0.0) as run:
                await run.do(make, name="a", note=Secret("env:TILL_TOKEN"))
        told = entries(tmp_path / "ledger.db")
    assert set(used) == {"hunter2-hunter2"}
    assert "env:TILL_TOKEN" in told
    assert "hunter2" not in told


# --- threads, joins, identities, levels --------------------------------------------------------------------


@pytest.mark.requirement("R11")
async def test_a_synchronous_effect_runs_in_a_thread_with_the_same_call(tmp_path: Path) -> None:
    app, place, threads = Amends(tmp_path / "ledger.db"), Place(), list[int]()

    @app.effect("make", recovery="compensatable", target="thing:{name}", owner="us", destination=FENCED)
    def make(call: SyncCall, *, name: str) -> Receipt:
        threads.append(threading.get_ident())
        call.check_budget()
        return place.take(call)

    make.lookup(place.find)
    async with app, app.run("job", event="e:1") as run:
        assert (await run.do(make, name="a")).resource == "r0"
    assert threads != [threading.get_ident()]


@pytest.mark.requirement("R8", "A03")
async def test_two_runs_of_one_intent_make_the_effect_once(tmp_path: Path) -> None:
    app, place = Amends(tmp_path / "ledger.db"), Place()
    make = effect_of(app, place)
    async with app:
        async with app.run("job", event="e:1") as first:
            one = await first.do(make, name="a")
        async with app.run("job", event="e:2", intent=first.intent) as second:
            two = await second.do(make, name="a")
            with pytest.raises(Conflict):
                await second.do(make, name="a", note="other")
        assert (first.outcome(), second.outcome()) == ("completed", "completed")
    assert one == two
    assert len(place.calls) == 1


@pytest.mark.requirement("R8")
async def test_a_renamed_effect_meets_the_operations_of_its_earlier_name(tmp_path: Path) -> None:
    place = Place()
    app = Amends(tmp_path / "ledger.db")
    make = effect_of(app, place)
    async with app, app.run("job", event="e:1") as run:
        one = await run.do(make, name="a")
    later = Amends(tmp_path / "ledger.db")

    @later.effect(
        "make_thing",
        recovery="compensatable",
        target="thing:{name}",
        owner="us",
        destination=FENCED,
        previously=["make"],
    )
    async def make_thing(call: Call, *, name: str, note: Any = "") -> Receipt:
        return await place.make(call)

    make_thing.lookup(place.find)
    async with later, later.run("job", event="e:1") as run:
        assert await run.do(make_thing, name="a") == one
    assert len(place.calls) == 1


@pytest.mark.requirement("R4", "R5", "G8")
async def test_a_renamed_effect_meets_every_revision_made_under_its_earlier_names(tmp_path: Path) -> None:
    place, refusals = Place(), ["no", "no"]

    def named(name: str, target: str, previously: list[Any]) -> tuple[Amends, Effect]:
        app = Amends(tmp_path / "ledger.db")

        @app.effect(
            name, recovery="compensatable", target=target, owner="us", destination=FENCED, previously=previously
        )
        async def make(call: Call, *, name: str, note: Any = "") -> Receipt:
            if refusals:
                raise Rejected(refusals.pop())
            return await place.make(call)

        make.lookup(place.find)
        return app, make

    first, second = ("make", "thing:{name}"), ("make_thing", "thing:{name}")
    app, make = named(*first, [])
    async with app:
        with pytest.raises(NotCommitted):
            async with app.run("job", event="e:1") as run:
                await run.do(make, name="a", note=1)
    app, make = named(*second, [first])
    async with app:
        with pytest.raises(NotCommitted):
            async with app.run("job", event="e:1") as run:
                await run.do(make, name="a", note=2)
        async with app.run("job", event="e:1") as run:
            made = await run.do(make, name="a", note=3)
    for previously in ([first, second], [second, first]):
        app, make = named("build", "item:{name}", previously)
        async with app, app.run("job", event="e:1") as run:
            assert await run.do(make, name="a", note=3) == made
            with pytest.raises(Conflict):
                await run.do(make, name="a", note=4)
    assert len(place.calls) == 1


@pytest.mark.requirement("R8")
async def test_another_target_template_that_names_no_predecessor_is_refused_at_start(tmp_path: Path) -> None:
    place = Place()
    app = Amends(tmp_path / "ledger.db")
    effect_of(app, place)
    async with app:
        await app.begin_recovery()
    later = Amends(tmp_path / "ledger.db")
    effect_of(later, place, target="item:{name}")
    async with later:
        with pytest.raises(RegistrationError, match="previously"):
            await later.begin_recovery()


@pytest.mark.requirement("R16")
@pytest.mark.parametrize(("level", "demands"), [("verification", False), ("ledger", False), ("recovery", True)])
async def test_a_level_decides_which_hooks_a_start_demands(tmp_path: Path, level: str, demands: bool) -> None:
    app = Amends(tmp_path / "ledger.db", level=level)

    @app.effect("make", recovery="compensatable", target="thing:{name}", owner="us", destination=FENCED)
    async def make(call: Call, *, name: str) -> Receipt:
        return Receipt(resource="r", correlation=call.key)

    if demands:
        with pytest.raises(RegistrationError, match="no lookup"):
            await app.start()
    else:
        async with app, app.run("job", event="e:1") as run:
            await run.do(make, name="a")


# --- evidence from outside, recovery ------------------------------------------------------------------------
