"""Cases from the field, over real destination processes. Effects are counted in the destinations' own stores."""

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path

import httpx  # noqa: F401 — heavy: imported before any attempt's budget begins
import pytest

from amends.demo.clock import MovedClock
from amends.demo.shop import Shop
from amends.testing.rehearsal.world import World


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(scope="module")
def _open_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("world")) as world:
        yield world


@pytest.fixture
def world(_open_world: World) -> World:
    for name in ("payments", "warehouse", "carrier", "crm", "mail"):
        _open_world[name].reset()
    _open_world.warehouse.control(stock={"A-1": 5})
    return _open_world


@pytest.fixture
def clock(tmp_path: Path) -> MovedClock:
    """The clock of every shop in the test; it can be moved forward."""
    return MovedClock(tmp_path / "clock")


@pytest.fixture
def shop(tmp_path: Path, world: World, clock: MovedClock) -> Shop:
    return Shop(tmp_path / "ledger.db", world, clock=clock)
