"""What every sweep needs: a command that runs a worker against a ledger, and a destination that counts.

A worker is a program that opens its runs by business events, so starting it again after its death is what
an operator would do. It prints the endings of its runs and returns 0 when all of them are ``completed``.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from counter import Store

from amends.ledger import rebuild

HERE = Path(__file__).parent
Report = Callable[[str], None]
"""Says one line to whoever reads the run: what was counted."""
SIGKILL = -9
WITHIN_S = 60
"""A worker that is still there then hangs; undisturbed it takes less than two seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One worker and its destination.

    Args:
        command: the worker's argument vector for the ledger at a path.
        effects: how many effects an undisturbed run makes.
        count: from the destination's own store: each effect made so far, and how often.
        forget: empties the destination's store.
    """

    command: Callable[[Path], Sequence[str]]
    effects: int
    count: Callable[[], Counter[str]]
    forget: Callable[[], None]

    def run(self, ledger: Path, *, under: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        """Run the worker to its end, ``under`` a tracer if one is given."""
        command = [*under, *self.command(ledger)]
        return subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)

    def finish(self, ledger: Path, *, after: str) -> None:
        """Start the worker again, undisturbed: each effect is made once and the record holds together."""
        again = self.run(ledger)
        assert again.returncode == 0, f"{after}: {again.stdout}{again.stderr}"
        assert "completed" in again.stdout.split(), f"{after}: {again.stdout}"
        made = self.count()
        assert (len(made), set(made.values())) == (self.effects, {1}), f"{after}: {made}"
        assert rebuild.check(ledger) == [], after
        self.forget()


def crew(counter: Store, *options: str, runs: int = 3, charges: int = 2) -> Scenario:
    """Several runs at once against ``counter``; for ``options`` see ``crew.py``."""

    def command(ledger: Path) -> list[str]:
        size = ["--runs", str(runs), "--charges", str(charges)]
        return [sys.executable, str(HERE / "crew.py"), str(ledger), str(counter.port), *size, *options]

    return Scenario(command=command, effects=runs * charges, count=counter.charges, forget=counter.forget)
