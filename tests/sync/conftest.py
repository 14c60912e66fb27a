"""One rehearsed payment service for each module, put back to nothing before each test."""

from collections.abc import Iterator

import pytest

from amends.testing.rehearsal.world import World


@pytest.fixture(scope="module")
def _open_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("world"), destinations=("payments",)) as world:
        yield world


@pytest.fixture
def world(_open_world: World) -> World:
    _open_world.reset()
    return _open_world
