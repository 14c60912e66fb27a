"""Keys depend on the logical action alone, and two actions never share one by accident."""

import re
import string
import sys
import unicodedata
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from amends.core.identity import (
    ACTION_CHARS_MAX,
    EVENT_CHARS_MAX,
    KEY_CHARS_MAX,
    LINEAGE_CHARS_MAX,
    OCCURRENCE_CHARS_MAX,
    PART_CHARS_MAX,
    REVISION_MAX,
    TARGET_CHARS_MAX,
    TENANT_CHARS_MAX,
    IdentityError,
    TargetTemplate,
    idempotency_key,
    intent_id,
    operation_id,
    part_key,
    run_id,
)
from amends.core.money import Money

pytestmark = pytest.mark.requirement("R4", "G8")

ACTION: dict[str, Any] = {
    "tenant": "acme",
    "action": "issue_refund",
    "target": "order:18431",
    "lineage": "int_abcdefghijklmnopqrstuvwxyz",
}
KEY = idempotency_key(**ACTION)

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
# Few letters and every border, so that draws collide where a border could be forged.
tricky = st.text(st.sampled_from("ab:/#|%{}-\x00\x1f 3AF\u200b"), min_size=1, max_size=6)
actions = st.fixed_dictionaries(
    {
        "tenant": tricky,
        "action": tricky,
        "target": tricky,
        "lineage": tricky,
        "occurrence": st.just("") | tricky,
        "revision": st.integers(0, 12),
    }
)


# --- keys and ids ------------------------------------------------------------------------------------


def test_the_derivation_is_pinned_for_ever() -> None:
    """If one of these fails, live operations would be doubled: restore the derivation, do not edit this."""
    assert KEY == "am1_64zxdlq2rvphowj2ihuz5kpfbtzdq6ew"
    assert idempotency_key(**ACTION, occurrence="again-1") == "am1_mme5vr4exhf5modtsxnmv35h2j6ow6v6"
    assert idempotency_key(**ACTION, revision=1) == "am1_ftal7uenwhky2z5hbsu6y4uvlpo2dyov"
    assert (
        idempotency_key(tenant="ä\x00", action="b", target="\U0001f600", lineage="d")
        == "am1_6bm6uizchx5ngiv7zpsadedpebzgybsy"
    )
    assert part_key(KEY, "upload") == "am1_f7so7bjfohxjuql4b33zpwquqkc4olhq"
    assert operation_id(KEY) == "op_mwy3hrt7eyjcj37t6ucplne7fb"
    assert run_id("acme", "message:<1@example.org>") == "run_vol73ffou2nyrxijdwu2exgf66"
    assert intent_id("acme", "message:<1@example.org>") == "int_dmydbaxvfgm7hbqi7vnnrfx6h2"


@given(actions)
def test_a_retry_has_the_same_key_and_every_key_fits_every_provider(action: dict[str, Any]) -> None:
    key = idempotency_key(**action)
    assert key == idempotency_key(**dict(reversed(action.items())))
    for made in (key, part_key(key, "a")):
        assert re.fullmatch(r"am1_[a-z2-7]{32}", made)
        assert len(made) <= KEY_CHARS_MAX


@given(actions, actions)
@settings(max_examples=300)
def test_another_action_has_another_key(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert (idempotency_key(**one) == idempotency_key(**other)) == (one == other)


@pytest.mark.parametrize("part", ["tenant", "action", "target", "lineage", "occurrence", "revision"])
def test_every_part_counts(part: str) -> None:
    assert idempotency_key(**{**ACTION, part: 7 if part == "revision" else "other"}) != KEY


@given(texts, st.integers(1, 19))
def test_a_border_between_parts_cannot_be_moved(text: str, at: int) -> None:
    assume(1 <= at < len(text))
    rest: dict[str, Any] = {"target": "t", "lineage": "l"}
    moved = idempotency_key(tenant=text[:at], action=text[at:], **rest)
    assert moved != idempotency_key(tenant=text[: at - 1] or "x", action=text[at - 1 :], **rest)
    assert run_id(text[:at], text[at:]) != run_id(text[: at - 1] or "x", text[at - 1 :])


def test_the_classic_pairs_of_parts_differ() -> None:
    rest: dict[str, Any] = {"target": "t", "lineage": "l"}
    assert idempotency_key(tenant="a", action="bc", **rest) != idempotency_key(tenant="ab", action="c", **rest)
    assert idempotency_key(**ACTION, occurrence="1") != idempotency_key(**ACTION, revision=1)
    assert run_id("a", "bc") != run_id("ab", "c")


def test_each_purpose_has_its_own_hash() -> None:
    bodies = [run_id("acme", "e")[4:], intent_id("acme", "e")[4:], operation_id(KEY)[3:], KEY[4:30]]
    bodies += [part_key(KEY, "a")[4:30], part_key(KEY, "b")[4:30], part_key(part_key(KEY, "a"), "a")[4:30]]
    assert len(set(bodies)) == len(bodies)


@given(texts, texts)
def test_ids_have_a_prefix_and_26_characters(tenant: str, event: str) -> None:
    assert re.fullmatch(r"run_[a-z2-7]{26}", run_id(tenant, event))
    assert re.fullmatch(r"int_[a-z2-7]{26}", intent_id(tenant, event))
    assert re.fullmatch(r"op_[a-z2-7]{26}", operation_id(KEY))


@pytest.mark.parametrize("part", ["tenant", "action", "target", "lineage"])
def test_an_empty_part_is_refused(part: str) -> None:
    with pytest.raises(IdentityError, match="is empty") as caught:
        idempotency_key(**{**ACTION, part: ""})
    assert caught.value.what == part


@pytest.mark.parametrize("derive", [run_id, intent_id])
def test_an_event_and_its_tenant_are_needed(derive: Any) -> None:
    for tenant, event in (
        ("", "e"),
        ("t", ""),
        ("t", "\ud800"),
        ("t", "e" * (EVENT_CHARS_MAX + 1)),
        ("t", None),
    ):
        with pytest.raises(IdentityError):
            derive(tenant, event)


@pytest.mark.parametrize(
    ("part", "chars_max"),
    [
        ("tenant", TENANT_CHARS_MAX),
        ("action", ACTION_CHARS_MAX),
        ("target", TARGET_CHARS_MAX),
        ("lineage", LINEAGE_CHARS_MAX),
        ("occurrence", OCCURRENCE_CHARS_MAX),
    ],
)
def test_every_part_is_bounded(part: str, chars_max: int) -> None:
    assert idempotency_key(**{**ACTION, part: "x" * chars_max})
    with pytest.raises(IdentityError, match=f"at most {chars_max} ") as caught:
        idempotency_key(**{**ACTION, part: "x" * (chars_max + 1)})
    assert "xxx" not in str(caught.value)


class Name(StrEnum):
    A = "acme"


@pytest.mark.parametrize("bad", ["\ud800", "a\udfff", b"acme", 1, None, Name.A])
@pytest.mark.parametrize("part", ["tenant", "action", "target", "lineage", "occurrence"])
def test_only_plain_unicode_text_is_a_part(part: str, bad: object) -> None:
    with pytest.raises(IdentityError, match=f"^{part} "):
        idempotency_key(**{**ACTION, part: bad})


@pytest.mark.parametrize("revision", [-1, REVISION_MAX + 1, True, 1.0, "1", None])
def test_a_revision_is_a_small_count(revision: object) -> None:
    with pytest.raises(IdentityError, match=r"^revision "):
        idempotency_key(**ACTION, revision=revision)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["", "am1_", KEY.upper(), KEY + "\n", KEY[:-1] + "1", KEY[:-1] + "ａ", f"x{KEY}", None])
def test_only_our_own_keys_are_derived_from(key: Any) -> None:
    for derive in (operation_id, lambda key: part_key(key, "a")):
        with pytest.raises(IdentityError, match=r"^key "):
            derive(key)


@pytest.mark.parametrize("part", ["", "x" * (PART_CHARS_MAX + 1), "\ud800"])
def test_a_part_has_a_short_name(part: str) -> None:
    with pytest.raises(IdentityError, match=r"^part "):
        part_key(KEY, part)


# --- targets -----------------------------------------------------------------------------------------

templates = st.sampled_from(
    ["crm:{a}:{b}", "{a}/{b}", "{a}-:-{b}-a", "a{a}a:a{b}a", "x#{a}|{b}", "{a}::{b}", "k:{a}/k#{b}"]
)


@pytest.mark.parametrize(
    ("template", "arguments", "target"),
    [
        ("order:{order_id}", {"order_id": "18431", "amount": Money(1, "USD")}, "order:18431"),
        ("order:{order_id}", {"order_id": 18431}, "order:18431"),
        ("order:{order_id}", {"order_id": -7}, "order:-7"),
        ("crm:{record}:{field}", {"record": "a:b", "field": "c"}, "crm:a%3Ab:c"),
        ("crm:{record}:{field}", {"record": "a", "field": "b:c"}, "crm:a:b%3Ac"),
        ("mail:{to}", {"to": "ana@example.org"}, "mail:ana@example.org"),
        ("mail:{to}", {"to": "ana%40example.org"}, "mail:ana%2540example.org"),
        ("file:{path}", {"path": "a/b c\n"}, "file:a%2Fb%20c%0A"),
        ("x:{a}", {"a": "{b}"}, "x:%7Bb%7D"),
        ("x:{a}", {"a": "M\u00fcller"}, "x:M\u00fcller"),
        ("x:{a}", {"a": "a\u200bb\u202e"}, "x:a%E2%80%8Bb%E2%80%AE"),
        ("nightly-report", {"a": 1}, "nightly-report"),
        ("{a}", {"a": "b"}, "b"),
    ],
)
def test_a_target_is_rendered(template: str, arguments: dict[str, object], target: str) -> None:
    assert TargetTemplate(template).render(arguments) == target


@given(templates, tricky | texts, tricky | texts, tricky | texts, tricky | texts)
@settings(max_examples=500)
@example("crm:{a}:{b}", "a:b", "c", "a", "b:c")
@example("crm:{a}:{b}", "%3A", "c", ":", "c")
@example("{a}-:-{b}-a", "a-", "b", "a", "-b")
def test_two_argument_sets_never_render_to_one_target(template: str, a: str, b: str, c: str, d: str) -> None:
    render = TargetTemplate(template).render
    assert (render({"a": a, "b": b}) == render({"a": c, "b": d})) == ((a, b) == (c, d))


@given(st.integers(-(10**30), 10**30))
def test_an_int_and_its_text_are_one_target(number: int) -> None:
    template = TargetTemplate("order:{order_id}")
    assert template.render({"order_id": number}) == template.render({"order_id": str(number)})


def test_no_invisible_character_reaches_a_target() -> None:
    """Every control and separator this interpreter's Unicode knows, and formats that hide or turn text."""
    hidden = [chr(n) for n in range(sys.maxunicode + 1) if unicodedata.category(chr(n)) in ("Cc", "Zs", "Zl", "Zp")]
    hidden += [chr(n) for n in range(0x200B, 0x2010)] + ["\u00ad", "\u061c", "\ufeff", "\U000e0041", "\ufe0f"]
    for character in hidden:
        target = TargetTemplate("x:{a}").render({"a": character})
        assert re.fullmatch(r"x:(%[0-9A-F]{2})+", target), ascii(character)
    visible = string.ascii_letters + string.digits + "!\"$&'()*+,-.;<=>?@[\\]^_`~"
    assert TargetTemplate("x:{a}").render({"a": visible}) == f"x:{visible}"


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("", "is empty"),
        ("x" * (TARGET_CHARS_MAX + 1), "at most 512"),
        ("a:{}", "bare name"),
        ("a:{0}", "bare name"),
        ("a:{order.id}", "bare name"),
        ("a:{order[id]}", "bare name"),
        ("a:{order_id!r}", "bare name"),
        ("a:{order_id:>10}", "bare name"),
        ("a:{ order_id }", "bare name"),
        ("a:{größe}", "bare name"),
        ("a:{", "brace"),
        ("a:}", "brace"),
        ("a:{{x}}", "brace"),
        ("a:{b{c}}", "brace"),
        ("{a}{b}", "two fields"),
        ("{a}-{b}", "two fields"),
        ("x:{a}and{b}", "two fields"),
        ("{a}:{a}", "twice"),
        ("a b:{c}", "visible"),
        ("a%3A{c}", "visible"),
        ("a\n", "visible"),
        ("a\u200b", "visible"),
        ("a\ud800", "lone surrogate"),
        (None, "plain str"),
    ],
)
def test_a_malformed_template_is_refused_at_registration(template: Any, reason: str) -> None:
    with pytest.raises(IdentityError, match=reason) as caught:
        TargetTemplate(template)
    assert caught.value.what == "target template"


def test_a_template_reports_its_fields_and_the_unknown_ones() -> None:
    template = TargetTemplate("crm:{record}:{field}")
    assert template.fields == ("record", "field")
    assert template.check(["field", "record", "note"]) == ()
    assert template.check(iter(["field"])) == ("record",)
    assert template.check([]) == ("record", "field")
    assert TargetTemplate("constant").fields == ()
    assert TargetTemplate("constant").check([]) == ()
    assert template == TargetTemplate("crm:{record}:{field}") != TargetTemplate("crm:{record}:{x}")
    assert hash(template) == hash(TargetTemplate("crm:{record}:{field}"))


@pytest.mark.parametrize(
    "value", [True, None, 1.0, Money(1, "USD"), b"a", ["a"], Name.A, 2**600, "", "\ud800", "x" * 600]
)
def test_only_plain_text_and_ints_name_a_target(value: object) -> None:
    with pytest.raises(IdentityError, match=r"^target "):
        TargetTemplate("x:{a}").render({"a": value})


def test_a_missing_argument_is_named() -> None:
    with pytest.raises(IdentityError, match="'field'"):
        TargetTemplate("crm:{record}:{field}").render({"record": "a"})


def test_a_rendered_target_is_bounded() -> None:
    template = TargetTemplate("x:{a}")
    assert len(template.render({"a": "y" * (TARGET_CHARS_MAX - 2)})) == TARGET_CHARS_MAX
    for value in ("y" * (TARGET_CHARS_MAX - 1), ":" * (TARGET_CHARS_MAX // 2)):
        with pytest.raises(IdentityError, match="at most 512"):
            template.render({"a": value})
