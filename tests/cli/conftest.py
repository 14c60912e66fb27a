"""Ledgers that the shop left: made once by real processes, copied where a test changes one."""

import shutil
from pathlib import Path

import pytest
from commanding import ORDERS, sell


@pytest.fixture(scope="session")
def sold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shop after every kind of order, the last by a process that was killed; not to be changed."""
    place = tmp_path_factory.mktemp("shop")
    assert sell(place, *ORDERS) == 0
    assert sell(place, "killed") == -9
    return place


@pytest.fixture
def shop(sold: Path, tmp_path: Path) -> Path:
    """A copy of ``sold``, to be changed at will."""
    return Path(shutil.copytree(sold, tmp_path / "shop"))
