"""The rehearsal as a whole: which runs, in which order, and their accounts one by one."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import httpx

from amends.demo.account import Account, account
from amends.demo.faults import cause
from amends.demo.scenarios import Scenario
from amends.demo.stage import Performance, Stage, Tell
from amends.testing.rehearsal.world import ControlRefusedError

EARLIER_MS: Final = 3_600_000
"""How old what a run finds there is: no list lags by as much."""


class Audience(Protocol):
    """Who is told the story."""

    @property
    def tell(self) -> Tell:
        """Takes one line."""
        ...

    def begins(self, scenario: Scenario, fault: str, order: str) -> None:
        """A run is about to begin."""
        ...


def play(
    directory: Path, scenarios: Sequence[Scenario], faults: Sequence[str], audience: Audience
) -> Iterator[Account]:
    """Perform every scenario with every fault in ``directory``, on one set of destinations.

    Raises:
        StageError: the rehearsal could not go on.
        LedgerUnavailable: the ledger could not be used.
    """
    with Stage(directory, audience.tell) as stage, _destinations_answer(stage):
        for scenario in scenarios:
            for fault in faults:
                stage.prepare(scenario, scenario.order(fault))
        stage.pass_time(EARLIER_MS, "what was there before — stock, customers, payments to refund — is an hour old")
        for scenario in scenarios:
            for fault in faults:
                yield _perform(stage, scenario, fault, audience)


@contextmanager
def _destinations_answer(stage: Stage) -> Iterator[None]:
    """A destination that cannot do as it is told — a full disk, say — is trouble of the rehearsal, told as such."""
    try:
        yield
    except (ControlRefusedError, ConnectionRefusedError, ConnectionResetError, httpx.HTTPError, ValueError) as error:
        raise stage.trouble("a rehearsal destination did not do as it was told", error) from error


def _perform(stage: Stage, scenario: Scenario, fault: str, audience: Audience) -> Account:
    order, expected = scenario.order(fault), scenario.expected(fault)
    audience.begins(scenario, fault, order)
    with Performance(stage, scenario, order) as it:
        cause(fault, it)
        return account(it, fault, expected)
