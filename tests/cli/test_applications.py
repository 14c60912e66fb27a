"""``recover`` and ``bench``: finding the application, driving it, saying what could not be driven."""

import json
from pathlib import Path

import pytest
from commanding import HERE, call, rest_slow, sell
from typer.testing import CliRunner

from amends.cli import main, recover


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
    assert (each["operations"], each["unsettled"], each["failed"]) == ({"verified": 1}, [], None)
    assert len(made(tmp_path)) == 1


def test_a_synchronous_application_is_driven_like_any_other(tmp_path: Path) -> None:
    assert sell(tmp_path, "killed") == -9
    (tmp_path / "plain.py").write_text(
        "from amends.sync import *\n"
        f"app = Amends({str(tmp_path / 'ledger.db')!r})\n"
        "app.clock.now_ms = lambda: 4_000_000_000_000\n"
        "@app.effect('charge', recovery='compensatable', target='order:{order}', owner='us',\n"
        "            destination=Contract(name='bank', lookup=Lookup.STRONG))\n"
        "def charge(call: Call, *, order: str, amount: Money = Money(1, 'USD')) -> Receipt: ...\n"
        "@charge.lookup\n"
        "def find(call: Call) -> Found:\n"
        "    return Found(Receipt(resource='ch_1', correlation=call.key, amount=call.arguments.get('amount')))\n"
    )
    said = call("recover", "plain:app", "--json", cwd=tmp_path)
    assert said.code == 0, said
    [each] = [json.loads(line) for line in said.out.splitlines()]
    assert (each["operations"], each["failed"]) == ({"verified": 1}, None)


@pytest.mark.requirement("R24")
@pytest.mark.parametrize("format", [(), ("--json",)])
def test_a_run_that_could_not_be_driven_says_why_and_is_not_taken_for_done(
    tmp_path: Path, format: tuple[str, ...]
) -> None:
    assert sell(tmp_path, "killed") == -9
    (tmp_path / "other.py").write_text(
        "from amends import *\n"
        f"app = Amends({str(tmp_path / 'ledger.db')!r})\n"
        "app.clock.now_ms = lambda: 4_000_000_000_000\n"
        "@app.effect('other', recovery='irreversible', target='x', owner='us', lookup='escalate')\n"
        "async def other(call: Call) -> Receipt: ...\n"
    )
    said = call("recover", "other:app", *format, cwd=tmp_path)
    assert said.code != 0
    assert "'charge'" in said.out
    assert "not registered" in said.out
    if format:
        [each] = [json.loads(line) for line in said.out.splitlines()]
        assert "not registered" in each["failed"]


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


def test_the_benchmark_is_handed_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    from amends.bench import main as benchmark

    given: list[dict[str, object]] = []
    monkeypatch.setattr(benchmark, "run_command", lambda **options: given.append(options) or 3)
    ran = CliRunner().invoke(main.build(), ["bench", "--quick"])
    assert (ran.exit_code, given) == (3, [{"directory": None, "json": False, "quick": True}])


ODD_MODULES = {
    "leaves": ("import sys\nsys.exit(0)\n", "did not import: SystemExit: 0"),
    "leaves_silently": ("raise SystemExit\n", "did not import: SystemExit"),
    "interrupted": ("raise KeyboardInterrupt\n", "did not import: KeyboardInterrupt"),
    "cancelled": ("import asyncio\nraise asyncio.CancelledError\n", "did not import: CancelledError"),
    "own_kind": ("class Odd(BaseException): ...\nraise Odd('x')\n", "did not import: Odd: x"),
    "unprintable": (
        "class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd\n",
        "did not import: Odd",
    ),
    "no_syntax": ("def (:\n", "did not import: SyntaxError"),
    "recursive": ("def f(): f()\nf()\n", "did not import: RecursionError"),
    "odd_app": (
        "class Odd:\n    def __getattr__(self, name): raise RuntimeError('no ' + name)\nother = Odd()\napp = 5\n",
        "is a int and no Amends application",
    ),
    "odd_module": (
        "def __getattr__(name): raise RuntimeError('no ' + name)\n",
        "cannot be looked up: RuntimeError: no app",
    ),
    "leaving_module": ("def __getattr__(name): raise SystemExit(0)\n", "cannot be looked up: SystemExit: 0"),
    "class_raises": (
        "class Odd:\n    @property\n    def __class__(self): raise RuntimeError('no class')\napp = Odd()\n",
        "is a Odd and no Amends application",
    ),
    "the_class": ("from amends import Amends as app\n", "is a type and no Amends application"),
    "a_module": ("import amends as app\n", "is a module and no Amends application"),
}


@pytest.mark.parametrize("module", rest_slow(ODD_MODULES))
@pytest.mark.parametrize("format", [(), pytest.param(("--json",), marks=pytest.mark.slow)])
def test_a_module_that_misbehaves_when_imported_is_named_and_never_a_success(
    tmp_path: Path, module: str, format: tuple[str, ...]
) -> None:
    source, said = ODD_MODULES[module]
    (tmp_path / f"{module}.py").write_text(source)
    ran = call("recover", f"{module}:app", *format, cwd=tmp_path)
    assert (ran.code, ran.out, "Traceback" in ran.err) == (2, "", False), ran
    message = json.loads(ran.err)["message"] if format else ran.err
    assert said in message, ran
    assert module in message


def test_an_attribute_of_an_object_that_answers_oddly_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "odd_app.py").write_text(ODD_MODULES["odd_app"][0])
    ran = call("recover", "odd_app:other.app", cwd=tmp_path)
    assert (ran.code, "cannot be looked up: RuntimeError: no app" in ran.err) == (2, True), ran


@pytest.mark.requirement("R24")
def test_a_lookup_that_leaves_the_program_is_not_taken_for_a_finished_pass(tmp_path: Path) -> None:
    assert sell(tmp_path, "killed") == -9
    (tmp_path / "leaving.py").write_text(
        f"import os, sys\nos.environ['SHOP'] = {str(tmp_path)!r}\nsys.path.append({str(HERE)!r})\n"
        "import shop\nfrom shop import app\n"
        "app.clock.now_ms = lambda: 4_000_000_000_000\n"
        "shop.made = lambda: sys.exit(0)\n"
    )
    ran = call("recover", "leaving:app", cwd=tmp_path)
    assert ran.code == 2, ran
    assert "leaving:app" in ran.err
    assert "SystemExit" in ran.err
