"""What one slice of a measurement took, and how slices are put together.

Processor time is that of the whole process, all threads, in user and kernel mode. Rates are totals over
totals, never means of rates: a short lucky slice counts for no more than its length.
"""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Started:
    """A slice that is running."""

    wall_ns: int
    processor_ns: int

    def end(self, *, operations: int, commits: int, latencies_ns: Sequence[int] = ()) -> "Sample":
        """The slice, ended now."""
        wall = time.perf_counter_ns() - self.wall_ns
        return Sample(wall, time.process_time_ns() - self.processor_ns, operations, commits, tuple(latencies_ns))


class Sample(NamedTuple):
    """``operations`` things in ``wall_ns``; each thing's own time where it was taken."""

    wall_ns: int
    processor_ns: int
    operations: int
    commits: int
    latencies_ns: tuple[int, ...] = ()

    @staticmethod
    def begin() -> Started:
        """Start the clocks."""
        return Started(time.perf_counter_ns(), time.process_time_ns())

    @property
    def per_s(self) -> float:
        """Things per second."""
        return self.operations * 1e9 / self.wall_ns

    @property
    def processor_us(self) -> float:
        """Processor microseconds per thing."""
        return self.processor_ns / 1000 / self.operations

    @property
    def commits_each(self) -> float:
        """Durable commits per thing."""
        return self.commits / self.operations

    def percentile_ms(self, percent: float) -> float:
        """The latency, in milliseconds, that ``percent`` of the things did not exceed (nearest rank)."""
        ordered = sorted(self.latencies_ns)
        return ordered[max(1, math.ceil(len(ordered) * percent / 100)) - 1] / 1e6


def total(samples: Iterable[Sample]) -> Sample:
    """All slices as one."""
    every = list(samples)
    wall, processor, operations, commits = (sum(column) for column in zip(*(s[:4] for s in every), strict=True))
    return Sample(wall, processor, operations, commits, tuple(ns for sample in every for ns in sample.latencies_ns))
