"""The workers, as the stage holds them: each a process that is started, followed, killed and never orphaned."""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from amends.errors import AmendsError, LedgerUnavailable

STDERR_CHARS_SHOWN: Final = 2_000
STOP_WAIT_S: Final = 10.0
EXIT_LEDGER: Final = 6
EXIT_ANSWERS: Final = frozenset({0, 1, 3, 4, 5})
"""Exit codes that say how the run stands; any other one is trouble of the worker itself."""


class StageError(AmendsError):
    """The rehearsal itself could not go on; this is about the stage, and says nothing about a run."""

    code = "demo"
    exit_code = 2


class Worker:
    """One worker process on the event of ``order``."""

    def __init__(self, directory: Path, scenario: str, order: str) -> None:
        self._stderr = directory / "workers.stderr.txt"
        command = [sys.executable, "-m", "amends.demo.worker", str(directory), scenario, order]
        with self._stderr.open("ab") as stderr:
            # A session of its own: what a person types to stop the stage is the stage's to hand on.
            self._popen = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    @property
    def running(self) -> bool:
        """Whether it is still there."""
        return self._popen.poll() is None

    def kill(self) -> None:
        """SIGKILL, and wait for its end. Safe to call again."""
        if self.running:
            self._popen.send_signal(signal.SIGKILL)
        self._popen.wait(STOP_WAIT_S)
        for pipe in (self._popen.stdin, self._popen.stdout):
            if pipe is not None:
                pipe.close()

    def said(self) -> Mapping[str, Any]:
        """What the ended worker said of its run.

        Raises:
            LedgerUnavailable: it could not use the ledger.
            StageError: it ended in another way than a run ends.
        """
        out = self._popen.stdout.read() if self._popen.stdout is not None else b""
        code = self._popen.wait(STOP_WAIT_S)
        self.kill()
        try:
            facts = json.loads(out)
        except ValueError:
            facts = {}
        if code in EXIT_ANSWERS and isinstance(facts, dict) and facts:
            return facts
        if code == EXIT_LEDGER and isinstance(facts, dict):
            raise LedgerUnavailable(str(facts.get("message", "a worker could not use the ledger")))
        raise StageError(f"a worker ended with exit code {code}; {self._last_words()}")

    def _last_words(self) -> str:
        try:
            said = self._stderr.read_text(errors="replace")[-STDERR_CHARS_SHOWN:].strip()
        except OSError as error:
            said = f"({type(error).__name__})"
        return f"its standard error, in {str(self._stderr)!r}, ends: {said}"
