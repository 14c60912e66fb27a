"""A ledger that cannot be read is named, with what to do and its exit code; nothing is made or changed."""

import ctypes
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from commanding import HERE, Ran, call, environment, rest_slow

READING = (["runs"], ["show", "x"], ["why", "x"], ["pending"])


def missing(place: Path) -> Path:
    return place / "none.db"


def directory(place: Path) -> Path:
    return place


def text(place: Path) -> Path:
    path = place / "notes.db"
    path.write_text("this is no database, just text\n" * 100)
    return path


def other_database(place: Path) -> Path:
    path = place / "other.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE t (x)")
    db.close()
    return path


def newer(place: Path) -> Path:
    with sqlite3.connect(place / "ledger.db") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    return place / "ledger.db"


def empty(place: Path) -> Path:
    (place / "empty.db").touch()
    return place / "empty.db"


def header_gone(place: Path) -> Path:
    checkpointed(place)
    with (place / "ledger.db").open("r+b") as file:
        file.write(b"\xff" * 100)
    return place / "ledger.db"


def cut_off(place: Path) -> Path:
    checkpointed(place)
    os.truncate(place / "ledger.db", 4096 * 3)
    return place / "ledger.db"


def checkpointed(place: Path) -> None:
    db = sqlite3.connect(place / "ledger.db")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    db.close()


CASES: list[tuple[Callable[[Path], Path], str, str]] = [
    (missing, "there is no ledger at this path", "name an existing one"),
    (directory, "it is a directory", "name the ledger's file in it"),
    (text, "the file is damaged or not a ledger", "run `amends doctor`"),
    (other_database, "is an SQLite database but no ledger", "name another file"),
    (newer, "has schema 99, this Amends knows", "upgrade Amends"),
    (empty, "the file is empty", "name another one"),
    (header_gone, "the file is damaged or not a ledger", "run `amends doctor`"),
    (cut_off, "the file is damaged or not a ledger", "run `amends doctor`"),
]


@pytest.mark.requirement("R14")
@pytest.mark.parametrize(("make", "what", "then"), rest_slow(CASES), ids=[case[0].__name__ for case in CASES])
def test_a_bad_ledger_is_named_and_what_to_do_is_said(
    shop: Path, make: Callable[[Path], Path], what: str, then: str
) -> None:
    path = make(shop)
    for command in READING:
        said = call(*command, "--ledger", str(path))
        assert (said.code, said.out) == (6, ""), said
        assert said.err.startswith("error: ")
        assert all(part in said.err for part in (str(path), what, then)), said.err
        assert "Traceback" not in said.err
    assert make is not missing or not path.exists()
    assert call("doctor", "--ledger", str(path)).code == 6


def test_with_json_the_error_is_an_object_on_standard_error(tmp_path: Path) -> None:
    import json

    said = call("runs", "--json", "--ledger", str(tmp_path / "none.db"))
    error = json.loads(said.err)
    assert (error["error"], error["exit_code"], said.code, said.out) == ("ledger_unavailable", 6, 6, "")


@pytest.mark.parametrize(
    ("url", "said"),
    [("", "pass --ledger PATH or set AMENDS_LEDGER"), ("postgresql://x/y", "name a path or sqlite:///path")],
)
def test_no_ledger_or_an_address_of_another_kind_is_a_usage_error(url: str, said: str) -> None:
    ran = call("runs", *(["--ledger", url] if url else []))
    assert (ran.code, said in ran.err) == (2, True)


def tampered(path: Path, sql: str) -> None:
    db = sqlite3.connect(path)
    for name in ("entries_stay", "entries_are_kept"):
        db.execute(f"DROP TRIGGER {name}")
    db.execute(sql)
    db.commit()
    db.close()


@pytest.mark.requirement("R14")
@pytest.mark.parametrize(
    "sql",
    rest_slow(
        [
            "UPDATE entries SET body = replace(body, 'charge', 'refund') WHERE seq = 1",
            "UPDATE entries SET content = replace(content, '8500', '9500') WHERE seq = 1",
            "UPDATE entries SET body = '{' WHERE seq = 1",
            "DELETE FROM entries WHERE seq = 3",
        ],
        fast=1,
    ),
)
def test_a_run_whose_entries_were_changed_is_not_told_as_if_it_were_true(shop: Path, sql: str) -> None:
    tampered(shop / "ledger.db", sql)
    for command in ("show", "why"):
        said = call(command, "order:ok", "--ledger", str(shop / "ledger.db"))
        assert (said.code, said.out) == (6, "")
        assert "does not verify" in said.err
        assert "run `amends doctor`" in said.err


def without_override(*arguments: str) -> Ran:
    """``amends`` as somebody who must obey permissions, whoever runs this test."""

    def give_up() -> None:  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH; only root has them to give up
        for capability in (1, 2):
            ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)

    command = [sys.executable, "-m", "amends", *arguments]
    options = {"capture_output": True, "text": True, "cwd": HERE, "env": environment(), "timeout": 100}
    ran = subprocess.run(command, preexec_fn=give_up, check=False, **options)  # type: ignore[call-overload]
    return Ran(ran.returncode, ran.stdout, ran.stderr)


@pytest.fixture
def sealed_off(shop: Path) -> Path:
    """The shop's directory, into which nothing may be written; a reader has nothing else."""
    yield shop  # type: ignore[misc]
    os.chmod(shop, 0o700)


def test_a_closed_ledger_in_a_directory_that_cannot_be_written_is_read(sealed_off: Path) -> None:
    checkpointed(sealed_off)
    assert not list(sealed_off.glob("ledger.db-*"))
    os.chmod(sealed_off / "ledger.db", 0o400)
    os.chmod(sealed_off, 0o500)
    said = without_override("runs", "--ledger", str(sealed_off / "ledger.db"))
    assert (said.code, said.err) == (0, "")
    assert "order:ok" in said.out
    checked = without_override("doctor", "--ledger", str(sealed_off / "ledger.db"))
    assert checked.code == 1, checked
    assert "FINDING place:" in checked.out
    assert "ok      record:" in checked.out


def test_newest_entries_that_only_a_writable_directory_can_show_are_not_left_out(sealed_off: Path) -> None:
    keeper = sqlite3.connect(sealed_off / "ledger.db", isolation_level=None)
    keeper.execute("PRAGMA wal_autocheckpoint = 0")
    keeper.execute("BEGIN IMMEDIATE")
    keeper.execute("UPDATE runs SET updated_at = updated_at")
    keeper.execute("COMMIT")
    shutil.copytree(sealed_off, sealed_off / "copy")
    keeper.close()
    (sealed_off / "copy" / "ledger.db-shm").unlink()
    assert (sealed_off / "copy" / "ledger.db-wal").stat().st_size
    os.chmod(sealed_off / "copy", 0o500)
    said = without_override("runs", "--ledger", str(sealed_off / "copy" / "ledger.db"))
    os.chmod(sealed_off / "copy", 0o700)
    assert (said.code, said.out) == (6, "")
    assert "its newest entries are in 'ledger.db-wal'" in said.err
    assert "make the directory writable" in said.err


def test_a_file_without_permission_says_so(sealed_off: Path) -> None:
    os.chmod(sealed_off / "ledger.db", 0)
    said = without_override("runs", "--ledger", str(sealed_off / "ledger.db"))
    assert (said.code, "may not read it; give it the permission" in said.err) == (6, True)
