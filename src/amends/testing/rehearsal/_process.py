"""A child process that is a rehearsal server: started, awaited, ended, never orphaned.

The child is told to end when its standard input does; the write end lives in this process, so even `kill -9` of a
test run leaves nothing behind. Start and wait are separate, so that several servers can start side by side.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

READY_WAIT_MS: Final = 15_000
"""Starting takes a third of a second; a loaded machine is given much more before the start counts as failed."""

STOP_WAIT_MS: Final = 3_000
"""How long a server may take to end after SIGTERM before it is killed."""

READY_LINE_BYTES_MAX: Final = 4_096
STDERR_CHARS_SHOWN: Final = 2_000


class StartFailedError(RuntimeError):
    """A rehearsal server did not become ready; the message carries the end of what it wrote to standard error."""


class Process:
    """One server process. Use `start`, then `wait_ready`; `stop`, `kill` and `close` may be called more than once.

    `ready` is the server's own announcement, with its ports. Standard error goes to `stderr_path`.
    """

    def __init__(self, module: str, arguments: Sequence[str], *, stderr_path: Path) -> None:
        self.module = module
        self.stderr_path = stderr_path
        self.ready: dict[str, Any] = {}
        with stderr_path.open("ab") as stderr:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", module, *arguments, "--exit-with-stdin"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                bufsize=0,
            )

    @classmethod
    def start(cls, module: str, arguments: Sequence[str], *, stderr_path: Path) -> "Process":
        """Start `python -m module`; returns at once."""
        return cls(module, arguments, stderr_path=stderr_path)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def alive(self) -> bool:
        return self._popen.poll() is None

    def wait_ready(self, *, wait_ms: int = READY_WAIT_MS) -> dict[str, Any]:
        """Wait for the ready line and return it.

        Raises:
            StartFailedError: the process ended, or was not ready in time; it has been stopped.
        """
        line = self._first_line(time.monotonic() + wait_ms / 1000)
        try:
            parsed = json.loads(line)
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict) or parsed.get("ready") is not True:
            self.kill()
            raise StartFailedError(self._why(line, wait_ms))
        self.ready = parsed
        return parsed

    def stop(self, *, wait_ms: int = STOP_WAIT_MS) -> int:
        """SIGTERM, then SIGKILL when it does not end in time; returns the exit status."""
        self.request_stop()
        try:
            status = self._popen.wait(wait_ms / 1000)
        except subprocess.TimeoutExpired:
            return self.kill()
        self._close_pipes()
        return status

    def request_stop(self) -> None:
        """SIGTERM without waiting, so that several can end side by side."""
        if self.alive:
            self._popen.send_signal(signal.SIGTERM)

    def kill(self) -> int:
        """SIGKILL: the death a destination's store has to survive."""
        if self.alive:
            self._popen.kill()
        status = self._popen.wait()
        self._close_pipes()
        return status

    def _first_line(self, deadline: float) -> bytes:
        if self._popen.stdout is None:
            raise StartFailedError(f"{self.module} was started without a pipe to read from")
        line, descriptor = b"", self._popen.stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while not line.endswith(b"\n") and len(line) < READY_LINE_BYTES_MAX:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    break
                read = os.read(descriptor, READY_LINE_BYTES_MAX)
                if not read:
                    break
                line += read
        return line

    def _why(self, line: bytes, wait_ms: int) -> str:
        said = self.stderr_path.read_text(errors="replace")[-STDERR_CHARS_SHOWN:]
        return f"{self.module} was not ready within {wait_ms} ms (said {line!r}); its standard error ends: {said}"

    def _close_pipes(self) -> None:
        for pipe in (self._popen.stdin, self._popen.stdout):
            if pipe is not None:
                pipe.close()
