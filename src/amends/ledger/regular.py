"""Reading a file that somebody named: only a regular one, and only so much of it.

A FIFO keeps its reader waiting for ever, a device may have no end, a link may lead to either. So the file is
opened without waiting and looked at before anything is read.
"""

import os
import stat
from pathlib import Path
from typing import Final

from amends.errors import UsageError

KINDS: Final = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a block device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link",
}


def read_regular(path: Path, *, what: str, bytes_max: int) -> bytes:
    """The content of the file at ``path``, which is called ``what`` in messages ("the key file").

    Raises:
        FileNotFoundError: there is nothing at ``path``, nor a link.
        UsageError: it is no regular file, cannot be read, or is longer than ``bytes_max``.
    """
    if not os.path.lexists(path):
        raise FileNotFoundError(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise refused(path, what, "is a link to a file that is not there") from None
    except OSError as error:
        raise refused(path, what, f"cannot be read: {error.strerror}") from None
    try:
        kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
        if kind != stat.S_IFREG:
            raise refused(path, what, f"is {KINDS.get(kind, 'something else')} and not a regular file")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(bytes_max + 1)
    finally:
        os.close(descriptor)
    if len(data) > bytes_max:
        raise refused(path, what, f"has more than {bytes_max} bytes")
    return data


def refused(path: Path, what: str, why: str) -> UsageError:
    """The error for a file that cannot be what it is taken for."""
    return UsageError(f"{what} {str(path)!r} {why}; name another file, or repair this one", path=str(path))


def odd(path: Path) -> str:
    """What stands at ``path`` that is no regular file, in words; empty for a regular file and for nothing."""
    try:
        kind = stat.S_IFMT(os.lstat(path).st_mode)
    except FileNotFoundError:
        return ""
    return "" if kind == stat.S_IFREG else KINDS.get(kind, "something else")
