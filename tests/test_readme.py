"""The README's program runs as it stands there: twice, and one charge is made."""

import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WITHIN_S = 60


@pytest.mark.requirement("R3", "R7")
def test_the_program_in_the_readme_charges_once_however_often_it_runs(tmp_path: Path) -> None:
    [program] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
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
