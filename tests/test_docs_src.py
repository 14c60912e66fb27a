"""Every program that the pages show is run as it stands, in an empty directory, and twice."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAMS = sorted((ROOT / "docs_src").glob("*.py"))
WITHIN_S = 100
TOLD = {
    "first_effect.py": ["ch_00000001 completed 1\n"] * 2,
    "killed_anywhere.py": ["", "ch_00000001 completed 1\n"],
    "synchronous.py": ["ch_00000001 completed 1\n"] * 2,
    "unknown_outcome.py": ["outcome_unknown human_required\ncall-77 completed\n", "call-77 completed\n"],
}
"""What each program prints in its first life and in its second."""


@pytest.mark.slow
@pytest.mark.requirement("R3", "R21", "R24")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_a_program_of_the_docs_does_what_its_page_says(program: Path, tmp_path: Path) -> None:
    for told in TOLD[program.name]:
        ran = subprocess.run(
            [sys.executable, "-W", "error", str(program)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        assert (ran.stdout, ran.returncode) == (told, 0 if told else -9), ran.stderr


def test_every_program_is_shown_on_a_page_and_every_page_shows_it_as_it_is() -> None:
    spec = importlib.util.spec_from_file_location("snippets", ROOT / "docs" / "snippets.py")
    assert spec is not None
    assert spec.loader is not None
    snippets = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(snippets)
    assert set(snippets.shown()) == {program.name for program in PROGRAMS} == set(TOLD)
    assert snippets.main(["--check"]) == 0


def test_every_link_between_the_pages_leads_somewhere() -> None:

    broken = [
        (str(page.relative_to(ROOT)), link)
        for page in sorted((ROOT / "docs").rglob("*.md"))
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
    ]
    assert broken == []
