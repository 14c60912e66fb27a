"""``amends doctor``: clean, broken, cut off; and what only a second place can show."""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from commanding import call, sell

from amends.cli import doctor

pytestmark = pytest.mark.requirement("R14")


def examined(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
    ran = call("doctor", "--json", *arguments)
    assert ran.err == "", ran.err
    found = [json.loads(line) for line in ran.out.splitlines()]
    assert all(list(each) == list(doctor.KEYS) for each in found)
    return ran.code, found


def results(found: list[dict[str, Any]]) -> dict[str, str]:
    return {each["check"]: each["result"] for each in found}


def test_a_sound_ledger_is_clean_and_the_limit_of_the_check_is_said(sold: Path) -> None:
    code, found = examined("--ledger", str(sold / "ledger.db"), "--rebuild-check")
    assert code == 0
    assert results(found) == {
        **dict.fromkeys(["amends", "python", "sqlite", "synchronous", "opens", "place", "journal", "record"], "ok"),
        "rebuild": "ok",
        "anchor": "note",
    }
    assert "Without an anchor" in found[-1]["says"]


def test_without_a_ledger_the_environment_is_checked() -> None:
    code, found = examined()
    assert code == 0
    assert list(results(found)) == ["amends", "python", "sqlite", "synchronous"]


def change(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("UPDATE operations SET state = 'verified' WHERE target = 'order:declined'", "operation_differs"),
        ("DELETE FROM operations WHERE target = 'order:ok'", "operation_missing"),
        ("UPDATE runs SET ending = 'completed' WHERE ending = 'unknown'", "run_differs"),
        ("DROP TRIGGER entries_stay", "schema"),
        ("UPDATE entries SET content = replace(content, '8500', '9500') WHERE seq = 1", "chain"),
    ],
)
def test_whatever_was_changed_is_found_with_its_kind(shop: Path, sql: str, kind: str) -> None:
    change(shop / "ledger.db", sql)
    code, found = examined("--ledger", str(shop / "ledger.db"))
    assert code == 6
    assert kind in {each["check"] for each in found if each["result"] == "integrity"}


def test_a_journal_that_is_no_log_is_a_finding_of_the_environment(shop: Path) -> None:
    change(shop / "ledger.db", "PRAGMA journal_mode = DELETE")
    code, found = examined("--ledger", str(shop / "ledger.db"))
    assert (code, results(found)["journal"]) == (1, "finding")


@pytest.fixture
def anchored(shop: Path) -> tuple[str, ...]:
    """A shop with one checkpoint elsewhere; the options that verify it."""
    elsewhere = shop.parent / "elsewhere"
    elsewhere.mkdir()
    key, anchor, ledger = elsewhere / "key", elsewhere / "anchor", shop / "ledger.db"
    made = call("doctor", "--create-key", str(key), "--json")
    assert made.code == 0
    code, found = examined("--ledger", str(ledger), "--checkpoint", str(anchor), "--key", str(key))
    assert (code, results(found)["checkpoint"]) == (0, "ok")
    return "--ledger", str(ledger), "--anchor", str(anchor), "--public-key", json.loads(made.out)["says"]


def test_a_checkpoint_verifies_by_either_half_of_its_key(anchored: tuple[str, ...]) -> None:
    assert examined(*anchored)[0] == 0
    key = str(Path(anchored[3]).with_name("key"))
    code, found = examined(*anchored[:4], "--key", key)
    assert (code, results(found)["anchor"]) == (0, "ok")


@pytest.mark.slow
def test_a_cut_that_leaves_no_seam_shows_against_the_anchor_alone(anchored: tuple[str, ...]) -> None:
    path = Path(anchored[1])
    db = sqlite3.connect(path)
    trigger = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'entries_are_kept'").fetchone()[0]
    [run] = db.execute("SELECT id FROM runs WHERE event = 'order:killed'").fetchone()
    db.close()
    change(
        path,
        "DROP TRIGGER entries_are_kept",
        f"DELETE FROM entries WHERE run = '{run}'",
        f"DELETE FROM operations WHERE run = '{run}'",
        f"DELETE FROM runs WHERE id = '{run}'",
        "UPDATE sqlite_sequence SET seq = (SELECT max(position) FROM entries)",
        trigger,
    )
    assert examined(*anchored[:2])[0] == 0
    code, found = examined(*anchored)
    assert (code, results(found)["anchor_lost"]) == (6, "integrity")
    refused = call(
        "doctor", *anchored[:2], "--checkpoint", anchored[3], "--key", str(Path(anchored[3]).with_name("key"))
    )
    assert refused.code == 6
    assert "no checkpoint was written" in refused.out


def test_an_emptied_anchor_is_a_finding_and_a_missing_one_a_mistake(anchored: tuple[str, ...]) -> None:
    os.truncate(anchored[3], 0)
    assert examined(*anchored)[0] == 6
    os.unlink(anchored[3])
    said = call("doctor", *anchored)
    assert (said.code, "there is no anchor file" in said.err) == (2, True)


FRAME_BYTES = 24 + 4096
HEADER_BYTES = 32


@pytest.fixture
def with_log(shop: Path) -> Path:
    """A ledger as a killed program leaves it: its newest commits stand in the log alone."""
    left = shop / "left"
    left.mkdir()
    with closing(sqlite3.connect(shop / "ledger.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM runs").fetchall()  # while it reads, nobody brings the log in
        assert sell(shop, "late") == 0
        for name in ("ledger.db", "ledger.db-wal"):
            shutil.copy(shop / name, left / name)
    assert (left / "ledger.db-wal").stat().st_size > HEADER_BYTES + 2 * FRAME_BYTES
    return left / "ledger.db"


@pytest.mark.parametrize("rest", [0, HEADER_BYTES, HEADER_BYTES + FRAME_BYTES + 100])
def test_a_cut_log_loses_its_commits_and_only_an_anchor_shows_that(
    with_log: Path, anchored: tuple[str, ...], rest: int
) -> None:
    """What SQLite finds in such a log is whole and older; nothing in the ledger itself says that more was there."""
    key = str(Path(anchored[3]).with_name("key"))
    ledger = ("--ledger", str(with_log))
    assert examined(*ledger, "--checkpoint", anchored[3], "--key", key)[0] == 0
    os.truncate(with_log.with_name("ledger.db-wal"), rest)
    with_log.with_name("ledger.db-shm").unlink(missing_ok=True)
    code, found = examined(*ledger)
    assert (code, results(found)["record"]) == (0, "ok")
    assert "Without an anchor" in found[-1]["says"]
    code, found = examined(*ledger, *anchored[2:])
    assert (code, results(found)["anchor_lost"]) == (6, "integrity")


def test_an_anchor_that_is_older_than_the_ledger_says_what_it_does_not_cover(
    shop: Path, anchored: tuple[str, ...]
) -> None:
    _, [*_, last] = examined(*anchored)
    assert "nothing was recorded since the newest" in last["says"]
    assert sell(shop, "late") == 0
    code, [*_, last] = examined(*anchored)
    assert (code, last["result"]) == (0, "ok")
    assert "entries came after the newest, and a cut among those would not show: sign again" in last["says"]


def test_a_secret_that_others_can_read_is_a_finding(shop: Path) -> None:
    ledger = ("--ledger", str(shop / "ledger.db"))
    assert "secret" not in results(examined(*ledger)[1])
    secret = shop / "ledger.db.key"
    secret.write_bytes(b"k" * 32)
    for mode, code, result in ((0o600, 0, "ok"), (0o640, 1, "finding"), (0o604, 1, "finding")):
        secret.chmod(mode)
        said, found = examined(*ledger)
        assert (said, results(found)["secret"]) == (code, result)
    secret.unlink()
    secret.symlink_to("nothing-there")
    assert examined(*ledger)[0] == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--anchor", "a"], "which ledger?"),
        (["--checkpoint", "a", "--ledger", "LEDGER"], "pass --key FILE"),
        (["--checkpoint", "a", "--key", "none", "--ledger", "LEDGER"], "there is no key file"),
        (["--anchor", "a", "--public-key", "xyz", "--ledger", "LEDGER"], "is not hexadecimal"),
    ],
)
def test_options_that_do_not_go_together_are_usage_errors(sold: Path, options: list[str], said: str) -> None:
    ran = call("doctor", *[option.replace("LEDGER", str(sold / "ledger.db")) for option in options])
    assert (ran.code, said in ran.err) == (2, True), ran
