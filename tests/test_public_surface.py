"""The root names are pinned, sorted, and all there."""

import subprocess
import sys

import amends


def test_every_public_name_is_there_and_the_list_is_sorted() -> None:
    assert amends.__all__ == sorted(amends.__all__)
    assert all(getattr(amends, name) is not None for name in amends.__all__)
    assert len(amends.__all__) == 35


def test_importing_amends_loads_neither_asyncio_nor_the_http_client() -> None:
    code = "import sys, amends; print(sorted({'asyncio', 'httpx', 'sqlite3', 'cryptography'} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[]"
