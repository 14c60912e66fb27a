"""What somebody does to the file behind our back, and how it shows."""

import asyncio
import json
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from building import Run, claimed, life, proposed

from amends.errors import LedgerCorrupt, LedgerUnavailable, UsageError
from amends.ledger import anchor
from amends.ledger.rebuild import WITHOUT_ANCHOR, check, rebuild
from amends.ledger.sqlite import SqliteLedger

pytestmark = pytest.mark.requirement("R14", "G9")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger of three runs with four entries each."""

    async def main() -> None:
        ledger = SqliteLedger(tmp_path / "l.db")
        await ledger.open()
        for n in range(3):
            for append in life(f"run_{n}", f"op_{n}"):
                await ledger.append(append)
        await ledger.close()

    asyncio.run(main())
    return tmp_path / "l.db"


def tamper(path: Path, *statements: str) -> None:
    """Run ``statements`` as somebody with the file would: triggers out of the way, then back."""
    db = sqlite3.connect(path)
    triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        db.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        assert db.execute(statement).rowcount
    for _, sql in triggers:
        db.execute(sql)
    db.commit()
    db.close()


def kinds(path: Path) -> set[str]:
    return {finding.kind for finding in check(path)}


CUT = "DELETE FROM entries WHERE run = 'run_2' AND seq = 4"
COUNTER = "UPDATE sqlite_sequence SET seq = (SELECT max(position) FROM entries)"
_TABLES = ("entries WHERE run", "operations WHERE run", "runs WHERE id")
WHOLE_RUN = [
    f"DELETE FROM {table} = 'run_2'" for table in ("entries WHERE run", "operations WHERE run", "runs WHERE id")
]
TAMPERED = {
    "body edited": (["UPDATE entries SET body = replace(body, 'refund', 'refunb') WHERE seq = 1"], {"chain"}),
    "content edited": (["UPDATE entries SET content = replace(content, 8500, 9500) WHERE seq = 2"], {"chain"}),
    "content dropped": (["UPDATE entries SET content = NULL WHERE seq = 2"], {"chain"}),
    "hash edited": (["UPDATE entries SET hash = zeroblob(32) WHERE seq = 2"], {"chain"}),
    "row deleted in the middle": (["DELETE FROM entries WHERE run = 'run_1' AND seq = 2"], {"chain", "position"}),
    "first row deleted": (["DELETE FROM entries WHERE run = 'run_0' AND seq = 1"], {"chain", "position"}),
    "tail deleted": ([CUT, COUNTER], {"tail", "operation_differs"}),
    "tail deleted, counter left": ([CUT], {"tail", "operation_differs", "position"}),
    "moved to another run": (
        ["UPDATE entries SET run = 'run_x' WHERE run = 'run_1'"],
        {"chain", "run_extra", "operation_extra"},
    ),
    "run row edited": (["UPDATE runs SET tenant = 'evil' WHERE id = 'run_1'"], {"run_differs"}),
    "run row deleted": (["DELETE FROM runs WHERE id = 'run_1'"], {"run_missing"}),
    "operation row edited": (["UPDATE operations SET state = 'rejected'"], {"operation_differs"}),
    "operation row deleted": (["DELETE FROM operations WHERE id = 'op_1'"], {"operation_missing"}),
    "operation row added": (
        ["INSERT INTO operations SELECT 'op_x', run, key, action, target, state, params_hash, attempts, proposed_at, "
         "updated_at, wake_at, reason, resource FROM operations WHERE id = 'op_1'"],
        {"operation_extra"},
    ),
    "entries of a run deleted": (
        ["DELETE FROM entries WHERE run = 'run_1'"],
        {"run_extra", "operation_extra", "position"},
    ),
    "state that is none": (
        ["UPDATE operations SET state = 'fine'", "UPDATE entries SET hash = x'00' WHERE seq = 4"],
        {"chain"},
    ),
    "whole run deleted": (WHOLE_RUN, {"position"}),
    "lock of nobody": (["INSERT INTO locks VALUES ('order:1', 'op_x')"], {"lock"}),
    "lock of a settled operation": (["INSERT INTO locks VALUES ('order:1', 'op_1')"], {"lock"}),
    "positions swapped": (["UPDATE entries SET position = 90 - position WHERE position IN (1, 2)"], {"position"}),
}  # fmt: skip


def test_an_untouched_ledger_is_clean(path: Path) -> None:
    assert check(path) == []


@pytest.mark.parametrize(("statements", "expected"), TAMPERED.values(), ids=TAMPERED.keys())
def test_tampering_is_found(path: Path, statements: list[str], expected: set[str]) -> None:
    tamper(path, *statements)
    assert kinds(path) == expected


def test_a_missing_trigger_is_found(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("DROP TRIGGER entries_are_kept")
    db.close()
    assert [finding.what for finding in check(path)] == [
        "the trigger 'entries_are_kept' is not as the migrations make it"
    ]


@pytest.mark.parametrize(
    "statement", ["DELETE FROM entries", "UPDATE entries SET body = x'00'", "UPDATE entries SET seq = seq + 9"]
)
def test_entries_refuse_changes(path: Path, statement: str) -> None:
    db = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        db.execute(statement)
    db.close()


def test_check_needs_a_ledger_that_exists(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable, match="there is no ledger at"):
        check(tmp_path / "none.db")


def test_check_runs_beside_an_open_ledger(path: Path) -> None:
    async def main() -> None:
        ledger = SqliteLedger(path)
        await ledger.open()
        await ledger.append(life("more", "op_more")[0])
        assert check(ledger) == []
        await ledger.close()

    asyncio.run(main())


ROWS = [key for key, (_, expected) in TAMPERED.items() if not expected & {"chain", "position", "tail"}]


@pytest.mark.parametrize("name", ROWS)
def test_a_rebuild_makes_the_rows_anew(path: Path, name: str) -> None:
    tamper(path, *TAMPERED[name][0])
    assert rebuild(path) == 3
    assert check(path) == []


def test_a_rebuild_of_a_broken_chain_changes_nothing(path: Path) -> None:
    tamper(path, *TAMPERED["body edited"][0], "UPDATE runs SET tenant = 'evil'")
    with pytest.raises(LedgerCorrupt, match=r"run 'run_0' does not verify.*nothing was changed"):
        rebuild(path)
    db = sqlite3.connect(path)
    assert db.execute("SELECT DISTINCT tenant FROM runs").fetchall() == [("evil",)]
    db.close()


def test_a_rebuild_keeps_the_locks_of_work_in_flight(tmp_path: Path) -> None:
    async def main() -> None:
        ledger = SqliteLedger(tmp_path / "l.db")
        await ledger.open()
        run = Run("run_1")
        await ledger.append(run.opened())
        await ledger.append(run.next(proposed("op_1")))
        await ledger.append(run.next(claimed("op_1"), acquire=(("order:1", "op_1"),)))
        await ledger.close()

    asyncio.run(main())
    rebuild(tmp_path / "l.db")
    db = sqlite3.connect(tmp_path / "l.db")
    assert db.execute("SELECT * FROM locks").fetchall() == [("order:1", "op_1")]
    db.close()
    assert check(tmp_path / "l.db") == []


@pytest.mark.requirement("R13")
@pytest.mark.parametrize("names", [None, ["0.argument.note"], ["0.receipt"]])
def test_after_an_erasure_the_ledger_is_clean_and_the_bytes_are_gone(path: Path, names: list[str] | None) -> None:
    async def main() -> None:
        ledger = SqliteLedger(path)
        await ledger.open()
        run = Run("secret")
        await ledger.append(run.opened())
        await ledger.append(run.next(proposed("op_s", note="unforgettable", target="order:77")))
        assert await ledger.erase("secret", names)
        assert check(ledger) == []
        assert any("refund" in row.action for row in ledger.search("secret"))
        if names != ["0.receipt"]:
            assert b"unforgettable" not in b"".join(p.read_bytes() for p in path.parent.iterdir())
        await ledger.close()

    asyncio.run(main())
    assert check(path) == []
    assert rebuild(path) == 4
    assert check(path) == []


@pytest.fixture
def anchored(path: Path, tmp_path: Path) -> tuple[Path, Path, bytes]:
    """The ledger, its anchor with one checkpoint, and the public key."""
    public = anchor.create_key(tmp_path / "key")
    made = anchor.write_checkpoint(path, tmp_path / "anchor", anchor.load_key(tmp_path / "key"), at_ms=5)
    assert (made.position, made.entries, made.previous) == (12, 12, "")
    return path, tmp_path / "anchor", public


GONE = [*WHOLE_RUN, COUNTER]
CUT_CLEAN = [
    "DELETE FROM entries WHERE run = 'run_2' AND seq > 1",
    "DELETE FROM operations WHERE run = 'run_2'",
    COUNTER,
]


def test_a_whole_run_removed_with_care_shows_only_against_the_anchor(anchored: tuple[Path, Path, bytes]) -> None:
    path, place, public = anchored
    tamper(path, *GONE)
    assert check(path) == []
    assert "whole runs" in WITHOUT_ANCHOR
    assert [finding.kind for finding in anchor.verify_anchor(path, place, public)] == ["anchor_lost"]


def test_a_tail_cut_with_care_shows_only_against_the_anchor(anchored: tuple[Path, Path, bytes]) -> None:
    path, place, public = anchored
    tamper(path, *CUT_CLEAN)
    rebuild(path)
    assert check(path) == []
    assert [finding.kind for finding in anchor.verify_anchor(path, place, public)] == ["anchor_lost"]


def test_a_forged_history_of_the_same_length_shows_against_the_anchor(anchored: tuple[Path, Path, bytes]) -> None:
    path, place, public = anchored
    tamper(path, "UPDATE entries SET hash = zeroblob(32) WHERE position = 3")
    assert [finding.kind for finding in anchor.verify_anchor(path, place, public)] == ["anchor_differs"]


def test_an_anchor_grows_and_stays_clean(anchored: tuple[Path, Path, bytes], tmp_path: Path) -> None:
    path, place, public = anchored

    async def main() -> None:
        ledger = SqliteLedger(path)
        await ledger.open()
        for append in life("run_3", "op_3"):
            await ledger.append(append)
        assert anchor.verify_anchor(ledger, place, public) == []
        anchor.write_checkpoint(ledger, place, anchor.load_key(tmp_path / "key"), at_ms=6)
        await ledger.erase("run_0")
        assert anchor.verify_anchor(ledger, place, public) == []
        await ledger.close()

    asyncio.run(main())
    assert [json.loads(line)["position"] for line in place.read_text().splitlines()] == [12, 16]
    place.write_text(place.read_text().splitlines(keepends=True)[1])
    assert "does not follow from the line before" in anchor.verify_anchor(path, place, public)[0].what


def forge(line: dict[str, object]) -> str:
    return json.dumps({**line, "position": 3, "entries": 3})


@pytest.mark.parametrize("change", [forge, lambda _: "no json", lambda line: json.dumps({**line, "signature": "00"})])
def test_a_line_that_is_not_signed_is_found(
    anchored: tuple[Path, Path, bytes], change: Callable[[dict[str, object]], str]
) -> None:
    path, place, public = anchored
    place.write_text(change(json.loads(place.read_text())) + "\n")
    assert [finding.kind for finding in anchor.verify_anchor(path, place, public)] == ["anchor"]


def test_another_key_does_not_verify(anchored: tuple[Path, Path, bytes], tmp_path: Path) -> None:
    path, place, _ = anchored
    other = anchor.create_key(tmp_path / "other")
    assert [finding.kind for finding in anchor.verify_anchor(path, place, other)] == ["anchor"]


def test_no_checkpoint_is_written_over_a_loss(anchored: tuple[Path, Path, bytes], tmp_path: Path) -> None:
    path, place, _ = anchored
    before = place.read_bytes()
    tamper(path, *GONE)
    with pytest.raises(LedgerCorrupt, match="no checkpoint was written"):
        anchor.write_checkpoint(path, place, anchor.load_key(tmp_path / "key"), at_ms=7)
    assert place.read_bytes() == before


def test_a_key_is_private_and_never_overwritten(tmp_path: Path) -> None:
    anchor.create_key(tmp_path / "key")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    with pytest.raises(UsageError, match="never overwritten"):
        anchor.create_key(tmp_path / "key")
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(UsageError, match="can be read by others"):
        anchor.load_key(tmp_path / "key")
    (tmp_path / "junk").touch(mode=0o600)
    with pytest.raises(UsageError, match="holds no Ed25519 key"):
        anchor.load_key(tmp_path / "junk")
