"""Shared by the sweeps: the destination that counts, and a line for the reader of the run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from counter import Store, serving
from scenario import Report


@pytest.fixture
def counter(tmp_path: Path) -> Iterator[Store]:
    """A destination in a process of its own."""
    with serving(tmp_path / "counter.db") as store:
        yield store


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Report:
    """Says what was counted, whether or not the test fails: a sweep over nothing must be seen."""

    def say(line: str) -> None:
        with capsys.disabled():
            print(f"\n  {line}", flush=True)

    return say
