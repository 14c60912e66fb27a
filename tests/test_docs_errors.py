"""Every error a caller may meet has its section in the docs, and every section has its error."""

import re
from pathlib import Path

from amends import errors

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "errors.md"
QUESTIONS = ("**What happened.**", "**Who acts.**", "**What to do.**")


def sections() -> dict[str, str]:
    title, *rest = re.split(r"^## (?=\S)", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert title.startswith("# Errors")
    return dict(part.split("\n", 1) for part in rest)  # type: ignore[arg-type]


def codes() -> set[str]:
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    return {cls.code for cls in classes if issubclass(cls, errors.AmendsError)}


def test_the_page_has_one_section_for_each_code_and_none_for_what_is_no_code() -> None:
    assert set(sections()) == codes()


def test_each_section_says_what_happened_who_acts_and_what_to_do() -> None:
    assert [code for code, text in sections().items() if not all(each in text for each in QUESTIONS)] == []
