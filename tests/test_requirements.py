"""The table of requirements and the tests agree, both ways."""

from collections import Counter

from requirements import _IDS, _PARTLY, REQUIREMENTS, places_by_id

COUNTS = {"R": 60, "G": 12}


def test_the_table_has_every_requirement_and_guarantee_once() -> None:
    listed = Counter(name for names in _IDS.values() for name in names.split())
    listed.update(list(_PARTLY))
    assert [name for name, times in listed.items() if times > 1] == []
    for letter, last in COUNTS.items():
        wanted = {f"{letter}{n}" for n in range(1, last + 1)}
        assert wanted <= set(REQUIREMENTS), sorted(wanted - set(REQUIREMENTS))


def test_every_marked_id_is_in_the_table() -> None:
    unknown = {name: places for name, places in places_by_id().items() if name not in REQUIREMENTS}
    assert unknown == {}


def test_every_id_without_a_reason_has_a_test() -> None:
    found = places_by_id()
    assert [name for name, reason in REQUIREMENTS.items() if not reason and name not in found] == []


def test_no_reason_says_none_yet_over_an_id_that_has_tests() -> None:
    found = places_by_id()
    assert [name for name, reason in REQUIREMENTS.items() if "none yet" in reason and name in found] == []


def test_what_is_partly_shown_has_tests_of_that_part() -> None:
    found = places_by_id()
    assert [name for name in _PARTLY if name not in found] == []
