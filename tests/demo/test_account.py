"""An account is right only where effects and ending are, whatever else it says."""

import pytest

from amends.demo.account import Account

RIGHT = {
    "scenario": "refund",
    "fault": "none",
    "run": "run_1",
    "ending": "completed",
    "expected_ending": "completed",
    "effects": {"payments": 1, "mail": 1},
    "expected": {"payments": 1, "mail": 1},
    "attempts": 2,
    "unresolved": [],
    "ledger": "l.db",
}


def test_an_account_is_right_where_effects_and_ending_are() -> None:
    assert Account(**RIGHT).ok  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"effects": {"payments": 2, "mail": 1}},
        {"effects": {"payments": 1, "mail": 0}},
        {"effects": {"payments": 1}},
        {"ending": "unknown"},
        {"ending": "waiting"},
    ],
)
def test_an_account_is_wrong_for_one_effect_too_many_or_few_and_for_another_ending(wrong: dict[str, object]) -> None:
    made = Account(**{**RIGHT, **wrong})  # type: ignore[arg-type]
    assert (made.ok, made.to_json()["ok"]) == (False, False)
