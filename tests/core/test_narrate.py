"""Every kind of event and every recorded reason has words, and no foreign text passes for ours."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import amends.core
from amends.core import narrate as narration
from amends.core import wording
from amends.core.endings import Ending
from amends.core.model import Event, Operation
from amends.core.narrate import ENDINGS, narrate, stands
from amends.core.reconcile import Absence
from amends.core.record import record
from amends.core.standing import Situation, Waits, owed, situation, waits_for
from amends.core.states import SETTLED, UNRESOLVED, Kind, State
from amends.core.terms import Recovery, Terms
from amends.core.wording import REASONS, because, clock, instant, masked

CORE = Path(amends.core.__path__[0])
SOURCE = CORE.parent
HOSTILE = "\x1b]0;x\x07[red]\u202e\ud800\n"
NOON = 1_800_000_000_123


def operation(state: State = State.COMMITTING, **changes: object) -> Operation:
    plain = Operation("op_1", "key_1", "charge", "compensatable", state, "hash", "v1", "order:{order}")
    return plain._replace(target="order:1", attempts=1, attempt_at=NOON, attempt_ends_at=NOON + 20_000)._replace(
        **changes
    )


def recorded_reasons() -> Iterator[tuple[str, str]]:
    """``(reason, place)`` of every reason that the source of core, service and destinations can record."""
    for path in sorted([*CORE.glob("*.py"), *SOURCE.glob("service/*.py"), *SOURCE.glob("destinations/*.py")]):
        text = path.read_text(encoding="utf-8")
        if path.parent == CORE and "Event(Kind." not in text:
            continue  # it makes no events; its reasons are texts of refusals
        tree = ast.parse(text)
        takers = _takers(tree)
        for node in ast.walk(tree):
            for value in _reasons(node, takers):
                for reason in _texts(value):
                    yield reason, f"{path.name}:{value.lineno}"
    for absence in Absence:
        yield absence.value, "reconcile.Absence"


def _takers(tree: ast.Module) -> dict[str, int]:
    """Functions of the module that take a ``reason`` by position, and at which."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [argument.arg for argument in node.args.args]
            if "reason" in names and "self" not in names:
                found[node.name] = names.index("reason")
    return found


def _reasons(node: ast.AST, takers: dict[str, int]) -> Iterator[ast.expr]:
    match node:
        case ast.Dict():
            yield from (value for key, value in zip(node.keys, node.values, strict=True) if _is(key, "reason"))
        case ast.Assign(targets=[ast.Subscript(slice=key)]) if _is(key, "reason"):
            yield node.value
        case ast.Assign(targets=[ast.Name(id="reason")]):
            yield node.value
        case ast.Call(func=ast.Name(id="Step")):
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "reason")
        case ast.Call(func=ast.Name(id=name)) if name in takers and len(node.args) > takers[name]:
            yield node.args[takers[name]]
        case ast.Call(func=ast.Name(id="NotSent" | "Rejected" | "Ambiguous")):
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "code")


def _is(node: ast.expr | None, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


def _texts(value: ast.expr) -> Iterator[str]:
    match value:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp():
            yield from _texts(value.body)
            yield from _texts(value.orelse)
        case ast.BoolOp():
            for part in value.values:
                yield from _texts(part)
        case ast.BinOp(left=ast.Constant(value=str(prefix))):
            yield prefix + "x"
        case ast.JoinedStr(values=[ast.Constant(value=str(prefix)), ast.FormattedValue(value=ast.Name(id="reason"))]):
            yield from (prefix + text for text in ("pending", "unavailable"))
        case ast.Name() | ast.Attribute():
            return  # a value that is gathered where it is made
        case _:
            raise AssertionError(f"line {value.lineno}: teach this test to read {ast.unparse(value)}")


@pytest.mark.requirement("R14")
def test_every_recorded_reason_has_words() -> None:
    found = dict(recorded_reasons())
    assert len(found) >= 30
    without = {
        text: place for text, place in found.items() if text not in REASONS and not text.startswith(wording.CHECK)
    }
    assert without == {}
    assert set(REASONS) - set(found) == set(), "words for reasons that nothing records"


@pytest.mark.requirement("R14")
@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_a_sentence_with_any_facts_and_content(kind: Kind) -> None:
    plain = narrate(Event(kind, "op_1", {}, {}), NOON, operation())
    assert plain
    assert plain.isprintable()
    facts = dict.fromkeys(
        (
            "type",
            "principal",
            "how",
            "ending",
            "by",
            "run",
            "action",
            "key",
            "occurrence",
            "policy",
            "worker",
            "reason",
        ),
        HOSTILE,
    )
    facts |= dict.fromkeys(("policy_version", "interval", "code", "to"), HOSTILE)
    more = {"checks": {HOSTILE: HOSTILE}, "lacking": [HOSTILE], "status": 500, "wake_at": NOON + 1, "pass": 1}
    texts = dict.fromkeys(("event", "reason", "detail"), HOSTILE)
    receipt = {"receipt": {"resource": HOSTILE, "state": HOSTILE, "version": HOSTILE, "amount": HOSTILE}}
    said = narrate(Event(kind, "op_1", {**facts, **more}, {**texts, **receipt}), NOON, operation(target=HOSTILE))
    assert said.isprintable()


@pytest.mark.parametrize("state", State)
def test_every_state_says_where_it_stands_whom_it_waits_for_and_what_is_owed(state: State) -> None:
    for wake_at in (None, NOON + 60_000):
        it = operation(state, wake_at=wake_at, reason="response_lost", detail=HOSTILE, target=HOSTILE)
        said = stands(it, to=HOSTILE, now=NOON)
        assert said.isprintable()
        assert said.endswith(("Nothing is owed.", ".")), said
        assert situation(it) in Situation
        settled = state in SETTLED
        assert (waits_for(it, now=NOON) is Waits.NOBODY) == settled == (owed(it) == [])
        assert ("Nothing is owed." in said) == settled
        if state in UNRESOLVED and wake_at is None:
            assert waits_for(it, now=NOON) is Waits.PERSON


def test_every_ending_has_words() -> None:
    assert set(ENDINGS) == {ending.value for ending in Ending}


@pytest.mark.requirement("R14")
def test_the_six_situations_of_an_investigation_are_told_apart() -> None:
    receipt = {"resource": "ch_1"}
    told = {
        "request failed": operation(State.NOT_COMMITTED, reason="rejected"),
        "response lost": operation(State.OUTCOME_UNKNOWN, unknown_attempts=1, lookups=2, wake_at=NOON),
        "commit succeeded": operation(State.COMMITTED, receipt=receipt),
        "verification failed": operation(State.RECONCILIATION_REQUIRED, receipt=receipt, reason="postcondition"),
        "compensation failed": operation(State.COMPENSATION_FAILED, receipt=receipt),
        "never looked": operation(State.OUTCOME_UNKNOWN, unknown_attempts=1, wake_at=NOON),
    }
    assert {name: situation(it).value for name, it in told.items()} == {
        "request failed": "request_failed",
        "response lost": "response_lost",
        "commit succeeded": "remote_commit_succeeded",
        "verification failed": "verification_failed",
        "compensation failed": "compensation_failed",
        "never looked": "reconciliation_never_ran",
    }
    assert len({stands(it, now=NOON) for it in told.values()}) == 6
    assert "its compensation failed: the effect stands" in stands(told["compensation failed"])
    assert "reconciliation never ran" in stands(told["never looked"])
    assert "2 lookups did not settle it" in stands(told["response lost"])


def test_a_failed_compensation_is_told_with_its_reason() -> None:
    event = Event(Kind.COMPENSATION_FAILED, "op_1", {"reason": "rejected", "status": 409}, {"detail": "closed"})
    said = narrate(event, NOON, operation(State.COMPENSATION_FAILED))
    why = 'the destination refused the request (status 409, "closed")'
    assert said == f"the compensation failed: the effect stands: {why}"


def test_a_reason_of_an_effects_own_code_is_quoted_and_a_check_is_named() -> None:
    assert because("card_declined") == 'code "card_declined"'
    assert because("check:state_fresh,key_assigned") == "the check state_fresh, key_assigned did not pass"


@pytest.mark.parametrize(
    ("later", "said"),
    [(1_000, "08:00:01.123 UTC"), (86_400_000, "2027-01-16T08:00:00.123Z"), (10**17, f"{NOON + 10**17} ms")],
)
def test_an_instant_is_told_as_seen_from_another(later: int, said: str) -> None:
    assert instant(NOON) == "2027-01-15T08:00:00.123Z"
    assert clock(NOON + later, NOON) == said


def test_sealed_values_are_masked_wherever_they_lie_and_never_omitted() -> None:
    sealed = {"$amends.sealed": "c2VjcmV0"}
    assert masked({"note": sealed, "lines": [{"pin": sealed, "n": 1}]}) == {
        "note": "•••• (sealed)",
        "lines": [{"pin": "•••• (sealed)", "n": 1}],
    }


def test_the_owner_comes_from_the_event_and_else_from_the_terms() -> None:
    terms = Terms(action="charge", recovery=Recovery.COMPENSATABLE, version="1", target_template="x", owner="billing")
    waiting = operation(State.HUMAN_REQUIRED, unknown_attempts=1)
    assert 'Next: "billing" must act' in stands(waiting, terms)
    assert 'Next: "oncall" must act' in stands(waiting, terms, to="oncall")
    assert "Next: the owner of charge must act" in stands(waiting)


@given(st.sampled_from(Kind), st.dictionaries(st.sampled_from(["reason", "to", "code"]), st.text()), st.text())
def test_no_text_of_others_leaves_its_sentence(kind: Kind, facts: dict[str, str], detail: str) -> None:
    said = narrate(Event(kind, "op_1", facts, {"detail": detail}), NOON, operation())
    assert said.isprintable()


def test_an_empty_record_has_no_attempts() -> None:
    assert record([]) == ([], [], [], "")
    assert narration.named(operation(target=None)) == "charge on a target that was erased"


@pytest.mark.requirement("R14")
@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"how": "deadline"}, "the run's deadline passed and its program had not come back: it was closed"),
        (
            {"how": "returned", "end_state": "verified"},
            "the program left the run normally: it is done; its end state was verified",
        ),
        (
            {"how": "returned", "end_state": "failed", "reason": "end_state_never_confirmed"},
            "the program left the run normally: it is done; its end state does not hold: "
            "nobody could say within its time that the run's end state holds",
        ),
        (
            {"how": "raised", "end_state": "pending", "wake_at": NOON},
            "the program left the run with an exception; its end state does not hold yet; it is asked for again now",
        ),
        ({"how": "returned", "end_state": HOSTILE}, None),
    ],
)
def test_how_a_run_was_closed_says_what_of_its_end_state_is_known(facts: dict[str, object], said: str | None) -> None:
    told = narrate(Event(Kind.RUN_CLOSED, "", facts), NOON, None)
    assert told.isprintable()
    assert said in (None, told)


@pytest.mark.requirement("R14", "R17")
@pytest.mark.parametrize("state", [State.NOT_COMMITTED, State.HUMAN_REQUIRED])
@pytest.mark.parametrize("detail", [None, "connection reset"])
def test_spent_attempts_say_what_ended_the_last_one(state: State, detail: str | None) -> None:
    about = operation(state, reason="attempts_spent", last_end="response_lost", last_detail=detail)
    said = "the last one ended so: the call left and no certain answer came back"
    said += ' ("connection reset")' if detail else ""
    assert f"Why: all allowed attempts are spent; {said}." in stands(about)


@pytest.mark.requirement("R14", "R17")
def test_what_never_happened_says_how_it_can_be_had_after_all() -> None:
    spent = operation(State.NOT_COMMITTED, reason="attempts_spent", attempts=3)
    refused = operation(State.NOT_COMMITTED, reason="card_declined", attempts=1)
    assert stands(spent).endswith("ask again with the same event and arguments once the cause is gone.")
    assert stands(refused).endswith("correct the request and ask again, or repeat it on purpose with again=.")
