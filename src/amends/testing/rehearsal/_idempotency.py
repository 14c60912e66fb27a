"""Idempotency keys as Stripe v1 documents them, with knobs for how other providers differ.

The key row and the effect are committed in one transaction, so a crash leaves both or neither. A key in progress
lives in memory only: after a crash nothing of that request happened, and its key is free.
What is remembered: successes, a 402 decline and a 500, each replayed for the whole retention. What is not: refused
parameters (400, 404), conflicts, and statuses a gateway gives before execution (401, 403, 429, 503).
Source: https://docs.stripe.com/api/idempotent_requests
"""

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from typing import Final

from amends.testing.rehearsal._knobs import Knob, Knobs
from amends.testing.rehearsal._wire import KEY_CHARS_MAX, Answer, Call, error

DAY_MS: Final = 24 * 3600 * 1000

KEY_KNOBS: Final[Mapping[str, Knob]] = {
    "keys_enabled": Knob(True),  # False: the header is ignored, as by services without keys
    "key_retention_ms": Knob(DAY_MS),  # an older key is forgotten: the request is a new one
    "key_replay": Knob("replay", ("replay", "refuse")),  # refuse: 409 on a known key, without the stored answer
    "key_mismatch": Knob("refuse", ("refuse", "replay")),  # replay: other parameters are silently swallowed
}


def is_remembered(status: int) -> bool:
    """Whether an answer with this status is stored under its key."""
    return 200 <= status < 300 or status in {402, 500}


def refuse_key(key: str) -> Answer | None:
    """Refuse a key that is empty or too long."""
    if 0 < len(key) <= KEY_CHARS_MAX:
        return None
    return error(
        400,
        "idempotency_key_invalid",
        f"an Idempotency-Key has 1 to {KEY_CHARS_MAX} characters, got {len(key)}",
    )


def in_use(key: str) -> Answer:
    """The answer while the first request with this key is still running."""
    return error(409, "idempotency_key_in_use", f"another request with key {key!r} is in progress")


def recall(connection: sqlite3.Connection, call: Call, knobs: Knobs) -> Answer | None:
    """The answer already owed to this key, or None when the request is to be executed."""
    row = connection.execute("SELECT * FROM keys WHERE account = ? AND key = ?", (call.account, call.key)).fetchone()
    if row is None or row["stored_ms"] + knobs.number("key_retention_ms") <= call.now_ms:
        return None
    if row["fingerprint"] != fingerprint(call) and knobs.word("key_mismatch") == "refuse":
        return error(
            400,
            "idempotency_key_reused",
            f"key {call.key!r} was first used with other parameters or another endpoint",
            kind="idempotency_error",
        )
    if knobs.word("key_replay") == "refuse":
        return error(409, "idempotency_key_duplicate", f"key {call.key!r} was already used")
    return Answer(row["status"], json.loads(row["body"]), {"Idempotent-Replayed": "true"})


def remember(connection: sqlite3.Connection, call: Call, answer: Answer) -> None:
    """Store the answer under the key; an expired row of the same key gives way."""
    if not is_remembered(answer.status):
        return
    connection.execute(
        "INSERT OR REPLACE INTO keys (account, key, fingerprint, status, body, stored_ms) VALUES (?, ?, ?, ?, ?, ?)",
        (call.account, call.key, fingerprint(call), answer.status, json.dumps(answer.body), call.now_ms),
    )


def fingerprint(call: Call) -> str:
    """A digest of endpoint, parameters and precondition: what must be equal for two requests to be the same."""
    parts = [call.method, call.path, call.body, call.headers.get("if-match", "")]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
