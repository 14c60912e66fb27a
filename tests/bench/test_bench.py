"""The report has its keys, counts what it says it counts, and leaves nothing behind. No time is asserted."""

import json
from pathlib import Path
from typing import Any

import pytest

from amends.bench import main, report
from amends.bench.sample import Sample, total
from amends.errors import UsageError

TINY = main.Size(
    rounds=2, raw=5, alone=4, together=100, runs=2, runs_together=4, warm_up=2, unknown=60, resident=(40, 80), imports=1
)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One tiny measurement, as ``--json`` prints it."""
    directory = tmp_path_factory.mktemp("bench")
    with pytest.MonkeyPatch.context() as patch:
        written: list[str] = []
        patch.setattr("sys.stdout.write", written.append)
        assert main.run_command(json=True, quick=True, directory=str(directory), size=TINY) == 0
    assert list(directory.iterdir()) == []
    [line] = "".join(written).splitlines()
    answer: dict[str, Any] = json.loads(line)
    return answer


def test_the_contracts_keys_come_first_and_are_positive_numbers(said: dict[str, Any]) -> None:
    assert tuple(said)[: len(report.KEYS)] == report.KEYS
    assert all(said[key] > 0 for key in report.KEYS)


def test_a_receipt_verified_operation_costs_two_commits_and_a_verifying_read_a_third(said: dict[str, Any]) -> None:
    assert said["commits_per_operation"] == 2
    assert said["commits_per_verified_operation"] == 3


def test_a_run_costs_its_operations_and_one_commit_to_end(said: dict[str, Any]) -> None:
    assert said["commits_per_run_of_1"] == 3
    assert said["commits_per_run_of_3"] == 7


def test_operations_in_flight_together_share_commits(said: dict[str, Any]) -> None:
    assert said["commits_per_operation_50"] < 2


def test_every_unknown_outcome_was_settled(said: dict[str, Any]) -> None:
    assert said["settled_operations"] == 60


def test_the_report_says_where_and_on_what_it_was_measured(said: dict[str, Any]) -> None:
    assert said["synchronous"] == "FULL"
    assert all(said[name] for name in ("filesystem", "python", "sqlite", "cpu"))
    assert list(said["resident_mb_by_operations"]) == ["40", "80"]


def test_the_table_shows_every_number_of_the_contract(said: dict[str, Any]) -> None:
    shown = report.table(said)
    for key in ("sequential_per_s", "concurrent_50_per_s", "runs3_per_s", "runs3_50_per_s", "raw_commits_per_s"):
        assert f"{said[key]:,.0f}" in shown
    for key in ("commits_per_operation", "cpu_us_per_operation", "p50_ms", "p99_ms", "bytes_per_operation"):
        assert f"{said[key]:,.2f}" in shown


def test_a_directory_that_is_none_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a directory"):
        main.run_command(json=True, quick=True, directory=str(tmp_path / "missing"))


def test_progress_is_silent_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    progress = report.Progress()
    progress.say("round 1")
    progress.done()
    assert capsys.readouterr() == ("", "")


def test_slices_add_up_to_totals_over_totals() -> None:
    both = total([Sample(1_000_000_000, 200_000, 100, 200, (1, 3)), Sample(3_000_000_000, 200_000, 100, 200, (2, 4))])
    assert (both.per_s, both.processor_us, both.commits_each) == (50, 2, 2)
    assert both.percentile_ms(50) == 2e-6
    assert both.percentile_ms(99) == 4e-6
