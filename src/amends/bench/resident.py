"""A process of its own that does operations and says how much memory it holds, and how much it wrote.

``python -m amends.bench.resident DIRECTORY N [N…]`` prints one JSON object per N: resident memory after
that many operations in all, 50 in flight, twenty in a run. The last line has the ledger's bytes per
operation, after it was closed.
"""

import asyncio
import json
import os
import resource
import sys
from pathlib import Path
from typing import Final

from amends.bench import workload

FLIGHT: Final = 50
STEPS: Final = 20


def resident_mb() -> float:
    """Resident memory of this process now, in units of 10^6 bytes; the peak where the system tells no more."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        pages = int(statm.read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


async def measure(directory: Path, targets: list[int]) -> None:
    """Do the operations; print what is held at each of ``targets``."""
    async with workload.opened(directory, "resident") as load:
        for target in targets:
            runs = max(1, (target - load.operations) // STEPS)
            await workload.whole_runs(load, runs=runs, steps=STEPS, flight=FLIGHT)
            print(json.dumps({"operations": load.operations, "resident_mb": resident_mb()}), flush=True)  # noqa: T201
    print(json.dumps({"bytes_per_operation": load.path.stat().st_size / load.operations}), flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(measure(Path(sys.argv[1]), [int(word) for word in sys.argv[2:]]))
