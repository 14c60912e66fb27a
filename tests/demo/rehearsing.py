"""What the tests of the demo share: the command as a process, and what a rehearsal left."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

WITHIN_S = 300


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


def amends(*arguments: str | bytes, **more: Any) -> Ran:
    """``python -m amends`` in a pipe."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("AMENDS_")}
    command = [sys.executable, "-m", "amends", *arguments]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
        **{**more, "env": {**env, **more.get("env", {})}},
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


class Rehearsed(NamedTuple):
    """A rehearsal that is over: its lines of JSON, and where it left its ledger."""

    lines: list[dict[str, Any]]
    ledger: Path

    def one(self, scenario: str, fault: str) -> dict[str, Any]:
        """The line of one run."""
        [line] = [each for each in self.lines if (each["scenario"], each["fault"]) == (scenario, fault)]
        return line
