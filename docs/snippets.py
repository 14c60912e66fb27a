"""Writes the programs of ``docs_src`` into the pages that show them; ``--check`` only says what is out of date.

A program stands between ``<!-- program: NAME.py -->`` and ``<!-- end: NAME.py -->``. Each of them is run by
``tests/test_docs_src.py``, so what a page shows is what was run.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
SHOWN = re.compile(r"<!-- program: (?P<name>\w+\.py) -->\n.*?<!-- end: (?P=name) -->", re.DOTALL)


def filled(text: str) -> str:
    """``text`` with each program as it is in ``docs_src`` now."""
    return SHOWN.sub(lambda shown: program(shown["name"]), text)


def program(name: str) -> str:
    """The marks and the program between them."""
    source = (ROOT / "docs_src" / name).read_text(encoding="utf-8").rstrip()
    return f"<!-- program: {name} -->\n```python\n{source}\n```\n<!-- end: {name} -->"


def shown() -> list[str]:
    """The programs that pages show, one entry for each place."""
    return [match["name"] for page in PAGES for match in SHOWN.finditer(page.read_text(encoding="utf-8"))]


def main(arguments: list[str]) -> int:
    """Run as a program."""
    stale = [page for page in PAGES if filled(text := page.read_text(encoding="utf-8")) != text]
    if "--check" not in arguments:
        for page in stale:
            page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
    names = ", ".join(str(page.relative_to(ROOT)) for page in stale)
    sys.stdout.write(f"{len(shown())} programs shown, {len(stale)} pages out of date{': ' + names if names else ''}\n")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
