"""The real clock and the real entropy."""

import os
import random
import time


class SystemClock:
    """Wall time for the record; ``CLOCK_BOOTTIME`` for budgets, since it counts suspension."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def budget_ms(self) -> int:
        """Monotonic milliseconds, suspension included."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class SystemEntropy:
    """Chance from the operating system; ``worker`` names this incarnation of the process."""

    def __init__(self) -> None:
        self.worker = os.urandom(9).hex()
        self._appends = 0

    def jitter(self) -> float:
        """A number in [0, 1); it spreads retries and protects nothing."""
        return random.random()  # noqa: S311

    def salt(self) -> bytes:
        """Sixteen random bytes."""
        return os.urandom(16)

    def append_id(self) -> str:
        """The worker's name and a counter."""
        self._appends += 1
        return f"{self.worker}-{self._appends}"
