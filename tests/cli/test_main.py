"""The edges: help, version, what is imported, and that a fault never looks like an answer."""

import subprocess
import sys

import pytest
from commanding import call, environment, rest_slow

from amends.cli import main


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), timeout=100, check=False
    )


def test_help_names_every_command_and_imports_nothing_heavy() -> None:
    heavy = ["httpx", "cryptography", "rich", "sqlite3", "asyncio"]
    ran = python(
        "import sys, atexit\n"
        "sys.argv = ['amends', '--help']\n"
        f"atexit.register(lambda: print('loaded:', sorted(set({heavy!r}) & set(sys.modules))))\n"
        "from amends.cli.main import main\n"
        "main()\n"
    )
    assert ran.returncode == 0
    assert all(f"  {command.__name__} " in ran.stdout for command in main.COMMANDS)
    assert "loaded: []" in ran.stdout


@pytest.mark.parametrize("command", rest_slow(command.__name__ for command in main.COMMANDS))
def test_every_command_has_help_and_json(command: str) -> None:
    ran = call(command, "--help")
    assert ran.code == 0
    assert "--json" in ran.out


def test_the_version_is_said() -> None:
    ran = call("--version")
    assert (ran.code, ran.out.startswith("amends ")) == (0, True)


@pytest.mark.parametrize("arguments", [["nonsense"], ["runs", "--limit", "0"], ["show"]])
def test_a_usage_error_leaves_with_two(arguments: list[str]) -> None:
    ran = call(*arguments)
    assert (ran.code, ran.out) == (2, "")


@pytest.mark.parametrize(
    ("error", "code"),
    rest_slow(
        [
            ("errors.UsageError('no')", 2),
            ("errors.Refused('no')", 3),
            ("errors.VerificationFailed('no')", 1),
            ("errors.AwaitingApproval('no')", 4),
            ("errors.OutcomeUnknown('no')", 5),
            ("errors.LedgerUnavailable('no')", 6),
            ("errors.LedgerCorrupt('no\\x1b[31m')", 6),
            ("PermissionError(13, 'no', 'file')", 2),
            ("RuntimeError('no')", 70),
        ][::-1]
    ),
)
def test_one_place_turns_errors_into_exit_codes(error: str, code: int) -> None:
    ran = python(
        "import sys\n"
        "from amends import errors\n"
        "from amends.cli import main\n"
        "sys.argv = ['amends', 'fail']\n"
        "def fail() -> None:\n"
        f"    raise {error}\n"
        "main.COMMANDS = (fail, *main.COMMANDS)\n"
        "main.main()\n"
    )
    assert ran.returncode == code, ran.stderr
    assert "error: " in ran.stderr
    assert ("Traceback" in ran.stderr) == (code == main.FAULT_OF_OURS)
    assert "\x1b" not in ran.stderr
