"""The rehearsal's clock: the machine's own, moved forward by the stage.

What takes an hour in life — a key's retention, the time until a late request can no longer arrive — would
take an hour here as well. So the stage moves the clocks of all workers and of all destinations together,
and only while nothing is under way. Time never goes back, and nothing else about it is made up.
"""

import mmap
import os
from pathlib import Path

from amends.engines.system import SystemClock

_BYTES = 8


class MovedClock(SystemClock):
    """The machine's clock plus what the file at ``path`` says; any process may read it while one moves it."""

    def __init__(self, path: Path) -> None:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.fstat(handle).st_size < _BYTES:
                os.write(handle, bytes(_BYTES))
            self._ahead = memoryview(mmap.mmap(handle, _BYTES)).cast("q")
        finally:
            os.close(handle)

    def now_ms(self) -> int:
        """Milliseconds since the epoch, moved."""
        return super().now_ms() + self._ahead[0]

    def budget_ms(self) -> int:
        """Monotonic milliseconds, moved: to a budget it is as if the machine had slept."""
        return super().budget_ms() + self._ahead[0]

    def move(self, ms: int) -> None:
        """Move forward by ``ms``, in every process."""
        self._ahead[0] += max(0, ms)
