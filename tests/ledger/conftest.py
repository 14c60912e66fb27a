import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from amends.ledger.memory import MemoryLedger
from amends.ledger.sqlite import SqliteLedger


@pytest.fixture(params=["sqlite", "memory"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Any]:
    """Makes a new, closed ledger of each kind."""
    return MemoryLedger if request.param == "memory" else lambda: SqliteLedger(tmp_path / "ledger.db")


@pytest.fixture
def with_ledger(make: Callable[[], Any]) -> Callable[[Callable[[Any], Awaitable[None]]], None]:
    """Runs an async test body against an open ledger."""

    def run(body: Callable[[Any], Awaitable[None]]) -> None:
        async def main() -> None:
            ledger = make()
            await ledger.open()
            try:
                await body(ledger)
            finally:
                await ledger.close()

        asyncio.run(main())

    return run
