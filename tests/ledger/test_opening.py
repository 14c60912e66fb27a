"""What an SQLite ledger refuses to open, and what it says."""

import asyncio
import contextlib
import errno
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from building import life

from amends.errors import LedgerCorrupt, LedgerTooNew, LedgerUnavailable, UsageError
from amends.ledger import connection, filesystem
from amends.ledger.migrations import APPLICATION_ID, VERSION, check_identity, migrate
from amends.ledger.sqlite import SqliteLedger

pytestmark = pytest.mark.requirement("R14")


def open_close(path: Path, kind: type[SqliteLedger] = SqliteLedger) -> None:
    async def main() -> None:
        ledger = kind(path)
        await ledger.open()
        await ledger.close()

    asyncio.run(main())


def test_a_new_file_is_a_ledger_in_wal_with_our_id(tmp_path: Path) -> None:
    open_close(tmp_path / "l.db")
    db = sqlite3.connect(tmp_path / "l.db")
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert db.execute("PRAGMA user_version").fetchone() == (VERSION,)
    db.close()


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable, match="it is a directory; name a file in it"):
        open_close(tmp_path)


def test_a_missing_directory_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable, match="does not exist; create the directory first"):
        open_close(tmp_path / "no" / "l.db")
    assert not (tmp_path / "no").exists()


def test_a_device_is_refused() -> None:
    with pytest.raises(LedgerUnavailable, match="not a regular file"):
        open_close(Path("/dev/null"))


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "9p", "fuse.sshfs", "ceph"])
def test_a_network_filesystem_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(filesystem, "filesystem", lambda _: kind)
    with pytest.raises(LedgerUnavailable, match=rf"network filesystem \({kind}\).*move it to a local disk"):
        open_close(tmp_path / "l.db")
    assert list(tmp_path.iterdir()) == []


def test_the_deepest_and_latest_mount_decides(tmp_path: Path) -> None:
    place = tmp_path / "with space"
    (place / "in").mkdir(parents=True)
    escaped = str(place).replace(" ", "\\040")
    lines = [
        "1 0 8:1 / / rw - ext4 /dev/vda rw",
        f"2 1 0:9 / {escaped} rw shared:1 - tmpfs tmpfs rw",
        f"3 1 0:9 / {escaped} rw shared:1 master:2 - nfs4 server:/x rw",
        f"4 1 0:9 / {escaped}more rw - ceph x rw",
    ]
    table = tmp_path / "mountinfo"
    table.write_text("\n".join(lines) + "\n")
    assert filesystem.filesystem(place / "in", table) == "nfs4"
    assert filesystem.filesystem(tmp_path, table) == "ext4"
    assert filesystem.filesystem(tmp_path, tmp_path / "none") == ""


@pytest.mark.parametrize("content", [b"this is no database, just text" * 100, b"SQLite format 3\0" + b"\xff" * 4096])
def test_what_is_no_database_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "l.db").write_bytes(content)
    with pytest.raises(LedgerCorrupt, match=r"l\.db'.*amends doctor"):
        open_close(tmp_path / "l.db")
    assert (tmp_path / "l.db").read_bytes() == content


@pytest.mark.parametrize("application", [0, 77])
def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path, application: int) -> None:
    db = sqlite3.connect(tmp_path / "l.db")
    db.execute(f"PRAGMA application_id = {application}")
    db.execute("CREATE TABLE theirs (x)")
    db.commit()
    db.close()
    before = (tmp_path / "l.db").read_bytes()
    with pytest.raises(LedgerCorrupt, match=r"no ledger .* nothing was written to it: name another file"):
        open_close(tmp_path / "l.db")
    assert (tmp_path / "l.db").read_bytes() == before


def test_a_newer_ledger_is_refused(tmp_path: Path) -> None:
    open_close(tmp_path / "l.db")
    db = sqlite3.connect(tmp_path / "l.db")
    db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    with pytest.raises(LedgerTooNew, match=f"has schema {VERSION + 1}, .*upgrade Amends") as raised:
        open_close(tmp_path / "l.db")
    assert raised.value.facts["version"] == VERSION + 1


@pytest.mark.parametrize("what", ["file", "directory"])
def test_what_may_not_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    path = tmp_path / "l.db"
    open_close(path)
    readonly = path if what == "file" else tmp_path
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda p, mode: p != readonly and allowed(p, mode))
    with pytest.raises(LedgerUnavailable, match=r"may not .*give it the permission"):
        open_close(path)


def test_synchronous_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = {**connection.QUERIES, "synchronous_full": "PRAGMA synchronous = NORMAL"}
    monkeypatch.setattr(connection, "QUERIES", changed)
    with pytest.raises(LedgerUnavailable, match="synchronous=1, not 2"):
        open_close(tmp_path / "l.db")


def test_only_the_negative_control_runs_without_fsync(tmp_path: Path) -> None:
    class Unsafe(SqliteLedger):
        _SYNCHRONOUS = "OFF"

    open_close(tmp_path / "l.db", Unsafe)


@pytest.mark.requirement("F04")
def test_the_journal_mode_is_not_set_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_close(tmp_path / "l.db")
    monkeypatch.setattr(connection, "QUERIES", {**connection.QUERIES, "journal_wal": "no statement"})
    open_close(tmp_path / "l.db")


def test_a_lock_that_is_held_does_not_keep_others_from_opening_for_long(tmp_path: Path) -> None:
    open_close(tmp_path / "l.db")
    db = sqlite3.connect(tmp_path / "l.db", isolation_level=None)
    db.execute("BEGIN IMMEDIATE")

    async def main() -> None:
        with pytest.raises(LedgerUnavailable, match="another process kept the write lock"):
            await SqliteLedger(tmp_path / "l.db", busy_timeout_ms=1).open()

    asyncio.run(main())
    db.close()


def test_use_after_a_fork_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        ledger = SqliteLedger(tmp_path / "l.db")
        await ledger.open()
        ledger._pid += 1  # as a child sees it
        with pytest.raises(UsageError, match=r"after a fork.*make a new SqliteLedger in the child"):
            ledger.version("run_1")
        with pytest.raises(UsageError, match="after a fork"):
            await ledger.append(life("run_1", "-")[0])
        ledger._pid -= 1
        await ledger.close()

    asyncio.run(main())


def test_a_real_fork_is_refused_in_the_child_and_harmless_to_the_parent(tmp_path: Path) -> None:
    async def main() -> Any:
        ledger = SqliteLedger(tmp_path / "l.db")
        await ledger.open()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                ledger.version("run_1")
            except UsageError:
                code = 42
            finally:
                os._exit(code)
        status = os.waitpid(child, 0)[1]
        await ledger.append(life("run_1", "-")[0])
        await ledger.close()
        return os.waitstatus_to_exitcode(status)

    assert asyncio.run(main()) == 42


@pytest.mark.requirement("R12", "F04")
def test_a_file_that_another_process_makes_meanwhile_is_not_taken_for_a_foreign_one(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    others = [path]

    class Interrupted(sqlite3.Connection):
        """Between its first question and the next, another process makes the ledger."""

        def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
            answer = super().execute(sql, *values)
            if "application_id" in sql and others:
                with contextlib.closing(sqlite3.connect(others.pop(), isolation_level=None)) as other:
                    migrate(other, path)
            return answer

    with contextlib.closing(sqlite3.connect(path, isolation_level=None, factory=Interrupted)) as db:
        db.execute("PRAGMA journal_mode=WAL").fetchall()
        assert check_identity(db, path) in (0, 1)
        assert others == []
        assert check_identity(db, path) == 1


@pytest.mark.requirement("R11", "F03")
def test_a_name_that_the_disk_does_not_take_is_refused_at_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(connection.os, "fsync", failing)
    with pytest.raises(LedgerUnavailable, match=r"'.*l\.db' could not be opened: its directory .*Input/output error"):
        open_close(tmp_path / "l.db")


@pytest.mark.requirement("R11", "F03")
def test_the_names_of_file_and_log_are_synced_when_both_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    fsync = os.fsync

    def watching(descriptor: int) -> None:
        synced.append((os.path.realpath(f"/proc/self/fd/{descriptor}"), (tmp_path / "l.db-wal").exists()))
        fsync(descriptor)

    monkeypatch.setattr(connection.os, "fsync", watching)
    open_close(tmp_path / "l.db")
    assert (os.path.realpath(tmp_path), True) in synced


def test_an_error_that_ends_the_first_look_is_the_one_that_is_told() -> None:
    class Failing(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            if statement.startswith("PRAGMA application_id"):
                super().execute("ROLLBACK")  # as SQLite does by itself after an I/O error
                raise sqlite3.OperationalError("disk I/O error")
            return super().execute(statement, *values)

    with (
        contextlib.closing(Failing(":memory:", isolation_level=None)) as db,
        pytest.raises(sqlite3.OperationalError, match="disk I/O error"),
    ):
        check_identity(db, Path("l.db"))
