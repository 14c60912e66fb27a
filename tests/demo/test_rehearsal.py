"""The main job, for real: every scenario under every fault. Effects are counted in the destinations' stores."""

import sqlite3
from pathlib import Path

import pytest
from rehearsing import Rehearsed, amends

from amends.demo.scenarios import FAULTS, SCENARIOS
from amends.ledger import rebuild

pytestmark = [pytest.mark.slow, pytest.mark.timeout(360)]

KEYS = ["scenario", "fault", "run", "ending", "effects", "expected", "attempts", "unresolved", "ok", "ledger"]
STORES = {"charges": "payments", "refunds": "payments"}
every = pytest.mark.parametrize(
    ("scenario", "fault"), [(scenario, fault) for scenario in SCENARIOS for fault in FAULTS]
)


def rows(ledger: Path, destination: str, query: str, *values: str) -> list[tuple[object, ...]]:
    """From the destination's own store, past its process, its counting and our ledger."""
    connection = sqlite3.connect(ledger.parent / "world" / f"{destination}.sqlite3")
    found = connection.execute(query, values).fetchall()
    connection.close()
    return found


@pytest.mark.requirement("R3", "R20", "R21", "R22", "R60", "G7", "A01")
@every
def test_effects_and_ending_are_right_under_every_fault(rehearsed: Rehearsed, scenario: str, fault: str) -> None:
    line = rehearsed.one(scenario, fault)
    assert list(line) == KEYS
    assert line["ok"], line
    assert line["effects"] == line["expected"] == SCENARIOS[scenario].expected(fault)
    assert line["ending"] == FAULTS[fault].ending
    assert bool(line["unresolved"]) is (FAULTS[fault].ending == "unknown")


@pytest.mark.requirement("G1")
@every
def test_the_stores_hold_no_record_twice_whatever_the_demo_says(
    rehearsed: Rehearsed, scenario: str, fault: str
) -> None:
    order = SCENARIOS[scenario].order(fault)
    for step in SCENARIOS[scenario].steps:
        name, value = step.counted_by
        query = f'SELECT COUNT(*) FROM {step.kind} WHERE "{name}" = ?'
        [(count,)] = rows(rehearsed.ledger, step.destination, query, value.format(order=order))
        assert count == SCENARIOS[scenario].expected(fault)[step.destination], step.action


def test_no_fault_went_unnoticed_at_the_destinations(rehearsed: Rehearsed) -> None:
    """What was really sent: a repeat reached the payment service only where one was allowed."""
    for scenario in SCENARIOS.values():
        for fault in FAULTS:
            sent = rehearsed.one(scenario.name, fault)["attempts"]
            steps = 1 if FAULTS[fault].ending == "unknown" else len(scenario.steps)
            repeats = fault == "late-response" and scenario.late_repeats
            assert sent == steps + repeats, (scenario.name, fault)


@pytest.mark.requirement("R5", "R23")
def test_a_late_original_after_its_repeat_was_absorbed_by_the_key(rehearsed: Rehearsed) -> None:
    order = SCENARIOS["refund"].order("late-response")
    [(key,)] = rows(rehearsed.ledger, "payments", 'SELECT key FROM refunds WHERE "order" = ?', order)
    arrivals = rows(rehearsed.ledger, "payments", "SELECT status FROM arrivals WHERE key = ?", str(key))
    assert arrivals == [(200,), (200,)]


@pytest.mark.requirement("R23", "C04")
def test_the_key_had_really_expired_where_it_is_said_to(rehearsed: Rehearsed) -> None:
    order = SCENARIOS["replacement-order"].order("expired-key")
    query = 'SELECT stored_ms FROM keys JOIN charges USING (key) WHERE "order" = ?'
    [(stored,)] = rows(rehearsed.ledger, "payments", query, order)
    [(mailed,)] = rows(
        rehearsed.ledger,
        "mail",
        "SELECT created FROM messages WHERE subject = ?",
        f"Order {order}: your replacement is on its way",
    )
    assert int(str(mailed)) - int(str(stored)) > 86_400_000


@pytest.mark.requirement("R14", "R24", "R25")
@every
def test_why_explains_each_run_from_the_ledger_that_was_left(rehearsed: Rehearsed, scenario: str, fault: str) -> None:
    line = rehearsed.one(scenario, fault)
    why = amends("why", line["run"], "--ledger", str(rehearsed.ledger))
    assert why.code == 0, why.err
    words = {
        "none": "the program is done",
        "kill-after-payment": "no result was recorded: its worker died or was stopped",
        "lost-response": "the call left and no certain answer came back",
        "late-response": "nothing was found, but the call could still have been on its way",
        "duplicate-event": "Nothing is owed",
        "lookup-lag": "nothing was found, but the call could still have been on its way or not yet readable",
        "lookup-down": "must act; nothing is sent again meanwhile",
        "expired-key": "the lookup found exactly one record with our key",
    }
    assert words[fault] in why.out
    assert f"The run's ending is {line['ending']}" in why.out


def test_the_other_commands_read_what_was_left(rehearsed: Rehearsed) -> None:
    ledger = str(rehearsed.ledger)
    runs = amends("runs", "--ledger", ledger)
    assert (runs.code, runs.out.count("run_")) == (0, len(rehearsed.lines))
    open_ = [each["unresolved"][0] for each in rehearsed.lines if each["unresolved"]]
    pending = amends("pending", "--ledger", ledger)
    assert (pending.code, all(name in pending.out for name in open_)) == (4, True)
    assert amends("show", open_[0], "--ledger", ledger).code == 0
    assert rebuild.check(rehearsed.ledger) == []
