"""Signed checkpoints, kept outside the ledger's storage.

A hash chain shows edits inside a run. It cannot show that the newest entries, or whole runs, are gone:
who can write the file can cut it and leave no seam. A checkpoint says "at this time the ledger had these
entries": a rolling digest over the hashes of all entries in the order of their positions, signed with
Ed25519. Kept in a second place, under a key that the ledger's machine uses but an intruder cannot make,
it shows every loss up to itself. It says nothing of entries after it, nor when the newest checkpoints
were removed from the anchor as well; so note the last position somewhere else too, or ship the lines.

    digest(0) = 32 zero bytes
    digest(n) = SHA-256("amends.anchor.1" ‖ digest(n-1) ‖ position, 8 bytes ‖ hash)

A line is JSON; its signature covers the domain and the line's other fields with sorted keys. ``previous``
is the SHA-256 of the line before, so lines cannot be dropped between others.
"""

import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amends.errors import LedgerCorrupt, UsageError
from amends.ledger.connection import reading
from amends.ledger.rebuild import Finding, Source, path_of
from amends.ledger.regular import read_regular
from amends.ledger.sql import QUERIES

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ANCHOR_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of an anchor file: 150,000 checkpoints, one an hour for 17 years."""

_KEY_TEXT_BYTES_MAX: Final = 1_024
_DOMAIN: Final = b"amends.anchor.1"
_SIGNED: Final = b"amends.checkpoint.1"


class Checkpoint(NamedTuple):
    """What one line says: ``entries`` entries up to ``position`` have ``digest``. Hex and milliseconds."""

    position: int
    entries: int
    digest: str
    at_ms: int
    previous: str
    public_key: str
    signature: str = ""

    def signed_bytes(self) -> bytes:
        """What the signature covers."""
        fields = {name: value for name, value in self._asdict().items() if name != "signature"}
        return _SIGNED + json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def create_key(path: str | os.PathLike[str]) -> bytes:
    """Make a new Ed25519 key in a file only its owner may read (0600); the public key, 32 bytes.

    Raises:
        UsageError: the file exists; a key is never overwritten.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

    key = Ed25519PrivateKey.generate()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageError(f"{os.fspath(path)!r} exists and a key is never overwritten; name another file") from None
    except OSError as error:
        raise UsageError(f"no key was made at {os.fspath(path)!r}: {error.strerror}; name another place") from None
    with os.fdopen(handle, "wb") as file:
        file.write(key.private_bytes_raw().hex().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    return key.public_key().public_bytes_raw()


def load_key(path: str | os.PathLike[str]) -> "Ed25519PrivateKey":
    """The key that ``create_key`` wrote.

    Raises:
        UsageError: others may read the file, or it holds no key.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

    place = Path(path)
    try:
        text = read_regular(place, what="the key file", bytes_max=_KEY_TEXT_BYTES_MAX)
        shared = place.stat().st_mode & 0o077
    except FileNotFoundError:
        raise UsageError(
            f"there is no key file {str(place)!r}; make one with `amends doctor --create-key FILE`"
        ) from None
    if shared:
        raise UsageError(f"the key file {str(place)!r} can be read by others; `chmod 600` it and make a new key")
    try:
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text.decode("ascii").strip()))
    except ValueError:
        raise UsageError(f"{str(place)!r} holds no Ed25519 key of 32 bytes in hex; name another file") from None


def write_checkpoint(
    ledger: Source, anchor_path: str | os.PathLike[str], key: "Ed25519PrivateKey", *, at_ms: int
) -> Checkpoint:
    """Sign what the ledger holds now and add it, fsync'd, to the anchor file.

    Raises:
        LedgerCorrupt: the ledger does not carry the checkpoints that are there; a new one would cover it up.
    """
    public = key.public_key().public_bytes_raw()
    findings = verify_anchor(ledger, anchor_path, public) if os.path.lexists(anchor_path) else []
    if findings:
        why = "; ".join(finding.what for finding in findings)
        raise LedgerCorrupt(f"no checkpoint was written, earlier ones do not verify: {why}; run `amends doctor`")
    lines = _lines(anchor_path)
    position, entries, digest = list(_digests(ledger))[-1]
    previous = sha256(lines[-1]).hexdigest() if lines else ""
    checkpoint = Checkpoint(position, entries, digest.hex(), at_ms, previous, public.hex())
    checkpoint = checkpoint._replace(signature=key.sign(checkpoint.signed_bytes()).hex())
    data = json.dumps(checkpoint._asdict(), separators=(",", ":")).encode() + b"\n"
    try:
        handle = os.open(anchor_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, 0o644)
    except OSError as error:
        place = os.fspath(anchor_path)
        raise UsageError(f"the anchor file {place!r} cannot be written: {error.strerror}; name another one") from None
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return checkpoint


def verify_anchor(ledger: Source, anchor_path: str | os.PathLike[str], public_key: bytes) -> list[Finding]:
    """Everything in which the ledger and its checkpoints disagree; empty when all is well.

    ``public_key`` (32 bytes) comes from where the verifier keeps it, never from the anchor file.
    """
    findings: list[Finding] = []
    wanted: dict[int, Checkpoint] = {}
    previous = ""
    for number, line in enumerate(_lines(anchor_path), 1):
        checkpoint = _parse(line)
        if checkpoint is None or not _signed(checkpoint, public_key):
            findings.append(Finding("anchor", f"line {number} of the anchor is not signed by the given key"))
        elif checkpoint.previous != previous:
            findings.append(Finding("anchor", f"line {number} does not follow from the line before it"))
        else:
            wanted[checkpoint.position] = checkpoint
        previous = sha256(line).hexdigest()
    return findings + list(_compare(ledger, wanted))


def count(anchor_path: str | os.PathLike[str]) -> int:
    """How many checkpoints the anchor file holds."""
    return len(_lines(anchor_path))


def newest(anchor_path: str | os.PathLike[str]) -> Checkpoint | None:
    """The last checkpoint of the anchor file, not verified."""
    lines = _lines(anchor_path)
    return _parse(lines[-1]) if lines else None


def _compare(ledger: Source, wanted: dict[int, Checkpoint]) -> Iterator[Finding]:
    last = 0
    for position, entries, digest in _digests(ledger):
        last = position
        checkpoint = wanted.pop(position, None)
        if checkpoint is not None and (checkpoint.entries, checkpoint.digest) != (entries, digest.hex()):
            what = f"{checkpoint.entries} entries up to position {position}; they are not those that are there"
            yield Finding("anchor_differs", f"the checkpoint of {checkpoint.at_ms} signed {what}")
    for position in sorted(wanted):
        gone = "the entry there is gone" if position <= last else f"the ledger ends at {last}: its end was cut off"
        yield Finding("anchor_lost", f"a checkpoint signed position {position}; {gone}")


def _digests(ledger: Source) -> Iterator[tuple[int, int, bytes]]:
    """Position, number of entries and rolling digest, entry by entry; the empty ledger first."""
    digest = bytes(32)
    yield 0, 0, digest
    with reading(path_of(ledger)) as db:
        for entries, (position, value) in enumerate(db.execute(QUERIES["all_hashes"]), 1):
            digest = sha256(_DOMAIN + digest + position.to_bytes(8, "big") + value).digest()
            yield position, entries, digest


def _lines(anchor_path: str | os.PathLike[str]) -> list[bytes]:
    """The checkpoints, none where there is no file. A link to nothing is an error: the second place is not there."""
    try:
        return read_regular(Path(anchor_path), what="the anchor file", bytes_max=ANCHOR_BYTES_MAX).splitlines()
    except FileNotFoundError:
        return []


def _parse(line: bytes) -> Checkpoint | None:
    try:
        fields: dict[str, Any] = json.loads(line)
        return Checkpoint(**fields)
    except (ValueError, TypeError):
        return None


def _signed(checkpoint: Checkpoint, public_key: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    try:
        key = Ed25519PublicKey.from_public_bytes(public_key)
        key.verify(bytes.fromhex(checkpoint.signature), checkpoint.signed_bytes())
    except (InvalidSignature, ValueError, TypeError):
        return False
    return checkpoint.public_key == public_key.hex()
