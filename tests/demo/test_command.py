"""``amends demo`` as a person meets it, without a rehearsal: listing, choosing, refusing, and what it prints."""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from rehearsing import amends

from amends.cli.demo import shell_word
from amends.demo.scenarios import FAULTS, SCENARIOS


@pytest.mark.requirement("R60")
def test_the_list_names_scenarios_and_faults_and_needs_no_extra() -> None:
    ran = amends("demo", "--list")
    assert ran.code == 0
    assert all(name in ran.out for name in (*SCENARIOS, *FAULTS))
    lines = [json.loads(line) for line in amends("demo", "--list", "--json").out.splitlines()]
    assert [line["scenario"] for line in lines] == list(SCENARIOS)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nonsense"], "replacement-order"),
        (["refund", "--fault", "nonsense"], "lookup-down"),
    ],
)
def test_what_there_is_not_is_refused_with_what_there_is(arguments: list[str], says: str) -> None:
    ran = amends("demo", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err
    assert "Traceback" not in ran.err


def test_a_directory_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    ran = amends("demo", "--keep", str(tmp_path))
    assert (ran.code, ran.out, [each.name for each in tmp_path.iterdir()]) == (2, "", ["mine"])
    assert "is not empty" in ran.err


def test_a_place_that_cannot_be_a_directory_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "loop", tmp_path / "loop" / "in", tmp_path / "file", tmp_path / "file" / "in"):
        ran = amends("demo", "--keep", str(place))
        assert (ran.code, ran.out) == (2, "")
        assert "name a new or empty directory" in ran.err
        assert "Traceback" not in ran.err


def test_a_missing_extra_is_named_for_a_clone_and_for_others(tmp_path: Path) -> None:
    hide = (
        "import importlib.util as u, sys\n"
        "found = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'aiosmtpd' else found(name, *rest)\n"
    )
    (tmp_path / "sitecustomize.py").write_text(hide)
    path = os.pathsep.join([str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    ran = amends("demo", "refund", env={"PYTHONPATH": path})
    assert (ran.code, ran.out) == (2, "")
    assert "aiosmtpd, which is not installed" in ran.err
    assert "pip install '.[demo]'" in ran.err
    assert "pip install 'amends[demo]'" in ran.err
    assert amends("demo", "--list", env={"PYTHONPATH": path}).code == 0


@pytest.mark.parametrize(
    "text", ["/tmp/x", "/tmp/a b", "/tmp/it's", "/tmp/\udcff\udcfe", "/tmp/a\nb", "/tmp/\x1b[31m'\\"]
)
def test_a_printed_path_is_one_word_that_bash_reads_back(text: str) -> None:
    word = shell_word(text)
    assert word.isprintable()
    ran = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True, timeout=30)
    assert ran.stdout == text.encode("utf-8", "surrogateescape")
    if text.isprintable():
        assert shlex.split(word) == [text]


def test_what_is_right_is_fixed_before_any_run_and_orders_are_never_shared() -> None:
    orders = [scenario.order(fault) for scenario in SCENARIOS.values() for fault in FAULTS]
    assert len(set(orders)) == len(orders)
    for scenario in SCENARIOS.values():
        assert set(scenario.expected("none").values()) == {1}
        assert sum(scenario.expected("lookup-down").values()) == 1
