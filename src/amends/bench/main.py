"""``amends bench``: one run of all measurements, beside the disk's own rate.

Everything is measured in rounds. A round takes a slice of every measurement, with a slice of the disk's
single-row commits before each, so that whatever else the machine does meanwhile hits both. All rates are
totals over all rounds. The processor time is the process's, its threads and the kernel's part included:
``raw_cpu_us`` says how much of it a bare commit takes here.
"""

import asyncio
import json as json_format
import platform
import sqlite3
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from amends.bench import children, report, workload
from amends.bench.disk import Disk, place, processor, sync_us
from amends.bench.sample import Sample, total
from amends.errors import UsageError


class Size(NamedTuple):
    """How much is measured. Counts are per round, but for the last four."""

    rounds: int
    raw: int
    alone: int
    together: int
    runs: int
    runs_together: int
    warm_up: int
    unknown: int
    resident: tuple[int, ...]
    imports: int


FULL = Size(8, 250, 250, 1_500, 80, 400, 200, 10_000, (10_000, 100_000), 7)
QUICK = Size(3, 150, 100, 500, 30, 150, 50, 1_000, (10_000,), 3)

Slice = Callable[[workload.Workload], Awaitable[Sample]]


def run_command(*, json: bool, quick: bool, directory: str | None, size: Size | None = None) -> int:
    """Measure, and print one JSON object or a table. Returns the exit code, 0.

    Args:
        json: one JSON object on one line instead of the table.
        quick: fewer rounds, 1,000 unknown outcomes instead of 10,000, and memory after 10,000 operations only.
        directory: where the ledgers are made, in a new directory that is removed again; default: here.
        size: for tests, how much is measured.

    Raises:
        UsageError: ``directory`` is not a directory.
    """
    parent = Path(directory or ".").resolve()
    if not parent.is_dir():
        raise UsageError(f"{str(parent)!r} is not a directory; name one on the disk that is to be measured")
    with tempfile.TemporaryDirectory(prefix="amends-bench-", dir=parent) as made:
        measured = asyncio.run(measure(Path(made), size or (QUICK if quick else FULL)))
    text = json_format.dumps(measured) if json else report.table(measured)
    sys.stdout.write(text + "\n")
    return 0


async def measure(directory: Path, size: Size) -> dict[str, Any]:
    """Everything, as the report has it."""
    progress = report.Progress()
    disk = Disk(directory)
    try:
        samples = await _rounds(directory, disk, size, progress)
        facts = _facts(directory, disk)
    finally:
        disk.close()
    progress.say("recovery")
    settled = await _recovery(directory, size.unknown)
    progress.say("memory")
    memory = await asyncio.to_thread(children.resident, directory, list(size.resident))
    progress.say("imports")
    imports = {
        "import_ms": children.import_ms("import amends", times=size.imports),
        "import_app_ms": children.import_ms("from amends import Amends", times=size.imports),
    }
    progress.done()
    return report.measured(samples, settled=settled, memory=memory, more={**imports, **facts})


def _facts(directory: Path, disk: Disk) -> dict[str, Any]:
    return {
        "filesystem": place(directory),
        "synchronous": disk.synchronous,
        "sync_us": round(sync_us(directory, times=200), 1),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "cpu": processor(),
    }


async def _rounds(directory: Path, disk: Disk, size: Size, progress: report.Progress) -> dict[str, Sample]:
    """All slices of all rounds, put together; ``raw`` is the disk."""
    slices = _slices(size)
    taken: dict[str, list[Sample]] = {"raw": [], **{name: [] for name in slices}}
    async with workload.opened(directory, "bench") as load:
        disk.slice(size.warm_up)
        await workload.alone(load, operations=size.warm_up, effect=load.note)
        for number in range(size.rounds):
            for name, take in slices.items():
                progress.say(f"round {number + 1} of {size.rounds}: {name}")
                taken["raw"].append(disk.slice(size.raw))
                taken[name].append(await take(load))
    return {name: total(samples) for name, samples in taken.items()}


def _slices(size: Size) -> dict[str, Slice]:
    return {
        "alone": lambda load: workload.alone(load, operations=size.alone, effect=load.note),
        "verified": lambda load: workload.alone(load, operations=size.alone, effect=load.checked),
        "together": lambda load: workload.together(load, operations=size.together, flight=50),
        "run_each": lambda load: workload.whole_runs(load, runs=size.alone, steps=1, flight=1),
        "run_each_50": lambda load: workload.whole_runs(load, runs=size.together, steps=1, flight=50),
        "runs3": lambda load: workload.whole_runs(load, runs=size.runs, steps=3, flight=1),
        "runs3_50": lambda load: workload.whole_runs(load, runs=size.runs_together, steps=3, flight=50),
        "long_run": lambda load: workload.alone(load, operations=4 * size.alone, effect=load.note),
    }


async def _recovery(directory: Path, operations: int) -> Sample:
    """Unknown outcomes of one process's life, settled in the next one."""
    async with workload.opened(directory, "recovery") as load:
        await workload.leave_unknown(load, operations=operations, flight=50)
    async with workload.opened(directory, "recovery", later=True) as load:
        return await workload.recover(load, operations=operations)
