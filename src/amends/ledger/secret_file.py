"""The secret for sensitive arguments, in a file beside the ledger, for whoever names no other one.

It keeps values out of backups, exports and screens of the ledger alone. Whoever can read both files can
read the values: pass a secret from elsewhere where that matters.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

from amends.errors import LedgerUnavailable, UsageError
from amends.ledger.regular import read_regular, refused

_WHAT: Final = "the secret file"


def secret_path(ledger: Path) -> Path:
    """Where the secret of ``ledger`` stands."""
    return ledger.with_name(ledger.name + ".key")


def secret_beside(ledger: Path, *, length_bytes: int) -> bytes:
    """The secret in ``<ledger>.key``, made (mode 0600) when it is missing. Processes that race make one.

    Raises:
        UsageError: what is there is no secret of this length.
        LedgerUnavailable: it could not be made.
    """
    path = secret_path(ledger)
    if not os.path.lexists(path):
        try:
            _make(path, length_bytes)
        except OSError as error:
            raise LedgerUnavailable(
                f"{_WHAT} {str(path)!r} for sensitive arguments could not be made: {error.strerror}; "
                "look at the disk, the directory and its permissions",
                path=str(path),
            ) from error
    try:
        secret = read_regular(path, what=_WHAT, bytes_max=length_bytes)
    except FileNotFoundError:
        raise refused(path, _WHAT, "was removed while it was read") from None
    if len(secret) != length_bytes:
        raise UsageError(
            f"{_WHAT} {str(path)!r} has {len(secret)} bytes; it needs {length_bytes}: "
            "put back the one that this ledger's sensitive arguments were sealed with",
            path=str(path),
        )
    return secret


def _make(path: Path, length_bytes: int) -> None:
    made = path.with_name(f"{path.name}.{os.getpid()}-{os.urandom(4).hex()}")
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(os.urandom(length_bytes))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # another process was first: its secret counts
            os.link(made, path)
    finally:
        made.unlink()
