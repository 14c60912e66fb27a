"""From samples to the report: the keys of ``amends bench --json``, and the table for people.

The twelve keys of the contract come first. What is reached is a ratio to the disk's own rate, since a rate
alone says more about the disk; the table shows both, beside what is aimed for.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from amends.bench.sample import Sample

KEYS: Final = (
    "raw_commits_per_s",
    "sequential_per_s",
    "concurrent_50_per_s",
    "sequential_verified_per_s",
    "commits_per_operation",
    "cpu_us_per_operation",
    "runs3_per_s",
    "runs3_50_per_s",
    "p50_ms",
    "p99_ms",
    "bytes_per_operation",
    "resident_mb",
)
"""The contract's keys, in its order."""


class Progress:
    """One line that is rewritten; nothing unless standard error is a terminal."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def say(self, what: str) -> None:
        """Show ``what`` is being measured."""
        if self._shown:
            sys.stderr.write(f"\r\x1b[K{what}")
            sys.stderr.flush()

    def done(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def measured(
    samples: Mapping[str, Sample], *, settled: Sample, memory: Sequence[Mapping[str, Any]], more: Mapping[str, Any]
) -> dict[str, Any]:
    """The report. Rates per second, times in the unit of the name, bytes of the ledger's file after closing."""
    raw, alone, held = samples["raw"], samples["alone"], [line for line in memory if "resident_mb" in line]
    report = {
        "raw_commits_per_s": raw.per_s,
        "sequential_per_s": alone.per_s,
        "concurrent_50_per_s": samples["together"].per_s,
        "sequential_verified_per_s": samples["verified"].per_s,
        "commits_per_operation": alone.commits_each,
        "cpu_us_per_operation": alone.processor_us,
        "runs3_per_s": samples["runs3"].per_s,
        "runs3_50_per_s": samples["runs3_50"].per_s,
        "p50_ms": alone.percentile_ms(50),
        "p99_ms": alone.percentile_ms(99),
        "bytes_per_operation": memory[-1]["bytes_per_operation"],
        "resident_mb": held[0]["resident_mb"],
        "sequential_ratio": alone.per_s / raw.per_s,
        "concurrent_50_ratio": samples["together"].per_s / raw.per_s,
        "sequential_verified_ratio": samples["verified"].per_s / raw.per_s,
        "commits_per_verified_operation": samples["verified"].commits_each,
        "commits_per_run_of_1": samples["run_each"].commits_each,
        "commits_per_run_of_3": samples["runs3"].commits_each,
        "commits_per_operation_50": samples["together"].commits_each,
        "run_each_per_s": samples["run_each"].per_s,
        "run_each_50_per_s": samples["run_each_50"].per_s,
        "long_run_per_s": samples["long_run"].per_s,
        "raw_cpu_us": raw.processor_us,
        "cpu_us_per_operation_50": samples["together"].processor_us,
        "cpu_us_per_verified_operation": samples["verified"].processor_us,
        "cpu_us_per_operation_long_run": samples["long_run"].processor_us,
        "settled_per_s": settled.per_s,
        "settled_operations": settled.operations,
        "cpu_us_per_settled": settled.processor_us,
        "resident_mb_by_operations": {str(line["operations"]): round(line["resident_mb"], 2) for line in held},
        "resident_growth_mb": held[-1]["resident_mb"] - held[0]["resident_mb"],
    }
    rounded = {name: round(value, 4) if isinstance(value, float) else value for name, value in report.items()}
    return {**rounded, **more}


def table(report: Mapping[str, Any]) -> str:
    """The report for a person."""
    raw = report["raw_commits_per_s"]

    def rate(what: str, key: str, reach: str = "") -> str:
        return f"{what:<44}{report[key]:>10,.0f}{report[key] / raw:>8.2f}   {reach}"

    def plain(what: str, value: float, unit: str, reach: str = "") -> str:
        return f"{what:<44}{value:>10,.2f} {unit:<7}   {reach}"

    grown = ", ".join(f"{n}: {mb} MB" for n, mb in report["resident_mb_by_operations"].items())
    lines = [
        f"{report['cpu']}; Python {report['python']}, SQLite {report['sqlite']}; "
        f"{report['filesystem']}, synchronous={report['synchronous']}, fdatasync {report['sync_us']} µs",
        "",
        f"{'':<44}{'per second':>10}{'÷ disk':>8}   reach",
        rate("single-row commits of the disk itself", "raw_commits_per_s"),
        rate("operations alone, verified by receipt", "sequential_per_s", "≥ 0.27, ceiling 0.5"),
        rate("operations alone, verified by a read", "sequential_verified_per_s"),
        rate("operations, 50 in flight", "concurrent_50_per_s", "≥ 0.6, aim 1.0"),
        rate("operations in a long run, alone", "long_run_per_s"),
        rate("runs of one operation, alone", "run_each_per_s"),
        rate("runs of one operation, 50 in flight", "run_each_50_per_s"),
        rate("runs of three operations, alone", "runs3_per_s"),
        rate("runs of three operations, 50 in flight", "runs3_50_per_s"),
        rate(f"{report['settled_operations']:,} unknown outcomes settled", "settled_per_s", "≥ 3,000 a second"),
        "",
        plain("commits, verified by receipt", report["commits_per_operation"], "", "2"),
        plain("commits, verified by a read", report["commits_per_verified_operation"], "", "3"),
        plain("commits, a run of one operation", report["commits_per_run_of_1"], ""),
        plain("commits, a run of three", report["commits_per_run_of_3"], ""),
        plain("latency alone, half below", report["p50_ms"], "ms"),
        plain("latency alone, 99 % below", report["p99_ms"], "ms"),
        plain("processor time, alone", report["cpu_us_per_operation"], "µs", "≤ 250, aim 150"),
        plain("processor time, 50 in flight", report["cpu_us_per_operation_50"], "µs"),
        plain("processor time of one commit of the disk", report["raw_cpu_us"], "µs"),
        plain("ledger, per operation", report["bytes_per_operation"], "bytes"),
        plain("resident memory", report["resident_mb"], "MB", f"< 80 ({grown})"),
        plain("import amends", report["import_ms"], "ms", "< 100"),
        plain("from amends import Amends", report["import_app_ms"], "ms"),
    ]
    return "\n".join(lines)
