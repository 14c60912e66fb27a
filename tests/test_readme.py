"""What the README and the tutorial show is so: the transcript, the commands, and the program, as they stand there."""

import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
WITHIN_S = 100

CHANGING = {
    r"in /\S+": "in DIRECTORY",
    r"^  \d\d:\d\d:\d\d\.\d{3}  ": "  TIME  ",
    r"\(process \d+\)": "(process PID)",
}
"""What differs from run to run, and only that: the directory, the time of day, process ids."""


def fixed(text: str) -> list[str]:
    for pattern, name in CHANGING.items():
        text = re.sub(pattern, name, text, flags=re.MULTILINE)
    return [line.rstrip() for line in text.strip().splitlines()]


@pytest.mark.slow
@pytest.mark.requirement("R60")
def test_the_transcript_in_the_readme_is_what_the_demo_tells() -> None:
    [transcript] = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    [shown] = re.findall(r"^`\./demo (.*?)`", README, re.MULTILINE)
    command = [sys.executable, "-m", "amends", "demo", *shown.split()]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=WITHIN_S)
    told, _, commands = ran.stdout.partition("What it left explains itself")
    assert fixed(told) == fixed(transcript)
    assert " why run_" in commands


def test_the_commands_in_the_readme_are_there_and_may_be_run() -> None:
    [commands] = re.findall(r"```\n(.*?)```", README, re.DOTALL)
    named = [line.split()[0] for line in commands.splitlines()]
    assert named == ["./demo", "./check"]
    assert all((ROOT / name).stat().st_mode & 0o111 for name in named)


def test_every_link_in_the_readme_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.requirement("R3", "R7")
def test_the_tutorials_program_charges_once_however_often_it_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs/tutorial/first-effect.md").read_text(encoding="utf-8")
    [program] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    command = [sys.executable, str(ROOT / "tests/sweep/till.py"), str(tmp_path / "till.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as till:
        assert till.stdout is not None
        port = till.stdout.readline().strip()
        source = "import asyncio\n" + program.replace(":8000", f":{port}") + "\nasyncio.run(main())\n"
        for _ in range(2):
            subprocess.run([sys.executable, "-c", source], cwd=tmp_path, check=True, timeout=WITHIN_S)
        till.terminate()
    connection = sqlite3.connect(tmp_path / "till.db")
    charges = connection.execute("SELECT amount FROM charges").fetchall()
    connection.close()
    assert charges == [(8500,)]
