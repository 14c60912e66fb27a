"""A synchronous program gets a real SIGINT at each of its crash points: what left is never lost and never doubled."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from till import event

from amends.core.identity import run_id
from amends.testing.rehearsal.world import World

TILL = Path(__file__).with_name("till.py")
WITHIN_S = 60


def sale(ledger: Path, world: World, order: str, at: int = 0) -> tuple[str, int]:
    command = [sys.executable, str(TILL), str(ledger), world.payments.url, order, str(at)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=WITHIN_S)
    assert ran.stderr == ""
    word, reached = ran.stdout.split()
    return word, int(reached)


def standing(ledger: Path, order: str) -> tuple[str | None, str | None]:
    """The state of the order's operation, and how its run stands: as the ledger of a program that ended has it."""
    run = run_id("default", event(order))
    with closing(sqlite3.connect(ledger)) as db:
        [state] = db.execute("SELECT state FROM operations WHERE run = ?", (run,)).fetchone() or [None]
        [ending] = db.execute("SELECT ending FROM runs WHERE id = ?", (run,)).fetchone() or [None]
    return state, ending


@pytest.mark.sweep
@pytest.mark.requirement("R11", "G1", "G3")
def test_an_interruption_at_each_point_loses_and_doubles_nothing(world: World, tmp_path: Path) -> None:
    word, points = sale(tmp_path / "counted.db", world, "0")
    assert (word, points > 8) == ("done", True)
    interrupted = recorded = 0
    for at in range(1, points + 1):
        order, ledger = str(at), tmp_path / f"{at}.db"
        word, _ = sale(ledger, world, order, at)
        state, ending = standing(ledger, order)
        made = world.payments.effects(order=order)["charges"]
        interrupted += word == "interrupted"
        recorded += made == 1 and state in ("verifying", "verified")
        assert made <= 1
        assert ending is None or word == "done" or (made, ending) == (1, "completed")
        if made:
            assert state is not None, f"a charge was made at point {at} and the ledger does not know of it"
        assert sale(ledger, world, order)[0] == "done"
        assert standing(ledger, order) == ("verified", "completed") or standing(ledger, order)[0] == "reconciled"
        assert world.payments.effects(order=order)["charges"] == 1
    assert interrupted > points // 2
    assert recorded > 0, "a thread goes on without its caller, and what it brings is recorded"
