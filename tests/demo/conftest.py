"""One whole rehearsal for all tests that look at what it told and left: every scenario, every fault, real processes."""

import json

import pytest
from rehearsing import Rehearsed, amends


@pytest.fixture(scope="session")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    place = tmp_path_factory.mktemp("rehearsed") / "kept"
    ran = amends("demo", "--json", "--keep", str(place))
    assert (ran.code, ran.err) == (0, ""), ran.err
    return Rehearsed([json.loads(line) for line in ran.out.splitlines()], place / "ledger.db")
