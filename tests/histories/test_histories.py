"""Ledgers that were written by earlier versions load, fold to what they meant, and check clean, for ever."""

import json
import sqlite3
from pathlib import Path

import pytest

from amends.core.chain import Entry
from amends.core.history import history
from amends.core.model import RunState
from amends.core.narrate import narrate
from amends.ledger import rebuild
from amends.ledger.connection import reading
from amends.ledger.sql import QUERIES
from amends.ledger.sqlite import SqliteLedger

HERE = Path(__file__).parent
WRITTEN = sorted(HERE.glob("*.sql"))


@pytest.fixture(params=WRITTEN, ids=lambda path: path.stem)
def written(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    """A ledger as it was written, and the file that says what it meant then."""
    sql: Path = request.param
    path = tmp_path / "ledger.db"
    with sqlite3.connect(path) as db:
        db.executescript(sql.read_text(encoding="utf-8"))
    db.close()
    return path, sql.with_suffix(".json")


def meant(state: RunState) -> dict[str, object]:
    operations = state.operations.values()
    return {
        "ending": state.ending,
        "closed": state.closed,
        "end_state": state.end_state.said,
        "operations": sorted(f"{o.action} {o.target}: {o.state.value}, {o.attempts} attempts" for o in operations),
        "joined": sorted(joined.state.value for joined in state.joined.values()),
    }


def test_there_is_a_ledger_of_the_first_format() -> None:
    assert [path.stem for path in WRITTEN][:1] == ["0001"]


@pytest.mark.requirement("R14", "G9")
async def test_a_ledger_of_an_earlier_version_opens_and_checks_clean(written: tuple[Path, Path]) -> None:
    path, _ = written
    ledger = SqliteLedger(path)
    await ledger.open()
    await ledger.close()
    assert rebuild.check(path) == []


@pytest.mark.requirement("R14", "G9")
def test_its_tables_made_anew_are_the_ones_it_has(written: tuple[Path, Path]) -> None:
    path, _ = written

    def tables() -> list[list[tuple[object, ...]]]:
        with reading(path) as db:
            return [db.execute(QUERIES[name]).fetchall() for name in ("all_runs", "all_operations", "all_locks")]

    before = tables()
    assert rebuild.rebuild(path) == len(before[0])
    assert tables() == before


@pytest.mark.requirement("R14", "G9")
def test_its_runs_mean_what_they_meant_and_can_be_told(written: tuple[Path, Path]) -> None:
    path, expected = written
    told = {}
    with reading(path) as db:
        for run, *_ in db.execute(QUERIES["all_runs"]).fetchall():
            story = history(run, [Entry(*row) for row in db.execute(QUERIES["load"], (run,))])
            told[story.state.event or run] = meant(story.state)
            assert all(narrate(step.event, step.at_ms, step.operation) for step in story.steps)
    assert told == json.loads(expected.read_text(encoding="utf-8"))
