"""Where a ledger may lie.

SQLite's WAL needs shared memory and locks that network filesystems do not keep: two machines would both
believe that they hold the write lock. So a ledger on one of them is refused before the file is touched.
"""

import os
import re
import sys
from pathlib import Path
from typing import Final

from amends.errors import LedgerUnavailable
from amends.ledger.regular import odd

NETWORK: Final = frozenset(
    {
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "virtiofs",
        "ceph",
        "glusterfs",
        "lustre",
        "afs",
        "gfs2",
        "ocfs2",
    }
    | {"gpfs", "beegfs", "orangefs", "pvfs2", "coda", "ncpfs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph"}
    | {"fuse.ceph-fuse", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone", "fuse.davfs", "davfs", "fuse.juicefs"}
    | {"fuse.mount-s3", "fuse.cvmfs", "fuse.nfs", "fuse.smbnetfs", "fuse.curlftpfs", "fuse.blobfuse2"}
)
MOUNTINFO: Final = Path("/proc/self/mountinfo")

LOOP: Final = "it is a link that leads back to itself"

_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


def check_place(path: Path) -> None:
    """Refuse a ``path`` at which a ledger cannot be kept safely.

    Raises:
        LedgerUnavailable: it is a directory, its directory is missing, it cannot be written, or it lies
            on a network filesystem; or what stands in the place of its log is no file.
    """
    parent = path.parent
    if path.is_dir():
        raise _refuse(path, "it is a directory", "name a file in it, such as ledger.db")
    if path.is_symlink():
        raise _refuse(path, LOOP, "name a file")
    if not parent.is_dir():
        raise _refuse(path, f"its directory {str(parent)!r} does not exist", "create the directory first")
    kind = filesystem(parent)
    if kind in NETWORK:
        why = f"it lies on a network filesystem ({kind}), where SQLite's locks do not hold"
        raise _refuse(path, why, "move it to a local disk")
    if path.exists() and not path.is_file():
        raise _refuse(path, "it is not a regular file", "name a regular file")
    beside = odd_beside(path)
    if beside:
        raise _refuse(path, beside, "move it away; a log that SQLite made is a regular file")
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise _refuse(path, "this process may not read and write the file", "give it the permission")
    if not os.access(parent, os.W_OK | os.X_OK):
        why = f"this process may not write to its directory {str(parent)!r}, where SQLite's log stands"
        raise _refuse(path, why, "give it the permission")


def odd_beside(path: Path) -> str:
    """What is wrong with the names that SQLite uses beside a ledger; empty where nothing is.

    SQLite writes into a FIFO or a device in the place of its log, and answers that it is durable.
    """
    for suffix in ("-wal", "-shm", "-journal"):
        place = path.with_name(path.name + suffix)
        kind = odd(place)
        if kind:
            return f"{str(place)!r}, where SQLite's log belongs, is {kind} and not a regular file"
    return ""


def filesystem(directory: Path, mountinfo: Path = MOUNTINFO) -> str:
    """The type of the filesystem that holds ``directory``; ``""`` where the system does not say."""
    if not sys.platform.startswith("linux"):
        return ""
    try:
        lines = mountinfo.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    place, best, kind = directory.resolve(), -1, ""
    for line in lines:
        before, _, after = line.partition(" - ")
        point = Path(_ESCAPE.sub(lambda m: chr(int(m[1], 8)), before.split(" ")[4]))
        depth = len(point.parts)
        if depth >= best and place.is_relative_to(point):  # of two mounts on one point the later hides
            best, kind = depth, after.split(" ")[0]
    return kind


def _refuse(path: Path, why: str, then: str) -> LedgerUnavailable:
    return LedgerUnavailable(f"the ledger {str(path)!r} was not opened: {why}; {then}", path=str(path))
