"""What the README and the tutorial show is so: the transcript, the commands, and the program, as they stand there."""

import re
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
