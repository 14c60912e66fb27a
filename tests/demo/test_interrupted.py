"""A rehearsal that cannot go on, for real: it is told in words, nothing of it keeps running, what it left is named."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from rehearsing import Ran

from amends.testing.rehearsal.world import World

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

AMENDS = f"{sys.executable} -m amends"
WITHIN_S = 100
TRIALS = 5


def bash(script: str, **env: str) -> Ran:
    """In a shell, with the exit code of the last command."""
    command = ["bash", "-c", script]
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=WITHIN_S, check=False, env={**os.environ, **env}
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def gone(directory: Path) -> bool:
    """Whether no destination of the rehearsal listens any more; waits for those that are ending."""
    addresses = World.attach(directory / "world").payments.addresses
    return all(_closes(port) for port in (addresses.http_port, addresses.proxy_port))


def _closes(port: int) -> bool:
    for _ in range(TRIALS):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
                connection.recv(1)  # until the other side ends, or closes what is idle
        except (ConnectionRefusedError, ConnectionResetError):
            return True
        except TimeoutError:
            continue
    return False


@pytest.mark.parametrize("signalled", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_rehearsal_leaves_its_directory_and_no_process(
    tmp_path: Path, signalled: signal.Signals
) -> None:
    place = tmp_path / "kept"
    command = [sys.executable, "-m", "amends", "demo", "--keep", str(place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            if "is claimed" in line:
                break
        process.send_signal(signalled)
        process.stdout.read()
        said, code = process.stderr.read(), process.wait(WITHIN_S)
    if signalled == signal.SIGINT:
        assert code == 130
        assert f"what was written so far stays in {place}" in said
    assert "Traceback" not in said
    assert gone(place)  # after SIGKILL they end by themselves, once their standard input is closed
    assert (place / "ledger.db").exists()


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (f"{AMENDS} demo --list >&-", "standard output is closed"),
        (f"{AMENDS} demo refund --fault none >&-", "standard output is closed"),
        (f"{AMENDS} demo refund --fault none >/dev/full", "No space left on device"),
        (f"ulimit -f 60; {AMENDS} demo refund --fault none", "is there room in"),
        (f"ulimit -f 100; {AMENDS} demo refund --fault none", "is there room in"),
    ],
)
def test_what_cannot_be_told_or_written_is_an_error_in_words(tmp_path: Path, script: str, says: str) -> None:
    ran = bash(script, TMPDIR=str(tmp_path))
    assert ran.code == 2, ran.err
    assert says in ran.err
    assert "Traceback" not in ran.err


def test_where_there_is_no_temporary_directory_another_place_is_asked_for(tmp_path: Path) -> None:
    ran = bash(f"ulimit -f 0; {AMENDS} demo refund --fault none 2>&1 | cat", TMPDIR=str(tmp_path))
    assert "there is no usable temporary directory" in ran.out
    assert "--keep DIR" in ran.out
    assert "Traceback" not in ran.out


def test_a_reader_that_leaves_is_no_fault_and_stops_the_rehearsal(tmp_path: Path) -> None:
    place = tmp_path / "kept"
    ran = bash(f"{AMENDS} demo --keep {place} | head -3")
    assert len(ran.out.splitlines()) == 3
    assert "Traceback" not in ran.err
    assert gone(place)


def test_printed_commands_run_as_they_stand_wherever_the_ledger_is(tmp_path: Path) -> None:
    strange = str(tmp_path).encode() + b"/it's \xff\xfe"
    command = [sys.executable, "-m", "amends", "demo", "refund", "--fault", "lookup-down", "--keep", strange]
    told = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=True).stdout
    commands = [line.strip() for line in told.partition("may be deleted:")[2].splitlines() if line.strip()]
    assert len(commands) == 4
    for each in commands:
        ran = bash(each)
        assert (ran.code, ran.err) == (4 if " pending " in each else 0, ""), each
