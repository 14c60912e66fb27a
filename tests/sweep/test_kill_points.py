"""The replacement order's worker is killed (SIGKILL) at every named point, then started again.

Named points stand before and after every durable write and every external call. Payment, reservation, shipment
and mail are counted in the destinations' own stores, by the order and not by our key; the destinations are real
processes. Between death and restart an hour passes by the workers' clock, so nothing waits for a budget.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from scenario import SIGKILL, Report
from typer.testing import CliRunner

from amends.cli.main import build
from amends.core.identity import run_id
from amends.demo.account import counted
from amends.demo.clock import MovedClock
from amends.demo.scenarios import SCENARIOS, TENANT
from amends.ledger import rebuild
from amends.ledger.snapshot import snapshot
from amends.testing.rehearsal.world import World

HERE = Path(__file__).parent
SCENARIO = SCENARIOS["replacement-order"]
WITHIN_S = 60
AT_ONCE = min(2, os.cpu_count() or 1)
HOUR_MS = 3_600_000
ORDERS = range(10_000, 10_400)

COMMIT = ["ledger.before_commit", "ledger.after_commit"]
EFFECT = ["claim.before", *COMMIT, "claim.after", "call.before_send", "call.before_send", "call.after", *COMMIT]
"""A claim and a call: the budget is looked at before the function runs and before its request leaves."""
VERIFIED = ["result.after", "verify.before", "call.before_send", "verify.after", *COMMIT]
"""The read that verifies, with its own look at the budget."""
MAIL = [*EFFECT[:5], "call.before_send", *EFFECT[5:]]
"""The same, with one more look before the line that ends the mail."""
UNDISTURBED = [*COMMIT, *(EFFECT + VERIFIED) * 3, *MAIL, *VERIFIED, *COMMIT]
"""What a whole order passes: its start's sealing, four effects, its leaving."""

pytestmark = [
    pytest.mark.sweep,
    pytest.mark.timeout(300),
    pytest.mark.requirement("R8", "R11", "R14", "R20", "R21", "R60", "G1", "G3", "A01", "E15"),
]


class Ended(NamedTuple):
    """A worker's end."""

    code: int
    said: dict[str, Any]
    err: str


class Shopfloor:
    """The destinations of a sweep; each order has a ledger and a clock of its own."""

    def __init__(self, place: Path, world: World) -> None:
        self._place, self._world = place, world

    def work(self, order: int, *kill_at: int) -> Ended:
        """Run the order's worker to its end."""
        paths = (self._world.path, self.ledger(order), self._clock(order))
        command = [sys.executable, HERE / "order.py", *paths, str(order), *map(str, kill_at)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
        return Ended(ran.returncode, json.loads(ran.stdout) if ran.returncode == 0 else {}, ran.stderr)

    def kill(self, order: int, at: int) -> None:
        """The worker dies at its ``at``-th point, and an hour passes."""
        killed = self.work(order, at)
        assert killed.code == SIGKILL, f"point {at} was not reached: {killed.err}"
        MovedClock(self._clock(order)).move(HOUR_MS)

    def ledger(self, order: int) -> Path:
        return self._place / f"{order}.db"

    def _clock(self, order: int) -> Path:
        return self._place / f"{order}.clock"

    def effects(self, order: int) -> dict[str, int]:
        """Counted at the destinations."""
        return counted(self._world, SCENARIO, str(order))

    def why(self, order: int) -> str:
        """What ``amends why`` says of the order's run; empty where nothing of it was recorded."""
        run = run_id(TENANT, SCENARIO.event.format(order=order))
        path = self.ledger(order)
        if not path.exists():
            return ""
        with snapshot(path) as look:
            if look.run(run) is None:
                return ""
        said = CliRunner().invoke(build(), ["why", run, "--ledger", str(path)])
        assert said.exit_code == 0, said.output
        return said.output


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("world")) as opened:
        opened.warehouse.control(stock={f"A-{order}": 5 for order in ORDERS})
        yield opened


@pytest.fixture
def floor(tmp_path: Path, world: World) -> Shopfloor:
    return Shopfloor(tmp_path, world)


def side_by_side(orders: Sequence[int], work: Callable[[int], None]) -> None:
    """``work`` for every order, as many at once as there are processors; raises what one of them raised."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done in [pool.submit(work, order) for order in orders]:
            done.result()


def settled(floor: Shopfloor, order: int, *, after: str) -> None:
    """Started again, the worker leaves each effect made once; the record holds together and explains it."""
    assert max(floor.effects(order).values()) <= 1, after
    again = floor.work(order)
    assert (again.code, again.said.get("ending")) == (0, "completed"), f"{after}: {again}"
    assert set(floor.effects(order).values()) == {1}, f"{after}: {floor.effects(order)}"
    assert rebuild.check(floor.ledger(order)) == [], after


def test_an_order_killed_at_every_point_makes_each_effect_once(floor: Shopfloor, report: Report) -> None:
    undisturbed = floor.work(ORDERS[0])
    assert undisturbed.said["points"] == UNDISTURBED, "a point was added or lost: say which above"
    dead: dict[int, str] = {}

    def killed(order: int) -> None:
        at = order - ORDERS[0]
        floor.kill(order, at)
        settled(floor, order, after=f"killed at point {at}, {UNDISTURBED[at - 1]}")
        dead[order] = UNDISTURBED[at - 1]

    orders = ORDERS[1 : len(UNDISTURBED) + 1]
    side_by_side(orders, killed)
    assert len(dead) == len(UNDISTURBED)
    lost = 0
    for order in orders:
        why = floor.why(order)
        assert "The run's ending is completed" in why, dead[order]
        assert why.count(" is verified: it happened and was verified") == len(SCENARIO.steps), dead[order]
        lost += "no result was recorded: its worker died or was stopped" in why
    in_flight = ("claim.after", "call.before_send", "call.after")
    assert lost >= sum(point in in_flight for point in dead.values()) - len(SCENARIO.steps)  # reads look there too
    report(f"killed at {len(dead)} points of the replacement order; {lost} attempts were found out about")


def test_a_worker_that_recovers_may_be_killed_at_every_point_too(floor: Shopfloor, report: Report) -> None:
    """Once with the payment made and once without: what finds out dies as well, and the next one finds out."""
    made, sent_nothing = UNDISTURBED.index("call.after") + 1, UNDISTURBED.index("claim.after") + 1
    swept = 0
    for first, base in ((made, 200), (sent_nothing, 300)):
        floor.kill(ORDERS[base], first)
        recovering = floor.work(ORDERS[base]).said["points"]
        until = recovering.index("verify.after") + len(COMMIT) + 1
        assert "lookup.before" in recovering[:until]
        assert "lookup.after" in recovering[:until]

        def killed_twice(order: int, first: int = first, base: int = base) -> None:
            at = order - ORDERS[base]
            floor.kill(order, first)
            floor.kill(order, at)
            settled(floor, order, after=f"killed at point {first} and, recovering, at {at}")

        orders = ORDERS[base + 1 : base + until + 1]
        side_by_side(orders, killed_twice)
        for order in orders:
            assert "The run's ending is completed" in floor.why(order)
        swept += until
    report(f"killed again at {swept} points of the recovery")
