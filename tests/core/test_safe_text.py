"""What somebody else wrote cannot steer a terminal, turn the reading direction or hide."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends.core.safe_text import quoted, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("order:18431", "order:18431"),
        ("Zoë 北京 שלום", "Zoë 北京 שלום"),
        ("\x1b[31mred\x07", "\\u{1b}[31mred\\u{7}"),
        ("a\u202eb", "a\\u{202e}b"),
        ("a\u200bb\ufeff", "a\\u{200b}b\\u{feff}"),
        ("a\u3164b\u2800", "a\\u{3164}b\\u{2800}"),
        ("a\u00a0b", "a\\u{a0}b"),
        ("a\U000e0041", "a\\u{e0041}"),
        ("line\nnext\ttab\r", "line\\nnext\\ttab\\r"),
        ("\ud800", "\\u{d800}"),
        ("e\u0301", "e\u0301"),
        ("\u0301e", "\\u{301}e"),
        ("e" + "\u0301" * 5, "e" + "\u0301" * 3 + "\\u{301}" * 2),
        ("\\u{1b}", "\\\\u{1b}"),
    ],
)
def test_what_cannot_be_seen_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_what_is_cut_is_counted() -> None:
    assert visible("x" * 30, 10) == "x" * 10 + "… (20 more characters)"
    assert visible("\n" * 30, 10) == "\\n" * 5 + "… (25 more characters)"


def test_a_quote_inside_cannot_end_the_quotation() -> None:
    assert quoted('said "yes", approved') == '"said \\"yes\\", approved"'


@given(st.text(st.characters(codec=None)))
def test_the_result_is_one_printable_line(text: str) -> None:
    shown = visible(text, sys.maxsize)
    assert all(char.isprintable() for char in shown)
    assert len(shown.splitlines()) <= 1
    json.dumps(shown).encode()


@given(st.text(max_size=6), st.text(max_size=6))
def test_two_texts_never_look_alike_by_their_escapes(one: str, two: str) -> None:
    assert (visible(one) == visible(two)) == (one == two)


def test_every_code_point_is_shown_or_escaped() -> None:
    for number in range(sys.maxunicode + 1):
        shown = visible("x" + chr(number))
        assert shown.isprintable(), hex(number)
