"""The entry format: what was sealed comes back, what was touched shows, what was erased is gone."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends.core.chain import ENTRY_BYTES_MAX, GENESIS, ChainBroken, Entry, EntryHeader, erase, seal, unseal
from amends.core.model import Event
from amends.core.states import Kind

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
EVENTS = st.lists(
    st.builds(
        Event,
        st.sampled_from(Kind),
        TEXT,
        st.dictionaries(TEXT, JSON, max_size=3),
        st.dictionaries(TEXT, JSON, max_size=4),
    ),
    max_size=4,
)
HEADERS = st.builds(EntryHeader, TEXT, st.integers(1, 10**6), TEXT, st.integers(0, 10**13), TEXT)
BYTES_32, SALTS = st.binary(min_size=32, max_size=32), st.binary(min_size=16, max_size=16)

HEADER = EntryHeader("run_1", 2, "w1.7", 1_700_000_000_000, "w1")
SALT = bytes(range(16))
PREVIOUS = bytes([7]) * 32


def example() -> Entry:
    events = [
        Event(
            Kind.PROPOSED, "op_1", {"key": "k"}, {"target": "order:1", "argument.note": "mail@home", "argument.n": 7}
        ),
        Event(Kind.AUTHORIZED, "op_1", {"policy": "p1"}),
        Event(Kind.OUTCOME_UNKNOWN, "op_1", {}, {"detail": "no answer"}),
    ]
    return seal(HEADER, events, PREVIOUS, SALT)


def plain(events: list[Event]) -> list[tuple[object, ...]]:
    return [(event.kind, event.operation, dict(event.facts), dict(event.content)) for event in events]


@pytest.mark.requirement("R14", "G9")
@given(HEADERS, EVENTS, BYTES_32, SALTS)
def test_what_was_sealed_comes_back(header: EntryHeader, events: list[Event], previous: bytes, salt: bytes) -> None:
    entry = seal(header, events, previous, salt)
    found_header, found = unseal(entry, previous)
    assert found_header == header
    assert plain(found) == plain(events)


@pytest.mark.requirement("R14", "G9")
def test_a_change_of_any_byte_of_the_body_is_found() -> None:
    entry = example()
    for place in range(len(entry.body)):
        body = bytearray(entry.body)
        body[place] ^= 1
        with pytest.raises(ChainBroken):
            unseal(entry._replace(body=bytes(body)), PREVIOUS)


@pytest.mark.requirement("R14", "G9")
def test_a_change_of_any_byte_of_the_content_is_found_or_changes_nothing() -> None:
    entry = example()
    assert entry.content is not None
    meant = plain(unseal(entry, PREVIOUS)[1])
    for place in range(len(entry.content)):
        content = bytearray(entry.content)
        content[place] ^= 1
        # The container is JSON: an edit of its syntax may be no JSON at all, which shows as well.
        try:
            _, events = unseal(entry._replace(content=bytes(content)), PREVIOUS)
        except (ChainBroken, ValueError, KeyError, TypeError):
            continue
        assert plain(events) == meant


@pytest.mark.requirement("R14", "G9")
@given(BYTES_32.filter(lambda value: value != PREVIOUS))
def test_an_entry_fits_only_after_the_entry_it_was_sealed_onto(previous: bytes) -> None:
    with pytest.raises(ChainBroken, match="does not follow"):
        unseal(example(), previous)


@pytest.mark.requirement("R14", "G9")
@pytest.mark.parametrize("change", [{"run": "run_2"}, {"seq": 3}, {"append_id": "w1.8"}, {"hash": GENESIS}])
def test_an_entry_that_was_moved_is_found(change: dict[str, object]) -> None:
    with pytest.raises(ChainBroken):
        unseal(example()._replace(**change), PREVIOUS)


@pytest.mark.requirement("R14", "G9")
def test_content_cannot_be_dropped_or_added() -> None:
    with pytest.raises(ChainBroken, match="hashes included"):
        unseal(example()._replace(content=None), PREVIOUS)
    bare = seal(HEADER, [Event(Kind.AUTHORIZED, "op_1")], PREVIOUS, SALT)
    assert bare.content is None
    with pytest.raises(ChainBroken, match="commitment"):
        unseal(bare._replace(content=example().content), PREVIOUS)


@pytest.mark.requirement("R15", "G9")
def test_erasing_one_field_drops_its_value_and_salts_and_keeps_the_rest() -> None:
    entry = example()
    assert entry.content is not None
    content = erase(entry.content, ["0.argument.note"])
    assert b"mail@home" not in content
    assert SALT.hex().encode() not in content, "with the entry's salt the value could be guessed and proved"
    _, events = unseal(entry._replace(content=content), PREVIOUS)
    assert events[0].content == {"target": "order:1", "argument.n": 7}
    assert events[2].content == {"detail": "no answer"}


@pytest.mark.requirement("R15", "G9")
def test_erasing_all_fields_keeps_the_chain_and_the_facts() -> None:
    entry = example()
    assert entry.content is not None
    content = erase(entry.content)
    assert all(text is None for _, text, _ in json.loads(content)["fields"])
    header, events = unseal(entry._replace(content=content), PREVIOUS)
    assert header == HEADER
    assert [dict(event.content) for event in events] == [{}, {}, {}]
    assert events[0].facts == {"key": "k"}


@pytest.mark.requirement("R15", "G9")
@given(HEADERS, EVENTS, SALTS, st.data())
def test_erasing_is_idempotent_and_its_order_does_not_matter(
    header: EntryHeader, events: list[Event], salt: bytes, data: st.DataObject
) -> None:
    entry = seal(header, events, GENESIS, salt)
    if entry.content is None:
        return
    names = [name for name, *_ in json.loads(entry.content)["fields"]]
    first = data.draw(st.lists(st.sampled_from(names), unique=True))
    second = data.draw(st.lists(st.sampled_from(names), unique=True))
    once = erase(entry.content, first)
    assert erase(once, first) == once
    both = erase(once, second)
    assert both == erase(erase(entry.content, second), first) == erase(entry.content, first + second)
    _, left = unseal(entry._replace(content=both), GENESIS)
    gone = set(first + second)
    for index, event in enumerate(events):
        kept = {name: value for name, value in event.content.items() if f"{index}.{name}" not in gone}
        assert dict(left[index].content) == kept


@pytest.mark.requirement("R15", "G9")
def test_an_erased_field_cannot_be_given_another_value() -> None:
    entry = example()
    assert entry.content is not None
    stored = json.loads(erase(entry.content, ["0.argument.note"]))
    for field in stored["fields"]:
        if field[1] is None:
            field[1] = '"someone else"'
    with pytest.raises(ChainBroken, match="commitment"):
        unseal(entry._replace(content=json.dumps(stored).encode()), PREVIOUS)


@pytest.mark.requirement("R14")
def test_equal_values_have_different_commitments_under_different_salts() -> None:
    events = [Event(Kind.PROPOSED, "op_1", {}, {"note": "yes"})]
    one, two = (seal(HEADER, events, PREVIOUS, bytes([n]) * 16) for n in (1, 2))
    assert json.loads(one.body)["content"] != json.loads(two.body)["content"]


def test_an_entry_has_a_largest_size() -> None:
    events = [Event(Kind.PROPOSED, "op_1", {}, {"note": "x" * ENTRY_BYTES_MAX})]
    with pytest.raises(ValueError, match="the limit is"):
        seal(HEADER, events, PREVIOUS, SALT)
