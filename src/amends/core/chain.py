"""The format of the ledger: one append is one entry, and entries of a run form a hash chain.

An entry's ``body`` is JSON: which run, which number, which append id, when, by whom, and the events that
were decided together. What an application gave us (arguments, receipts, prose) is *content*. It stands
beside the body, and the body holds one commitment to it: a hash over one salted hash per field. So a
field can be erased — its value and its salt dropped, its hash kept — and chain, key and fold stay whole.

    hash = SHA-256("amends.entry.1" ‖ previous hash ‖ body)          over the stored bytes
    root = SHA-256(field hash ‖ field hash ‖ …)                        in the order of the fields
    field hash = SHA-256(field salt ‖ name ‖ 0x00 ‖ text)              salt: 16 bytes
    field salt = SHA-256(entry salt ‖ name)[:16]

The entry salt is 16 random bytes and is dropped at the first erasure; the salts of the fields that stay
are kept one by one.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from amends.core.model import NO_CONTENT, Event
from amends.core.states import Kind

FORMAT: Final = 1
GENESIS: Final = bytes(32)
SALT_BYTES: Final = 16
ENTRY_BYTES_MAX: Final = 4 * 1024 * 1024
"""One entry, body and content: an append is a decision, not a document store."""

_DOMAIN: Final = b"amends.entry.1"


class EntryHeader(NamedTuple):
    """What an entry says about itself."""

    run: str
    seq: int
    append_id: str
    at_ms: int
    worker: str


class Entry(NamedTuple):
    """One entry as it is stored."""

    run: str
    seq: int
    append_id: str
    hash: bytes
    body: bytes
    content: bytes | None


class ChainBroken(Exception):
    """An entry does not follow from the one before it, or its content from its commitment."""

    def __init__(self, run: str, seq: int, what: str) -> None:
        super().__init__(f"entry {seq} of {run}: {what}")
        self.run = run
        self.seq = seq
        self.what = what

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.run, self.seq, self.what))


_KINDS: Final = {kind.value: kind for kind in Kind}
_encoder: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _encode(value: Any) -> str:
    """``value`` as compact JSON. Small whole numbers and text, most of what is stored, need no encoder's walk."""
    return str(value) if type(value) is int else _encoder.encode(value)


def seal(header: EntryHeader, events: Sequence[Event], previous: bytes, salt: bytes) -> Entry:
    """The entry that records ``events`` after the entry whose hash is ``previous``."""
    fields: list[tuple[str, str]] = []
    plain: list[list[Any]] = []
    for index, event in enumerate(events):
        plain.append([event.kind.value, event.operation, dict(event.facts)])
        fields.extend((f"{index}.{name}", _encode(value)) for name, value in event.content.items())
    body: dict[str, Any] = {
        "v": FORMAT,
        "run": header.run,
        "seq": header.seq,
        "append": header.append_id,
        "at": header.at_ms,
        "by": header.worker,
        "events": plain,
    }
    content: bytes | None = None
    if fields:
        body["content"] = sha256(b"".join(_field_hash(_salt(salt, n), n, t) for n, t in fields)).hexdigest()
        content = _encode({"salt": salt.hex(), "fields": fields}).encode()
    data = _encode(body).encode("utf-8")
    if len(data) + len(content or b"") > ENTRY_BYTES_MAX:
        raise ValueError(f"an entry of {len(data) + len(content or b'')} bytes; the limit is {ENTRY_BYTES_MAX}")
    return Entry(header.run, header.seq, header.append_id, entry_hash(previous, data), data, content)


def entry_hash(previous: bytes, body: bytes) -> bytes:
    """The chain hash of ``body`` after ``previous``."""
    return sha256(_DOMAIN + previous + body).digest()


def _salt(salt: bytes, name: str) -> bytes:
    return sha256(salt + name.encode()).digest()[:SALT_BYTES]


def _field_hash(salt: bytes, name: str, text: str) -> bytes:
    return sha256(salt + name.encode() + b"\x00" + text.encode()).digest()


def unseal(entry: Entry, previous: bytes) -> tuple[EntryHeader, list[Event]]:
    """The events of ``entry``, after checking chain, place and content.

    Erased content is simply not there. Raises:
        ChainBroken: anything does not fit.
    """
    if entry_hash(previous, entry.body) != entry.hash:
        raise ChainBroken(entry.run, entry.seq, "its hash does not follow from the entry before it")
    body = json.loads(entry.body)
    if body["v"] != FORMAT:
        raise ChainBroken(entry.run, entry.seq, f"format {body['v']} is not known")
    header = EntryHeader(body["run"], body["seq"], body["append"], body["at"], body["by"])
    if header[:3] != (entry.run, entry.seq, entry.append_id):
        raise ChainBroken(entry.run, entry.seq, "its body names another place in the ledger")
    values = _content(entry, body.get("content"))
    events = []
    for index, (kind, operation, facts) in enumerate(body["events"]):
        events.append(Event(_KINDS[kind], operation, facts, values.get(index, NO_CONTENT)))
    return header, events


def _content(entry: Entry, root: str | None) -> dict[int, dict[str, Any]]:
    if entry.content is None:
        if root is not None:
            raise ChainBroken(entry.run, entry.seq, "its content is gone, hashes included")
        return {}
    stored = json.loads(entry.content)
    fields = _fields(stored)
    if sha256(b"".join([field_hash for _, _, field_hash in fields])).hexdigest() != root:
        raise ChainBroken(entry.run, entry.seq, "its content does not match its commitment")
    kept = [(name, text) for name, text, _ in fields if text is not None]
    decoded = json.loads(f"[{','.join([text for _, text in kept])}]")  # one walk for all: this is most of a load
    values: dict[int, dict[str, Any]] = {}
    for (name, _), value in zip(kept, decoded, strict=True):
        index, _, field = name.partition(".")
        values.setdefault(int(index), {})[field] = value
    return values


def _fields(stored: Mapping[str, Any]) -> list[tuple[str, str | None, bytes]]:
    if "salt" in stored:
        salt = bytes.fromhex(stored["salt"])
        return [(name, text, _field_hash(_salt(salt, name), name, text)) for name, text in stored["fields"]]
    out: list[tuple[str, str | None, bytes]] = []
    for name, text, rest in stored["fields"]:
        kept = bytes.fromhex(rest)
        out.append((name, text, kept if text is None else _field_hash(kept, name, text)))
    return out


def erase(content: bytes, names: Sequence[str] | None = None) -> bytes:
    """``content`` without the values of the fields ``names`` (all of them if ``None``); commitments stay.

    Idempotent. Names are those of the stored fields, e.g. ``0.argument.note``.
    """
    stored = json.loads(content)
    gone = set(names) if names is not None else None
    fields: list[list[str | None]] = []
    for (name, text, field_hash), raw in zip(_fields(stored), stored["fields"], strict=True):
        if text is None or gone is None or name in gone:
            fields.append([name, None, field_hash.hex()])
        elif "salt" in stored:
            fields.append([name, text, _salt(bytes.fromhex(stored["salt"]), name).hex()])
        else:
            fields.append(list(raw))
    return _encode({"fields": fields}).encode()
