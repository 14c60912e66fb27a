"""What the tests of a run's life share: a clock that a test sets, and a shop whose till counts its charges."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from terms import FENCED, QUICK

from amends.bootstrap import Amends
from amends.core.evidence import Absent, Found, Observation, Receipt
from amends.core.history import history
from amends.engines.system import SystemClock
from amends.service.call import Call
from amends.service.registry import Effect

WITHIN_S = 60
"""The longest wait of a test for something that surely comes."""


class SetClock(SystemClock):
    """The real clock, moved forward by what a test says; budgets move with it."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def budget_ms(self) -> int:
        return super().budget_ms() + self.ahead_ms

    def forward(self, seconds: float) -> None:
        self.ahead_ms += int(seconds * 1000)


class Till:
    """A destination that counts: ``made`` is what happened, ``sent`` every call that arrived."""

    def __init__(self) -> None:
        self.made: list[Receipt] = []
        self.sent: list[str] = []
        self.answers: list[Exception] = []
        self.observation: Observation | None = None
        self.looks = 0

    def take(self, key: str, name: str) -> Receipt:
        receipt = Receipt(resource=f"r{len(self.made)}-{name}", correlation=key)
        self.made.append(receipt)
        return receipt

    async def charge(self, call: Call, *, name: str, size: int = 1) -> Receipt:
        self.sent.append(call.key)
        if self.answers:
            raise self.answers.pop(0)
        return self.take(call.key, name)

    async def find(self, call: Call) -> Observation:
        self.looks += 1
        if self.observation is not None:
            return self.observation
        ours = [receipt for receipt in self.made if receipt.correlation == call.key]
        return Found(*ours) if ours else Absent(complete=True)


def shop(path: Path, till: Till, *, clock: SetClock | None = None, **options: Any) -> tuple[Amends, Effect]:
    """An application on the ledger at ``path`` with the effect ``charge``."""
    app_options = {name: options.pop(name) for name in ("policy",) if name in options}
    app = Amends(path / "ledger.db", clock=clock, **app_options)
    fields = {"recovery": "compensatable", "target": "thing:{name}", "owner": "till", "destination": FENCED}
    charge = app.effect("charge", **{**fields, "retry": QUICK, "execution_timeout_s": 5.0, **options})(till.charge)
    charge.lookup(till.find)
    return app, charge


def kinds(app: Amends, run: str) -> list[str]:
    """The kinds of the run's events, in order."""
    return [step.event.kind.value for step in history(run, app.ledger.load(run)).steps]


async def until(holds: Callable[[], bool]) -> None:
    """Wait until ``holds``, which something that is going on by itself brings about."""
    async with asyncio.timeout(WITHIN_S):
        while not holds():
            await asyncio.sleep(0.01)
