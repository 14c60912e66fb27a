"""A disk that loses power: from a record of writes to the files that may be there afterwards.

POSIX promises one thing: what was written before a ``fsync`` or ``fdatasync`` began that has returned is
there. (After one that has failed it may never be.) Everything else may be there, or not, or in part: any
un-synced write may be lost while a later one survives, and one write may be torn between the sectors of the
disk. A name (made or removed) is sure once its *directory* was synced. One promise beyond POSIX is kept, as
SQLite counts on it by default: bytes that nobody wrote are not changed by a write beside them.

The shared-memory index (``-shm``) is rebuilt from the log after a crash; its content is not on any disk.
"""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from straced import Call

TRACED = "openat,pwrite64,write,fdatasync,fsync,ftruncate,unlink,rename,pwritev,fallocate,sendto"
"""What a record for this disk needs; ``sendto`` is how a request leaves the process."""
UNMODELLED = frozenset({"rename", "pwritev", "fallocate"})

Image = dict[str, bytes]
"""Names in the directory and their content."""


class Write(NamedTuple):
    """Bytes at a place."""

    offset: int
    data: bytes


class Resize(NamedTuple):
    """The file was cut or grown."""

    size: int


Change = Write | Resize


@dataclass
class File:
    """One file: what is sure, and what is not yet. ``made_sure`` counts the changes that are."""

    sure: bytes = b""
    pending: list[Change] = field(default_factory=list)
    made_sure: int = 0

    @property
    def changes(self) -> int:
        """How many changes there were, sure or not."""
        return self.made_sure + len(self.pending)

    def sync(self, changes: int) -> None:
        """The first ``changes`` of all its changes are sure from now on."""
        count = max(0, changes - self.made_sure)
        self.sure = self.after(iter(self.pending[:count]))
        del self.pending[:count]
        self.made_sure += count

    def after(self, changes: Iterator[Change]) -> bytes:
        """The content if of the pending changes just these reached the disk."""
        data = bytearray(self.sure)
        for change in changes:
            if isinstance(change, Resize):
                data = data[: change.size].ljust(change.size, b"\0")
            else:
                data = data.ljust(change.offset, b"\0")
                data[change.offset : change.offset + len(change.data)] = change.data
        return bytes(data)

    def lose(self, changes: int) -> None:
        """The first ``changes`` of all its changes will never be sure."""
        count = max(0, changes - self.made_sure)
        del self.pending[:count]
        self.made_sure += count


class Disk:
    """The directory of one ledger, fed with the calls of its processes."""

    def __init__(self, ledger: Path, start: Image) -> None:
        self._directory, self._name = str(ledger.parent), ledger.name
        self._sure_names = {name: File(data) for name, data in start.items()}
        self._names = dict(self._sure_names)
        self._pending_names: list[tuple[str, File | None]] = []
        self._begun: dict[tuple[int, int], tuple[File | None, int]] = {}
        self._sure_of_names = 0
        self.syncs = 0

    def begins(self, call: Call) -> None:
        """A call began. A sync makes sure what was written before this moment, and nothing later."""
        if call.name in ("fsync", "fdatasync"):
            file = self._names.get(self._ours(call.path))
            names = self._sure_of_names + len(self._pending_names)
            self._begun[call.thread, call.began] = file, file.changes if file else names

    def ends(self, call: Call) -> bool:
        """A call returned; whether it changed the ledger's files or made something sure."""
        if call.result is None or call.result < 0:
            return self._failed(call)
        match call.name:
            case "fsync" | "fdatasync":
                return self._synced(call)
            case "openat":
                return self._opened(call)
            case "unlink":
                return self._unlinked(call)
            case "pwrite64" | "write" | "ftruncate":
                return self._changed(call)
        assert call.name not in UNMODELLED or self._name not in call.arguments, f"not modelled: {call.arguments[:200]}"
        return False

    def _ours(self, path: str) -> str:
        """The name of a file of the ledger; empty for every other path."""
        directory, name = os.path.split(path)
        ours = directory == self._directory and name.startswith(self._name) and not name.endswith("-shm")
        return name if ours else ""

    def _synced(self, call: Call) -> bool:
        file, count = self._begun.pop((call.thread, call.began))
        if file is not None:
            file.sync(count)
        elif call.path == self._directory:
            self._names_synced(count - self._sure_of_names)
        else:
            return False
        self.syncs += 1
        return True

    def _failed(self, call: Call) -> bool:
        """After a sync that failed, Linux counts the pages as written: no later sync makes them sure."""
        file, count = self._begun.pop((call.thread, call.began), (None, 0))
        if file is None:
            return False
        file.lose(count)
        return True

    def _names_synced(self, count: int) -> None:
        for name, file in self._pending_names[: max(0, count)]:
            _put(self._sure_names, name, file)
            self._sure_of_names += 1
        del self._pending_names[: max(0, count)]

    def _opened(self, call: Call) -> bool:
        name = self._ours(call.texts[0].decode())
        if not name or "O_CREAT" not in call.arguments or name in self._names:
            return False
        return self._name_changed(name, File())

    def _unlinked(self, call: Call) -> bool:
        name = self._ours(call.texts[0].decode())
        return bool(name) and self._name_changed(name, None)

    def _name_changed(self, name: str, file: File | None) -> bool:
        _put(self._names, name, file)
        self._pending_names.append((name, file))
        return True

    def _changed(self, call: Call) -> bool:
        file = self._names.get(self._ours(call.path))
        if file is None:
            return False
        assert call.name != "write", "SQLite writes at a place"
        if call.name == "ftruncate":
            file.pending.append(Resize(call.numbers[-1]))
        else:
            file.pending.append(Write(call.numbers[-1], call.texts[0][: call.result]))
        return True

    def dropped(self) -> Image:
        """Only what is sure."""
        return {name: file.sure for name, file in self._sure_names.items()}

    def kept(self) -> Image:
        """Everything: the disk was quick."""
        return {name: file.after(iter(file.pending)) for name, file in self._names.items()}

    def torn(self, chance: random.Random, sector: int) -> Image:
        """Each sector of each un-synced write, and each un-synced name, survives or not, by ``chance``."""
        names = dict(self._sure_names)
        for name, file in self._pending_names[: chance.randint(0, len(self._pending_names))]:
            _put(names, name, file)
        return {name: file.after(_survivors(file.pending, chance, sector)) for name, file in names.items()}


def _put(names: dict[str, File], name: str, file: File | None) -> None:
    if file is None:
        names.pop(name, None)
    else:
        names[name] = file


def _survivors(changes: list[Change], chance: random.Random, sector: int) -> Iterator[Change]:
    """The pieces that reached the disk; with luck that is most of them, or few."""
    share = chance.choice((0.1, 0.5, 0.9))
    for change in changes:
        if isinstance(change, Resize):
            if chance.random() < share:
                yield change
            continue
        at = change.offset
        while at < change.offset + len(change.data):
            ends = min(at - at % sector + sector, change.offset + len(change.data))
            if chance.random() < share:
                yield Write(at, change.data[at - change.offset : ends - change.offset])
            at = ends


def write_image(image: Image, directory: Path) -> None:
    """Put the files of ``image`` into the empty ``directory``."""
    for name, data in image.items():
        (directory / name).write_bytes(data)
