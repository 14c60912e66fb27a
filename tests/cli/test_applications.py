"""``recover`` and the entries that delegate: finding the application, driving it, saying what is missing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from commanding import HERE, call, environment, sell

from amends.cli import recover


def made(place: Path) -> list[str]:
    return (place / "made").read_text().split()


@pytest.mark.requirement("R24")
def test_a_pass_drives_what_is_due_and_leaves_with_what_is_not_settled(tmp_path: Path) -> None:
    assert sell(tmp_path, "ok", "reversed", "unsure") == 0
    said = call("recover", "shop:app", "--json", SHOP=str(tmp_path))
    assert (said.code, said.out) == (0, ""), said  # the next look of "unsure" is a quarter of an hour away
    assert len(made(tmp_path)) == 3


@pytest.mark.requirement("R24", "G1", "G3")
def test_after_a_kill_a_pass_finds_the_charge_and_makes_no_second(tmp_path: Path) -> None:
    import sqlite3

    assert sell(tmp_path, "killed") == -9
    before = call("pending", "--json", "--ledger", str(tmp_path / "ledger.db"))
    assert json.loads(before.out)["state"] == "committing"
    assert before.code == 1
    db = sqlite3.connect(tmp_path / "ledger.db")
    [wake] = db.execute("SELECT wake_at FROM runs").fetchone()
    db.close()
    said = call("recover", "later:app", "--json", SHOP=str(tmp_path), LATER_MS=str(wake + 1))
    assert said.code == 0, said
    [each] = [json.loads(line) for line in said.out.splitlines()]
    assert list(each) == list(recover.KEYS)
    assert (each["operations"], each["unsettled"]) == ({"verified": 1}, [])
    assert len(made(tmp_path)) == 1


def test_a_ledger_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    said = call("recover", "shop:app", SHOP=str(tmp_path))
    assert (said.code, "there is no ledger at this path" in said.err) == (6, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "pass MODULE:APP or set AMENDS_APP"),
        ("shop", "is not MODULE:APP"),
        ("nowhere:app", "there is no module 'nowhere'"),
        ("nowhere.deep:app", "there is no module 'nowhere'"),
        ("shop:none", "the module has no 'none'"),
        ("shop:made", "is a function and no Amends application"),
        ("broken:app", "did not import: ModuleNotFoundError: No module named 'not_there'"),
        ("raising:app", r"did not import: ValueError: \u{1b}[31mno"),
    ],
)
def test_an_application_that_cannot_be_found_says_why(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "shop.py").write_text((HERE / "shop.py").read_text())
    (tmp_path / "broken.py").write_text("import not_there\n")
    (tmp_path / "raising.py").write_text("raise ValueError('\\x1b[31mno')\n")
    ran = call("recover", *([name] if name else []), cwd=tmp_path)
    assert (ran.code, said in ran.err) == (2, True), ran
    assert "Traceback" not in ran.err


def test_registrations_that_do_not_hold_together_are_a_usage_error(tmp_path: Path) -> None:
    assert sell(tmp_path, "ok") == 0
    (tmp_path / "careless.py").write_text(
        "from amends import *\n"
        f"app = Amends({str(tmp_path / 'ledger.db')!r})\n"
        "@app.effect('send', recovery='irreversible', target='x', owner='')\n"
        "async def send(call: Call) -> Receipt: ...\n"
    )
    ran = call("recover", "careless:app", cwd=tmp_path)
    assert (ran.code, "has no lookup" in ran.err, "has no owner" in ran.err) == (2, True, True), ran


def test_the_application_is_named_by_the_environment(tmp_path: Path) -> None:
    assert sell(tmp_path, "ok") == 0
    ran = call("recover", SHOP=str(tmp_path), AMENDS_APP="shop:app")
    assert (ran.code, ran.out) == (0, "nothing was due\n")


ENTRY = """
import sys, types
for name in {parts!r}:
    part = types.ModuleType(name)
    part.__path__ = []
    part.run_command = lambda **options: print(sorted(options.items())) or 3
    sys.modules[name] = part
for name in {missing!r}:
    sys.modules[name] = None
sys.argv = ["amends", *{arguments!r}]
if {missing!r}:
    from amends.cli import demo as entry
    entry.find_spec = lambda name: None if name in {missing!r} else name
from amends.cli.main import main
main()
"""


def entry(*arguments: str, parts: tuple[str, ...] = (), missing: tuple[str, ...] = ()) -> tuple[int, str, str]:
    code = ENTRY.format(arguments=list(arguments), parts=list(parts), missing=list(missing))
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), timeout=100, check=False
    )
    return ran.returncode, ran.stdout, ran.stderr


def test_the_demo_is_handed_its_options_and_its_exit_code_is_kept() -> None:
    code, out, _ = entry("demo", "refund", "--fault", "all", "--json", "--keep", "d", parts=("amends.demo.main",))
    given = [("fault", "all"), ("json", True), ("keep", "d"), ("list_", False), ("name", "refund")]
    assert (code, out) == (3, f"{given}\n")


def test_the_benchmark_is_handed_its_options() -> None:
    code, out, _ = entry("bench", "--quick", parts=("amends.bench", "amends.bench.main"))
    assert (code, out) == (3, f"{[('directory', None), ('json', False), ('quick', True)]}\n")


def test_a_missing_extra_is_named_with_how_to_install_it() -> None:
    code, _, err = entry("demo", missing=("starlette", "h11"))
    assert code == 2
    assert "starlette, h11" in err
    assert "pip install 'amends[demo]'" in err


def test_a_part_that_is_not_installed_is_named() -> None:
    code, _, err = entry("bench", missing=("amends.bench",))
    assert (code, "has no 'amends.bench.main'" in err) == (2, True), err


def test_an_engine_of_a_later_version_is_refused() -> None:
    ran = call("demo", "--engine", "temporal")
    assert (ran.code, "--engine embedded" in ran.err) == (2, True)
