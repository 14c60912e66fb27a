"""Sensitive values are taken out of everything that is recorded, in every usual spelling, and nothing fails by that."""

import contextlib
import json
import unicodedata
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placing import Place, effect_of

from amends.bootstrap import Amends
from amends.core.evidence import Absent, Failed, Found, Pending, Receipt, Unavailable, Unsure, Verified
from amends.core.failures import Ambiguous, Rejected
from amends.core.money import Money
from amends.errors import NotCommitted, OutcomeUnknown
from amends.service.blotting import BLOT, Blotter
from amends.service.call import Call
from amends.service.observing import blotted, blotted_observation, blotted_verification

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"]), min_size=4, max_size=40)
INSTANT = st.datetimes(min_value=datetime(1900, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 — made aware here
SENSITIVE = st.one_of(
    TEXT,
    INSTANT,
    st.dates(min_value=date(1900, 1, 1)),
    st.uuids(),
    st.builds(Money, st.integers(10_000, 10**9), st.sampled_from(["USD", "JPY"])),
    st.integers(10_000, 10**12),
    st.binary(min_size=6, max_size=20),
)

SPELLINGS: dict[type, list[Callable[[Any], str]]] = {
    str: [str, str.upper, str.lower, str.casefold, repr, json.dumps, lambda v: unicodedata.normalize("NFD", v)],
    datetime: [str, repr, datetime.isoformat, lambda v: f"{v:%Y-%m-%dT%H:%M:%S}Z", lambda v: f"{v:%d.%m.%Y}"],
    date: [str, repr, date.isoformat, lambda v: f"{v:%Y%m%d}"],
    UUID: [str, repr, lambda v: v.hex, lambda v: str(v).upper(), lambda v: v.urn],
    Money: [str, repr, lambda v: str(v.minor)],
    int: [str, repr, lambda v: f"{v:,}"],
    bytes: [repr, bytes.hex],
}


def core_of(value: Any) -> list[str]:
    """What must not be readable: the value's own text in its plain form, without what every such text shares."""
    return [str(value)] if isinstance(value, str | int | UUID | date | datetime) else []


@pytest.mark.requirement("R15", "G12")
@given(SENSITIVE, st.data())
def test_no_usual_spelling_of_a_sensitive_value_passes(value: Any, data: st.DataObject) -> None:
    spelling = data.draw(st.sampled_from(SPELLINGS[type(value)]))
    said = spelling(value)
    clean = Blotter([value]).clean(f"~ {said} ~")
    assert BLOT in clean
    for text in (said, *core_of(value)):
        assert text not in clean


@pytest.mark.requirement("R15", "G12")
@given(st.lists(TEXT, min_size=2, max_size=5), st.data())
def test_a_single_line_of_a_sensitive_text_does_not_pass(lines: list[str], data: st.DataObject) -> None:
    line = data.draw(st.sampled_from(lines))
    assert line not in Blotter(["\n".join(lines)]).clean(f"bad input near: {line}")


@pytest.mark.requirement("R15", "G12")
@pytest.mark.parametrize("value", ["Straße 12", "İstanbul", "ﬁnance", "Ünïcode", "ǅungla"])
def test_letters_whose_cases_differ_in_length_are_found(value: str) -> None:
    for said in (value, value.upper(), value.lower(), value.casefold(), unicodedata.normalize("NFD", value)):
        assert Blotter([value]).clean(f"refused: {said}") == f"refused: {BLOT}"


FIELD = st.one_of(TEXT, st.sampled_from(["resource", "amount", "abcd" * 500, "x" * 2000, "succeeded"]))
DETAIL = st.dictionaries(FIELD, st.one_of(SENSITIVE, st.none(), st.booleans(), st.lists(FIELD, max_size=3)), max_size=4)


@pytest.mark.requirement("R11", "R15")
@settings(max_examples=40)
@given(
    st.builds(
        Receipt,
        resource=FIELD,
        state=st.none() | FIELD,
        amount=st.none() | st.just(Money(8500, "USD")),
        correlation=st.none() | FIELD,
        detail=st.none() | DETAIL,
    ),
    st.lists(
        st.one_of(SENSITIVE, st.sampled_from(["abcd", "resource", "xxxx", 8500, Money(8500, "USD"), {"amount": "xx"}])),
        max_size=3,
    ),
)
def test_a_receipt_can_be_recorded_whatever_is_blotted_out_of_it(receipt: Receipt, hidden: list[Any]) -> None:
    blotter = Blotter(hidden)
    clean = blotted(receipt, blotter)
    assert Receipt.from_json(clean.to_json()) == clean
    reason = (receipt.resource * 500)[:500]
    for said in (Found(receipt), Absent(complete=True, read=reason), Unsure(reason, 1.0)):
        assert type(blotted_observation(said, blotter)) is type(said)
    for read in (Verified(evidence=receipt.detail), Pending(), Failed(reason, receipt.detail), Unavailable(reason)):
        assert type(blotted_verification(read, blotter)) is type(read)


@pytest.mark.requirement("R15", "G12", "R11")
@pytest.mark.parametrize(
    "value", ["z-w9", datetime(1990, 5, 17, tzinfo=UTC), UUID(int=7**40), "first line\nsecond line", 735_124_680_913]
)
async def test_what_the_effects_code_and_its_destination_say_holds_no_sensitive_argument(
    tmp_path: Path, value: Any
) -> None:
    place = Place()
    app = Amends(tmp_path / "ledger.db")
    make = effect_of(app, place, sensitive=["note"], lookup="escalate")
    make.lookup_function = None
    odd = value.split("\n")[-1] if isinstance(value, str) else str(value)

    async def say(call: Call, *, name: str, note: Any = "") -> Receipt:
        match name:
            case "refused":
                raise Rejected(f"bad note {odd}", code=f"bad-{odd}")
            case "raised":
                raise ValueError(f"bad note {note!r} {odd}")
            case "ambiguous":
                raise Ambiguous(f"bad note {odd}")
            case _:
                return Receipt(resource=odd * 10, correlation=call.key, detail={"echo": note, "text": odd})

    make.function = say
    async with app, app.run("job", event="e:1", wait_s=0.0) as run:
        for name in ("refused", "raised", "ambiguous", "made"):
            with contextlib.suppress(NotCommitted, OutcomeUnknown):
                await run.do(make, name=name, note=value)
        states = {op.target: op.state.value for op in run.state.operations.values()}
        assert states["thing:made"] == "verified"
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.suffix != ".key")
    assert odd.encode() not in written


@pytest.mark.requirement("R15", "R24", "G12")
async def test_a_webhook_that_echoes_a_sensitive_argument_is_recorded_without_it(tmp_path: Path) -> None:
    place = Place()
    app = Amends(tmp_path / "ledger.db")
    make = effect_of(app, place, sensitive=["note"])

    async def refuse(call: Call, *, name: str, note: Any = "") -> Receipt:
        raise Rejected("no")

    make.function = refuse
    async with app:
        with pytest.raises(NotCommitted):
            async with app.run("job", event="e:1") as run:
                await run.do(make, name="a", note="my little secret")
        [operation] = run.state.operations.values()
        echo = Receipt(resource="r0", correlation=operation.key, detail={"note": "My Little Secret"})
        await app.evidence(operation.id, echo)
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.suffix != ".key")
    assert b"ittle" not in written
