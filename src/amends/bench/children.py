"""Measurements that need a process of their own: imports and memory."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

_IMPORT = "import time; began = time.perf_counter(); {}; print((time.perf_counter() - began) * 1000)"


def import_ms(statement: str, *, times: int) -> float:
    """Milliseconds of ``statement`` in a new interpreter, the interpreter's own start left out; best of ``times``."""
    return min(float(_output("-c", _IMPORT.format(statement))) for _ in range(times))


def resident(directory: Path, targets: list[int]) -> list[dict[str, Any]]:
    """What ``amends.bench.resident`` printed, line by line."""
    said = _output("-m", "amends.bench.resident", str(directory), *map(str, targets))
    return [json.loads(line) for line in said.splitlines()]


def _output(*words: str) -> str:
    done = subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True)  # noqa: S603
    return done.stdout
