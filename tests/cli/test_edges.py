"""What the shell may do to a command: closed and full output, odd bytes, odd files. Never a traceback, never a hang."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from commanding import HERE, Ran, call, environment

AMENDS = f"{sys.executable} -m amends"
BAD = os.fsdecode(b"x\xff")


def shell(script: str, ledger: Path, **more: str) -> Ran:
    """``script`` in bash, where ``$amends`` is the command and ``$AMENDS_LEDGER`` is set."""
    env = environment(**more) | {"amends": AMENDS, "AMENDS_LEDGER": str(ledger)}
    ran = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {script}"],
        capture_output=True,
        text=True,
        cwd=HERE,
        env=env,
        timeout=100,
        check=False,
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


SLOWLY = ["show order:ok", "pending", "doctor"]
READING = ["runs", "why order:ok", *(pytest.param(each, marks=pytest.mark.slow) for each in SLOWLY)]


@pytest.mark.parametrize(
    ("command", "format"),
    [
        ("runs", ""),
        ("why order:ok", "--json"),
        ("recover shop:app", ""),
        *(pytest.param(each, "", marks=pytest.mark.slow) for each in SLOWLY),
    ],
)
def test_with_closed_output_nothing_is_done_and_the_reason_is_said(sold: Path, command: str, format: str) -> None:
    said = shell(f"$amends {command} {format} >&-", sold / "ledger.db", SHOP=str(sold))
    assert (said.code, "standard output is closed" in said.err, "Traceback" in said.err) == (2, True, False), said
    if format:
        assert json.loads(said.err)["exit_code"] == 2


@pytest.mark.parametrize("command", READING)
def test_a_full_disk_under_the_output_is_said_and_is_no_success(sold: Path, command: str) -> None:
    said = shell(f"$amends {command} > /dev/full", sold / "ledger.db")
    assert (said.code, "Traceback" in said.err) == (2, False), said
    assert said.err.startswith("error: standard output could not be written: No space left on device"), said
    assert len(said.err.splitlines()) == 1, said


@pytest.mark.parametrize("command", [*READING, "--help"])
def test_a_reader_that_has_seen_enough_ends_the_command_quietly(sold: Path, command: str) -> None:
    said = shell(f"$amends {command} | true", sold / "ledger.db")
    assert (said.code in {0, 1, 5, 141}, said.err) == (True, ""), said


def test_a_reader_that_is_gone_before_the_answer_is_told_by_the_code_of_sigpipe(sold: Path) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-m", "amends", "runs", "--ledger", str(sold / "ledger.db")]
    with os.fdopen(theirs, "wb") as pipe:
        ran = subprocess.run(
            command, stdout=pipe, stderr=subprocess.PIPE, cwd=HERE, env=environment(), timeout=100, check=False
        )
    assert (ran.returncode, ran.stderr) == (141, b"")


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_an_error_that_nobody_can_be_told_keeps_its_code(tmp_path: Path, stderr: str) -> None:
    assert shell(f"$amends runs {stderr}", tmp_path / "none.db").code == 6


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", BAD],
        ["runs", "--tenant", BAD],
        ["recover", f"shop:{BAD}"],
        *(
            pytest.param(arguments, marks=pytest.mark.slow)
            for arguments in (
                ["why", BAD],
                ["runs", "--ending", BAD],
                ["runs", "--before", BAD],
                ["recover", BAD],
                ["recover", f"{BAD}:app"],
                ["doctor", "--public-key", BAD, "--anchor", "a"],
                ["demo", BAD],
                ["demo", "--fault", BAD],
                [BAD],
                ["runs", f"--{BAD}"],
            )
        ),
    ],
    ids=" ".join,
)
def test_an_argument_that_is_no_text_is_a_usage_error(sold: Path, arguments: list[str]) -> None:
    ran = call(*arguments, AMENDS_LEDGER=str(sold / "ledger.db"))
    assert (ran.code, ran.out, "Traceback" in ran.err) == (2, "", False), ran
    assert "x\\" in ran.err, "the argument is shown, with its odd byte as an escape"


@pytest.mark.slow
def test_a_ledger_whose_name_is_no_text_is_read_and_named(sold: Path, tmp_path: Path) -> None:
    import shutil

    place = tmp_path / BAD
    shutil.copytree(sold, place)
    assert (
        call("runs", "--ledger", str(place / "ledger.db")).out == call("runs", "--ledger", str(sold / "ledger.db")).out
    )
    assert call("doctor", "--rebuild-check", "--ledger", str(place / "ledger.db")).code == 0
    missing = call("runs", "--json", "--ledger", str(place / "none.db"))
    assert (missing.code, json.loads(missing.err)["error"]) == (6, "ledger_unavailable")


def test_a_fifo_in_the_place_of_a_ledger_its_log_an_anchor_or_a_key_keeps_no_command_waiting(
    shop: Path, tmp_path: Path
) -> None:
    fifo, key, ledger = tmp_path / "fifo", tmp_path / "key", ["--ledger", str(shop / "ledger.db")]
    os.mkfifo(fifo)
    assert call("doctor", "--create-key", str(key)).code == 0
    os.mkfifo(shop / "ledger.db-journal")
    for code, *arguments in (
        (6, "runs", "--ledger", str(fifo)),
        (6, "runs", *ledger),
        (6, "doctor", *ledger),
        (2, "doctor", *ledger, "--anchor", str(fifo), "--key", str(key)),
        (2, "doctor", *ledger, "--checkpoint", str(fifo), "--key", str(key)),
        (2, "doctor", *ledger, "--checkpoint", str(tmp_path / "anchor"), "--key", str(fifo)),
    ):
        if code == 2:
            (shop / "ledger.db-journal").unlink(missing_ok=True)
        said = call(*map(str, arguments))
        assert (said.code, "Traceback" in said.err) == (code, False), (arguments, said)
        assert "regular file" in said.err + said.out, said
