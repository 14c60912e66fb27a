"""The command line as a person meets it: a real process, its exit code and what it wrote."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

HERE = Path(__file__).parent
ORDERS = ("ok", "declined", "lost", "several", "unsure", "reversed", "unlooked")


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


def rest_slow(cases: Iterable[Any], *, fast: int = 2) -> list[Any]:
    """``cases`` for a test that starts processes for each: the first run always, the others are ``slow``."""
    every = list(cases)
    slow = [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow) for case in every]
    return every[:fast] + slow[fast:]


Command = Callable[..., Ran]


def environment(**more: str) -> dict[str, str]:
    """This one, without what a person's shell may have set for Amends."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AMENDS_")}
    return {**kept, "COLUMNS": "80", **more}


def call(*arguments: str, cwd: Path = HERE, **more: str) -> Ran:
    """``python -m amends`` in a pipe."""
    ran = subprocess.run(
        [sys.executable, "-m", "amends", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(**more),
        timeout=100,
        check=False,
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def on_a_terminal(*arguments: str, columns: int = 80) -> Ran:
    """``python -m amends`` on a pseudo-terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "amends", *arguments]
    env = environment(TERM="xterm-256color") | {"COLUMNS": str(columns)}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, cwd=HERE, env=env) as process:
        os.close(theirs)
        said = b""
        try:
            while data := os.read(ours, 65_536):
                said += data
        except OSError:  # Linux: the other end is closed
            pass
        os.close(ours)
        return Ran(process.wait(timeout=100), said.decode(), "")


def sell(place: Path, *orders: str) -> int:
    """Run ``orders`` in the shop at ``place``; its exit code."""
    return subprocess.run(
        [sys.executable, HERE / "shop.py", *orders], env=environment(SHOP=str(place)), check=False
    ).returncode
