"""What is no file, where a ledger, its log, its secret or its anchor belong: it is named, and never waited for."""

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amends import Amends, Call, Receipt
from amends.errors import AmendsError, LedgerUnavailable, UsageError
from amends.ledger import anchor
from amends.ledger.connection import reading
from amends.ledger.rebuild import check
from amends.ledger.secret_file import secret_beside
from amends.ledger.sqlite import SqliteLedger

pytestmark = [pytest.mark.requirement("R14"), pytest.mark.timeout(30)]


def fifo(path: Path) -> None:
    os.mkfifo(path)


def directory(path: Path) -> None:
    path.mkdir()


def link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def links_in_a_circle(path: Path) -> None:
    path.symlink_to("other")
    path.with_name("other").symlink_to(path.name)


def link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link_to_a_terminal(path: Path) -> None:
    path.symlink_to("/dev/tty")


def link_to_nothing(path: Path) -> None:
    path.symlink_to("nothing-there")


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.getcwd()
        os.chdir(path.parent)  # the name of a socket must be short
        try:
            bound.bind(path.name)
        finally:
            os.chdir(here)


Make = Callable[[Path], None]
ODD = [fifo, directory, link_to_itself, links_in_a_circle, link_to_a_device, link_to_a_terminal, a_socket]


def odd_files(*more: Make) -> Any:
    return pytest.mark.parametrize("make", [*ODD, *more], ids=lambda make: make.__name__)


async def open_close(path: Path) -> None:
    ledger = SqliteLedger(path)
    await ledger.open()
    await ledger.close()


def read(path: Path) -> None:
    with reading(path):
        pass


def refused(path: Path) -> list[str]:
    """What a writer and a reader say of ``path``."""
    said = []
    for use in (lambda: asyncio.run(open_close(path)), lambda: read(path)):
        with pytest.raises(LedgerUnavailable) as raised:
            use()
        said.append(raised.value.message)
    return said


@odd_files()
def test_in_the_place_of_a_ledger_it_is_refused_by_writers_and_readers(tmp_path: Path, make: Make) -> None:
    path = tmp_path / "ledger.db"
    make(path)
    for said in refused(path):
        assert os.path.realpath(path) in said
        assert "; name a" in said or "; name the" in said


@odd_files(link_to_nothing)
@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_in_the_place_of_a_log_it_is_named_and_nothing_is_written_into_it(
    tmp_path: Path, make: Make, suffix: str
) -> None:
    path = tmp_path / "ledger.db"
    asyncio.run(open_close(path))
    beside = tmp_path / f"ledger.db{suffix}"
    make(beside)
    for said in refused(path):
        assert repr(str(beside)) in said
        assert "move it away" in said
    beside.rmdir() if beside.is_dir() else beside.unlink()
    asyncio.run(open_close(path))
    assert check(path) == []


@odd_files(link_to_nothing)
def test_in_the_place_of_the_secret_it_is_named(tmp_path: Path, make: Make) -> None:
    secret = tmp_path / "ledger.db.key"
    make(secret)
    with pytest.raises(UsageError, match=r"regular file|cannot be read|link to a file that is not there") as raised:
        secret_beside(tmp_path / "ledger.db", length_bytes=32)
    assert raised.value.message.startswith(f"the secret file {str(secret)!r} ")
    assert "name another file, or repair this one" in raised.value.message
    assert sorted(each.name for each in tmp_path.iterdir() if each.name != "other") == ["ledger.db.key"]


def test_an_application_with_sensitive_arguments_starts_on_no_odd_secret(tmp_path: Path) -> None:
    app = Amends(tmp_path / "ledger.db")

    @app.effect("greet", recovery="irreversible", target="x", owner="us", lookup="escalate", sensitive=["name"])
    async def greet(call: Call, *, name: str) -> Receipt:
        return Receipt(resource="r")

    async def main() -> None:
        async with app:
            raise AssertionError("it was started")

    fifo(tmp_path / "ledger.db.key")
    with pytest.raises(UsageError, match="is a FIFO and not a regular file"):
        asyncio.run(main())


@pytest.mark.parametrize("length", [0, 31, 33, 5000])
def test_a_secret_of_another_length_is_refused(tmp_path: Path, length: int) -> None:
    (tmp_path / "ledger.db.key").write_bytes(b"k" * length)
    with pytest.raises(UsageError, match="bytes"):
        secret_beside(tmp_path / "ledger.db", length_bytes=32)


def test_a_secret_that_cannot_be_made_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        with pytest.raises(LedgerUnavailable, match="could not be made: No space left on device; look at the disk"):
            secret_beside(tmp_path / "ledger.db", length_bytes=32)
    assert list(tmp_path.iterdir()) == []
    made = secret_beside(tmp_path / "ledger.db", length_bytes=32)
    assert secret_beside(tmp_path / "ledger.db", length_bytes=32) == made


@odd_files(link_to_nothing)
def test_in_the_place_of_an_anchor_or_a_key_it_is_named(tmp_path: Path, make: Make) -> None:
    path, odd, key = tmp_path / "ledger.db", tmp_path / "odd", tmp_path / "key"
    asyncio.run(open_close(path))
    public = anchor.create_key(key)
    make(odd)
    for use in (
        lambda: anchor.verify_anchor(path, odd, public),
        lambda: anchor.write_checkpoint(path, odd, anchor.load_key(key), at_ms=1),
        lambda: anchor.load_key(odd),
        lambda: anchor.create_key(odd),
    ):
        with pytest.raises(AmendsError, match="odd") as raised:
            use()
        assert isinstance(raised.value, UsageError)
    assert "nothing-there" not in {each.name for each in tmp_path.iterdir()}
