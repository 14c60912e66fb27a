"""The ledger's file is taken away while it is open: nothing more is acknowledged, and nothing is sent."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from building import Run, life, proposed

from amends import Amends, Call, Receipt
from amends.errors import LedgerUnavailable
from amends.ledger.rebuild import check
from amends.ledger.sqlite import SqliteLedger

pytestmark = pytest.mark.requirement("R11", "R14", "G1", "F03")


def unlinked(path: Path) -> None:
    path.unlink()


def all_unlinked(path: Path) -> None:
    for each in path.parent.glob("ledger.db*"):
        each.unlink()


def renamed(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def replaced_by_a_copy(path: Path) -> None:
    shutil.copy(path, path.with_name("copy.db"))
    os.replace(path.with_name("copy.db"), path)


def replaced_by_a_link_to_another(path: Path) -> None:
    shutil.copy(path, path.with_name("copy.db"))
    path.unlink()
    path.symlink_to(path.with_name("copy.db"))


def directory_renamed(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def directory_replaced(path: Path) -> None:
    directory_renamed(path)
    shutil.copytree(path.parent.with_name("elsewhere"), path.parent)


def log_unlinked(path: Path) -> None:
    path.with_name("ledger.db-wal").unlink()


def log_replaced(path: Path) -> None:
    log = path.with_name("ledger.db-wal")
    shutil.copy(log, path.with_name("copy"))
    os.replace(path.with_name("copy"), log)


def shared_memory_unlinked(path: Path) -> None:
    path.with_name("ledger.db-shm").unlink()


FILE = [
    unlinked,
    all_unlinked,
    renamed,
    replaced_by_a_copy,
    replaced_by_a_link_to_another,
    directory_renamed,
    directory_replaced,
]
LOG = [log_unlinked, log_replaced, shared_memory_unlinked]


def name(taking: Callable[[Path], None]) -> str:
    return taking.__name__


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "place").mkdir()
    return tmp_path / "place" / "ledger.db"


@pytest.mark.parametrize("take_away", FILE + LOG, ids=name)
@pytest.mark.parametrize("together", [1, 3])
def test_no_append_is_acknowledged_by_a_file_that_its_path_no_longer_names(
    path: Path, take_away: Callable[[Path], None], together: int
) -> None:
    async def main() -> None:
        ledger = SqliteLedger(path)
        await ledger.open()
        await ledger.append(life("before", "-")[0])
        take_away(path)
        for _ in range(2):  # the second opens nothing new in the place of the first
            appends = [life(f"run_{n}", "-")[0] for n in range(together)]
            answers: list[Any] = await asyncio.gather(*map(ledger.append, appends), return_exceptions=True)
            assert {type(answer) for answer in answers} == {LedgerUnavailable}
            assert all("was moved, removed or replaced while this program had it open" in str(a) for a in answers)
            assert all(repr(str(path)) in str(a) for a in answers)
        with pytest.raises(LedgerUnavailable, match="while this program had it open"):
            ledger.version("before")
        await ledger.close()

    there = take_away in {replaced_by_a_copy, replaced_by_a_link_to_another, directory_replaced, *LOG}
    asyncio.run(main())
    assert path.exists() is there


@pytest.mark.parametrize("take_away", LOG, ids=name)
def test_what_was_acknowledged_before_the_log_was_lost_is_there_after_the_end(
    path: Path, take_away: Callable[[Path], None]
) -> None:
    async def main() -> None:
        ledger = SqliteLedger(path)
        await ledger.open()
        run = Run("run_1")
        await ledger.append(run.opened())
        await ledger.append(run.next(proposed("op_1")))
        take_away(path)
        with pytest.raises(LedgerUnavailable):
            await ledger.append(life("run_2", "-")[0])
        await ledger.close()
        await ledger.open()
        assert ledger.version("run_1") == 2
        await ledger.close()

    asyncio.run(main())
    assert check(path) == []


def test_a_file_that_was_put_back_is_used_again_after_the_next_open(path: Path) -> None:
    async def main() -> None:
        ledger = SqliteLedger(path)
        await ledger.open()
        moved = path.rename(path.with_name("moved.db"))
        with pytest.raises(LedgerUnavailable):
            await ledger.append(life("run_1", "-")[0])
        moved.rename(path)
        with pytest.raises(LedgerUnavailable, match="put the file back, start the program again"):
            await ledger.append(life("run_2", "-")[0])
        await ledger.close()
        await ledger.open()
        await ledger.append(life("run_3", "-")[0])
        await ledger.close()

    asyncio.run(main())
    assert check(path) == []


def test_a_new_write_connection_makes_no_new_file_in_the_place_of_a_lost_one(path: Path) -> None:
    async def main() -> None:
        ledger = SqliteLedger(path)
        await ledger.open()
        ledger._discard()  # as after an error of the disk
        renamed(path)
        with pytest.raises(LedgerUnavailable, match="while this program had it open"):
            await ledger.append(life("run_1", "-")[0])
        await ledger.close()

    asyncio.run(main())
    assert not path.exists()


@pytest.mark.parametrize("take_away", FILE + LOG, ids=name)
def test_an_effect_whose_claim_went_into_a_lost_file_is_not_sent(path: Path, take_away: Callable[[Path], None]) -> None:
    sent: list[str] = []
    app = Amends(path)

    @app.effect("charge", recovery="irreversible", target="order:{order}", owner="us", lookup="escalate")
    async def charge(call: Call, *, order: str) -> Receipt:
        sent.append(order)
        return Receipt(resource=order)

    async def main() -> None:
        async with app:
            for order in ("1", "2", "3"):
                if order == "2":
                    take_away(path)
                try:
                    async with app.run("sale", event=f"order:{order}") as run:
                        await run.do(charge, order=order)
                except LedgerUnavailable:
                    assert order != "1"

    asyncio.run(main())
    assert sent == ["1"]
