-- The first schema. Shipped migrations never change; a new one gets the next number.
-- entries is the record; runs, operations and locks follow from it and can be rebuilt.

-- name: entries
CREATE TABLE entries (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    run TEXT NOT NULL,
    seq INTEGER NOT NULL CHECK (seq > 0),
    append_id TEXT NOT NULL,
    hash BLOB NOT NULL,
    body BLOB NOT NULL,
    content BLOB,
    UNIQUE (run, seq)
);

-- name: entries_stay
CREATE TRIGGER entries_stay
BEFORE UPDATE OF position, run, seq, append_id, hash, body ON entries
BEGIN
    SELECT RAISE(ABORT, 'entries are append-only: only content may be erased');
END;

-- name: entries_are_kept
CREATE TRIGGER entries_are_kept
BEFORE DELETE ON entries
BEGIN
    SELECT RAISE(ABORT, 'entries are append-only: none may be deleted');
END;

-- name: runs
CREATE TABLE runs (
    id TEXT NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    head BLOB NOT NULL,
    tenant TEXT NOT NULL,
    type TEXT NOT NULL,
    intent TEXT NOT NULL,
    principal TEXT NOT NULL,
    closed TEXT,
    ending TEXT,
    opened_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    wake_at INTEGER,
    event TEXT
) WITHOUT ROWID;

-- name: runs_wake
CREATE INDEX runs_wake ON runs (wake_at) WHERE wake_at IS NOT NULL;

-- name: runs_newest
CREATE INDEX runs_newest ON runs (opened_at);

-- name: operations
CREATE TABLE operations (
    id TEXT NOT NULL,
    run TEXT NOT NULL,
    key TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT,
    state TEXT NOT NULL,
    params_hash TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    proposed_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    wake_at INTEGER,
    reason TEXT NOT NULL,
    resource TEXT
);

-- name: operations_id
CREATE UNIQUE INDEX operations_id ON operations (id);

-- name: operations_run
CREATE INDEX operations_run ON operations (run);

-- A key of ours gives its operation's id (core.identity), so only others are looked up here: every index
-- that an append touches is one more page to write and to sync.
-- name: operations_key
CREATE INDEX operations_key ON operations (key) WHERE key NOT GLOB 'am1_*';

-- name: operations_target
CREATE INDEX operations_target ON operations (target) WHERE target IS NOT NULL;

-- name: operations_resource
CREATE INDEX operations_resource ON operations (resource) WHERE resource IS NOT NULL;

-- The states left out are the settled ones and those at rest before a call. A test holds the list
-- against the transition table. An operation whose call is on its way is left out too while its run has a
-- wake, by which it is found: otherwise each would be put in here and taken out again, two pages more.
-- name: operations_unresolved
CREATE INDEX operations_unresolved ON operations (proposed_at)
WHERE state NOT IN (
    'rejected', 'expired', 'cancelled', 'not_committed', 'verified', 'irreversible_effect', 'compensated',
    'proposed', 'awaiting_approval', 'authorized', 'prepared'
) AND (wake_at IS NULL OR state NOT IN ('committing', 'committed'));

-- name: locks
CREATE TABLE locks (
    name TEXT NOT NULL PRIMARY KEY,
    operation TEXT NOT NULL
) WITHOUT ROWID;

-- name: locks_operation
CREATE INDEX locks_operation ON locks (operation);

-- name: application
PRAGMA application_id = 1095585348;

-- name: version
PRAGMA user_version = 1;
