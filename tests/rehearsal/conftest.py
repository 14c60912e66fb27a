"""One world per test module, over real processes, put back to nothing before each test.

A module names what it needs in `DESTINATIONS`. Nothing here sleeps: clocks are advanced, requests are held and
released, and every wait has a bound.
"""

from collections.abc import Iterator

import httpx
import pytest

from amends.testing.rehearsal.world import World

CLIENT_WAIT_S = 5.0


@pytest.fixture(scope="module")
def _open_world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("world"), destinations=request.module.DESTINATIONS) as world:
        yield world


@pytest.fixture
def world(_open_world: World) -> World:
    _open_world.reset()
    return _open_world


@pytest.fixture(scope="session")
def http() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False, timeout=CLIENT_WAIT_S) as client:
        yield client
