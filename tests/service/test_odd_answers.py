"""What user code answers may be anything: nothing of it crashes a caller, harms a neighbour or passes for proof."""

import asyncio
import contextlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from terms import FENCED, QUICK

from amends.bootstrap import Amends
from amends.core.evidence import Absent, Failed, Found, Observation, Pending, Receipt, Unavailable, Unsure, Verified
from amends.core.failures import Ambiguous, CallEnded, NotSent, Rejected
from amends.core.money import Money
from amends.core.proposal import Verdict
from amends.core.told import ToldError
from amends.errors import AwaitingApproval, NotCommitted, OutcomeUnknown, Refused, UsageError, VerificationFailed
from amends.service.call import Call
from amends.service.registry import Effect

HALF = "\ud800"
DEEP: Any = []
for _ in range(100):
    DEEP = [DEEP]


class Place:
    """A destination that counts what is made under each key."""

    def __init__(self) -> None:
        self.made: dict[str, int] = {}

    def make(self, call: Call) -> Receipt:
        self.made[call.key] = self.made.get(call.key, 0) + 1
        return Receipt(resource="r0", correlation=call.key)

    async def find(self, call: Call) -> Observation:
        return Found(Receipt(resource="r0", correlation=call.key)) if call.key in self.made else Absent(complete=True)


def wired(path: Path, place: Place, say: Callable[[Call], Any], **options: Any) -> tuple[Amends, Effect]:
    app = Amends(path / "ledger.db")

    @app.effect(
        "make",
        **{"recovery": "compensatable", "target": "thing:{name}", "owner": "us", "retry": QUICK, **options},
        destination=FENCED,
    )
    async def make(call: Call, *, name: str) -> Receipt:
        place.make(call)
        said: Receipt = say(call)
        return said

    make.lookup(place.find)
    return app, make


def raising(error: BaseException) -> Callable[[Any], Any]:
    def raise_it(_: Any) -> Any:
        raise error

    return raise_it


ODD_ANSWERS: dict[str, Callable[[Call], Any]] = {
    "nothing": lambda _: None,
    "a dict": lambda _: {"id": "r0"},
    "the class": lambda _: Receipt,
    "a list as id": lambda _: Receipt(resource=["r0"]),  # type: ignore[arg-type]
    "a number as id": lambda _: Receipt(resource=2**70),  # type: ignore[arg-type]
    "half a surrogate pair": lambda _: Receipt(resource=HALF),
    "half a pair in its detail": lambda _: Receipt(resource="r0", detail={"id": HALF}),
    "an object as state": lambda _: Receipt(resource="r0", state=object()),  # type: ignore[arg-type]
    "a document": lambda _: Receipt(resource="x" * 5_000_000),
    "a document in its detail": lambda _: Receipt(resource="r0", detail={"page": "x" * 5_000_000}),
    "too deep a detail": lambda _: Receipt(resource="r0", detail={"deep": DEEP}),
    "a float as amount": lambda _: Receipt(resource="r0", amount=85.0),  # type: ignore[arg-type]
    "an unsayable reason": raising(Ambiguous(HALF)),
    "no reason": raising(Ambiguous(None)),  # type: ignore[arg-type]
    "an endless pause": raising(Ambiguous("later", retry_after_s=math.inf)),
    "no pause": raising(Ambiguous("later", retry_after_s=math.nan)),
    "a huge status": raising(Ambiguous("odd", status=2**70)),
    "an odd code": raising(Ambiguous("odd", code=[HALF])),  # type: ignore[arg-type]
    "an end of its own": raising(CallEnded("odd")),
    "a group": raising(ExceptionGroup("two", [ValueError(HALF), Ambiguous("x")])),
    "a stop": raising(StopAsyncIteration()),
}


@pytest.mark.requirement("R11", "R17", "R19", "R21", "G3")
@pytest.mark.parametrize("odd", ODD_ANSWERS)
async def test_an_effect_that_answers_oddly_is_looked_up_and_harms_no_neighbour(tmp_path: Path, odd: str) -> None:
    place = Place()
    app, make = wired(
        tmp_path,
        place,
        lambda call: (
            ODD_ANSWERS[odd](call)
            if call.arguments["name"] == "odd"
            else (Receipt(resource="r0", correlation=call.key))
        ),
    )
    async with app, app.run("job", event="e:1") as run:
        made = await asyncio.gather(*[run.do(make, name=name) for name in ("a", "odd", "b")])
    assert [receipt.resource for receipt in made] == ["r0"] * 3
    assert list(place.made.values()) == [1, 1, 1]
    assert run.outcome() == "completed"


@pytest.mark.requirement("R17")
@pytest.mark.parametrize("kind", [NotSent, Rejected])
@pytest.mark.parametrize("pause", [math.nan, math.inf, -1.0, "soon", True])
async def test_a_classified_end_stays_classified_whatever_pause_it_names(
    tmp_path: Path, kind: type[CallEnded], pause: Any
) -> None:
    place = Place()
    app, make = wired(tmp_path, place, raising(kind(HALF, retry_after_s=pause, status=-1)))
    async with app:
        with pytest.raises(NotCommitted):
            async with app.run("job", event="e:1") as run:
                await run.do(make, name="a")


ODD_READS: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda _: None,
    "text": lambda _: HALF,
    "a class": lambda _: Verified,
    "yes": lambda _: True,
    "no pause": lambda _: Unsure("x", math.nan),
    "no reason": lambda _: Unsure(None),  # type: ignore[arg-type]
    "an unsayable reason": lambda _: Unsure(HALF),
    "no pause of a verification": lambda _: Pending(retry_after_s=math.nan),
    "evidence that is none": lambda _: Verified(evidence={"x": object()}),
    "a failure without reason": lambda _: Failed(None),  # type: ignore[arg-type]
    "not available": lambda _: Unavailable(HALF),
    "complete in a word": lambda _: Absent(complete="no"),  # type: ignore[arg-type]
    "found nothing": lambda _: Found(),
    "found a dict": lambda _: Found({"id": "r0"}),  # type: ignore[arg-type]
    "an error": raising(ValueError(HALF)),
    "an end": raising(Ambiguous(HALF)),
    "a group": raising(ExceptionGroup("two", [ValueError(HALF)])),
}


@pytest.mark.requirement("R21", "R22", "R25")
@pytest.mark.parametrize("odd", ODD_READS)
async def test_a_lookup_that_answers_oddly_could_not_tell(tmp_path: Path, odd: str) -> None:
    place, said = Place(), []

    async def find(call: Call) -> Any:
        said.append(call.key)
        return ODD_READS[odd](call)

    app, make = wired(tmp_path, place, raising(Ambiguous("lost")), lookups=1)
    make.lookup_function = find
    async with app:
        with pytest.raises(OutcomeUnknown):
            async with app.run("job", event="e:1") as run:
                await run.do(make, name="a")
        [operation] = run.state.operations.values()
    assert (operation.state.value, operation.reason, len(said)) == ("human_required", "lookups_spent", 1)
    assert list(place.made.values()) == [1]


@pytest.mark.requirement("R20", "R25")
@pytest.mark.parametrize("odd", [name for name in ODD_READS if name != "a failure without reason"])
async def test_a_verification_that_answers_oddly_verifies_nothing(tmp_path: Path, odd: str) -> None:
    place = Place()

    async def verify(_: Call, receipt: Receipt) -> Any:
        return ODD_READS[odd](receipt)

    app, make = wired(tmp_path, place, lambda call: Receipt(resource="r0", correlation=call.key), verify_within_s=0.001)
    make.verify_function = verify
    async with app:
        with pytest.raises(VerificationFailed):
            async with app.run("job", event="e:1") as run:
                await run.do(make, name="a")
    assert run.outcome() == "failed_reconciliation_required"


@pytest.mark.requirement("R20")
async def test_what_a_verification_read_is_kept_exactly(tmp_path: Path) -> None:
    place, read = Place(), {"settled": 2**60, "amount": Money(8500, "USD"), "$id": "x"}

    async def verify(_: Call, __: Receipt) -> Verified:
        return Verified(evidence=read)

    app, make = wired(tmp_path, place, lambda call: Receipt(resource="r0", correlation=call.key))
    make.verify_function = verify
    async with app:
        async with app.run("job", event="e:1") as run:
            await run.do(make, name="a")
        assert b"8500" in b"".join(entry.content or b"" for entry in app.ledger.load(run.id))


@pytest.mark.requirement("R36")
@pytest.mark.parametrize("odd", ODD_READS)
async def test_an_end_state_that_answers_oddly_closes_nothing_as_done(tmp_path: Path, odd: str) -> None:
    place = Place()
    app, make = wired(tmp_path, place, lambda call: Receipt(resource="r0", correlation=call.key))

    async def end_state(_: Call, run: Any) -> Any:
        return ODD_READS[odd](run)

    app.operation_type("job", end_state=end_state, within_s=3600)
    async with app:
        async with app.run("job", event="e:1") as run:
            await run.do(make, name="a")
        assert run.outcome() is None


@pytest.mark.requirement("R10", "R12")
@pytest.mark.parametrize("odd", ["", HALF, None, 7, b"v1", "x" * 10_000])
async def test_a_version_that_is_no_text_sends_nothing(tmp_path: Path, odd: Any) -> None:
    place = Place()
    app, make = wired(tmp_path, place, lambda call: Receipt(resource="r0", correlation=call.key))

    async def version(_: Call) -> Any:
        return odd

    make.resource_version(version)
    async with app:
        with pytest.raises(NotCommitted):
            async with app.run("job", event="e:1", wait_s=0.0) as run:
                await run.do(make, name="a")
    assert place.made == {}


# --- policy -----------------------------------------------------------------------------------------------


class Says:
    """A policy that answers whatever it was given, at ``verb``; anything else it allows."""

    def __init__(self, verb: str, answer: Callable[[Any], Any]) -> None:
        self.verb, self.answer = verb, answer

    def decide(self, facts: Any) -> Any:
        return self.answer(facts) if facts["verb"] == self.verb else Verdict(True, "house", "1")


ODD_VERDICTS: dict[str, Callable[[Any], Any]] = {
    "an error": raising(KeyError("amount")),
    "nothing": lambda _: None,
    "true": lambda _: True,
    "a word": lambda _: Verdict("no", "house", "1"),  # type: ignore[arg-type]
    "a number": lambda _: Verdict(1, "house", "1"),  # type: ignore[arg-type]
    "the class": lambda _: Verdict,
    "an unsayable name": lambda _: Verdict(True, HALF, "1"),
}


@pytest.mark.requirement("R10", "R45")
@pytest.mark.parametrize("verb", ["propose", "commit"])
@pytest.mark.parametrize("odd", ODD_VERDICTS)
async def test_a_policy_that_answers_oddly_denies(tmp_path: Path, verb: str, odd: str) -> None:
    place = Place()
    app = Amends(tmp_path / "ledger.db", policy=Says(verb, ODD_VERDICTS[odd]))

    @app.effect(
        "make", recovery="compensatable", target="thing:{name}", owner="us", destination=FENCED, lookup="escalate"
    )
    async def make(call: Call, *, name: str) -> Receipt:
        return place.make(call)

    async with app:
        with pytest.raises((Refused, NotCommitted)):
            async with app.run("job", event="e:1") as run:
                await run.do(make, name="a")
    assert place.made == {}


# --- what a program passes --------------------------------------------------------------------------------


@pytest.mark.requirement("R3")
@pytest.mark.parametrize(
    "odd",
    [
        {"event": ""},
        {"event": "  "},
        {"event": None},
        {"event": HALF},
        {"event": "x" * 600},
        {"type": ""},
        {"tenant": 7},
        {"tenant": ""},
        {"principal": ""},
        {"principal": None},
        {"intent": ""},
        {"intent": 7},
        {"reason": None},
        {"reason": HALF},
        {"deadline_s": math.nan},
        {"deadline_s": math.inf},
        {"deadline_s": -1},
        {"deadline_s": "1"},
        {"wait_s": math.nan},
        {"wait_s": None},
    ],
    ids=repr,
)
async def test_a_run_is_opened_with_names_and_numbers_alone(tmp_path: Path, odd: dict[str, Any]) -> None:
    app = Amends(tmp_path / "ledger.db")
    arguments = {"type": "job", "event": "e:1", **odd}
    async with app:
        with pytest.raises(UsageError, match=next(iter(odd))):
            async with app.run(arguments.pop("type"), **arguments):
                raise AssertionError("nobody gets in")


@pytest.mark.requirement("R12")
@pytest.mark.parametrize("odd", ["", 7, b"v"])
async def test_a_version_that_demands_nothing_is_refused(tmp_path: Path, odd: Any) -> None:
    place = Place()
    app, make = wired(tmp_path, place, lambda call: Receipt(resource="r0", correlation=call.key))

    async def version(_: Call) -> str:
        return "v1"

    make.resource_version(version)
    async with app, app.run("job", event="e:1") as run:
        with pytest.raises(UsageError, match="if_version"):
            await run.do(make, name="a", if_version=odd)
    assert place.made == {}


@pytest.mark.requirement("R24")
@pytest.mark.parametrize("odd", [None, Absent(complete=True), Unsure("x"), {"id": "r0"}, Receipt, Verified()], ids=repr)
async def test_evidence_is_a_receipt_or_what_was_found(tmp_path: Path, odd: Any) -> None:
    place = Place()
    app, make = wired(tmp_path, place, lambda call: Receipt(resource="r0", correlation=call.key))
    async with app, app.run("job", event="e:1") as run:
        operation = await run.propose(make, name="a")
        with pytest.raises(UsageError, match="evidence"):
            await app.evidence(operation, odd)


@pytest.mark.requirement("R36", "G7")
@pytest.mark.parametrize(
    "inside",
    [
        [OutcomeUnknown("x")],
        [ValueError(), AwaitingApproval("x")],
        [ExceptionGroup("deeper", [ValueError(), OutcomeUnknown("x")])],
        [ValueError(), asyncio.CancelledError()],
        [KeyboardInterrupt()],
    ],
    ids=repr,
)
async def test_a_group_leaves_the_run_open_if_anything_in_it_does(tmp_path: Path, inside: list[Any]) -> None:
    place = Place()
    app, make = wired(tmp_path, place, lambda call: Receipt(resource="r0", correlation=call.key))
    async with app:
        with contextlib.suppress(BaseExceptionGroup):
            async with app.run("job", event="e:1") as run:
                await run.do(make, name="a")
                raise BaseExceptionGroup("several", inside)
        assert run.state.closed is None
        with pytest.raises(ExceptionGroup):
            async with app.run("job", event="e:1") as run:
                raise ExceptionGroup("several", [ValueError(), KeyError()])
        assert run.state.closed == "raised"


def test_a_receipt_says_which_field_cannot_be_recorded() -> None:
    with pytest.raises(ToldError, match=r"Receipt\.resource is an int, not text"):
        Receipt(resource=7)  # type: ignore[arg-type]


@pytest.mark.requirement("R22")
@pytest.mark.parametrize("odd", ["no", "yes", 1, 0, None, []], ids=repr)
def test_complete_is_true_or_false_and_nothing_that_seems_so(odd: Any) -> None:
    with pytest.raises(ToldError, match=r"Absent\.complete"):
        Absent(complete=odd)


@pytest.mark.requirement("R6")
@pytest.mark.parametrize("odd", [3, None, HALF, "x" * 1000, ["2"]], ids=["int", "none", "half", "long", "list"])
async def test_an_occurrence_is_named_by_a_text(tmp_path: Path, odd: Any) -> None:
    place = Place()
    app, make = wired(tmp_path, place, lambda call: Receipt(resource="r0", correlation=call.key))
    async with app, app.run("job", event="e:1") as run:
        with pytest.raises(UsageError, match="again"):
            await run.do(make, name="a", again=odd)
    assert place.made == {}


@pytest.mark.requirement("R5", "R18")
async def test_refusals_for_now_that_spent_the_attempts_are_no_dead_end(tmp_path: Path) -> None:
    place, busy = Place(), [True]
    app = Amends(tmp_path / "ledger.db")

    @app.effect("make", recovery="compensatable", target="thing:{name}", owner="us", destination=FENCED, retry=QUICK)
    async def make(call: Call, *, name: str) -> Receipt:
        if busy:
            raise Rejected("too many requests", status=429, retryable=True)
        return place.make(call)

    make.lookup(place.find)
    async with app:
        with pytest.raises(NotCommitted, match="attempts_spent"):
            async with app.run("job", event="e:1") as run:
                await run.do(make, name="a")
        busy.clear()
        async with app.run("job", event="e:1") as run:
            assert (await run.do(make, name="a")).resource == "r0"
    assert list(place.made.values()) == [1]
