"""The real clock, the real entropy, and secrets as this machine keeps them."""

import os
import random
import time
from pathlib import Path

from amends.errors import UsageError

_SALT_BYTES = 16


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
        self.worker: str = os.urandom(9).hex()
        self._appends = 0
        self._pool = b""

    def jitter(self) -> float:
        """A number in [0, 1); it spreads retries and protects nothing."""
        return random.random()  # noqa: S311

    def salt(self) -> bytes:
        """Sixteen random bytes. They are drawn in blocks; no ledger is used after a fork, so none comes twice."""
        if not self._pool:
            self._pool = os.urandom(_SALT_BYTES * 256)
        salt, self._pool = self._pool[:_SALT_BYTES], self._pool[_SALT_BYTES:]
        return salt

    def append_id(self) -> str:
        """The worker's name and a counter."""
        self._appends += 1
        return f"{self.worker}-{self._appends}"


class SystemSecrets:
    """``env:NAME`` from the environment and ``file:/path`` from a file; one trailing newline is dropped."""

    def reveal(self, reference: str) -> str:
        """The value of ``reference``."""
        store, _, name = reference.partition(":")
        try:
            if store == "env":
                return os.environ[name]
            if store == "file":
                return Path(name).read_text(encoding="utf-8").removesuffix("\n")
        except (KeyError, OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the secret {reference!r} cannot be read: {type(error).__name__}") from None
        raise UsageError(f"the secret {reference!r} names no store that is known here (env, file)")
