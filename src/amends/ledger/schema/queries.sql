-- Every statement the ledger runs, by name.

-- name: begin
BEGIN IMMEDIATE;

-- name: begin_read
BEGIN;

-- name: commit
COMMIT;

-- name: rollback
ROLLBACK;

-- name: synchronous_full
PRAGMA synchronous = FULL;

-- name: synchronous_off
PRAGMA synchronous = OFF;

-- name: synchronous
PRAGMA synchronous;

-- name: journal_mode
PRAGMA journal_mode;

-- name: journal_wal
PRAGMA journal_mode = WAL;

-- name: secure_delete
PRAGMA secure_delete = ON;

-- name: do_not_wait
PRAGMA busy_timeout = 0;

-- name: truncate_wal
PRAGMA wal_checkpoint(TRUNCATE);

-- name: application_id
PRAGMA application_id;

-- name: user_version
PRAGMA user_version;

-- name: integrity_check
PRAGMA integrity_check;

-- name: schema
SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY type, name;

-- name: place
SELECT version, head FROM runs WHERE id = ?;

-- name: append_id
SELECT append_id FROM entries WHERE run = ? AND seq = ?;

-- name: operation_exists
SELECT 1 FROM operations WHERE id = ?;

-- name: lock_holder
SELECT operation FROM locks WHERE name = ?;

-- name: entry_insert
INSERT INTO entries (run, seq, append_id, hash, body, content) VALUES (?, ?, ?, ?, ?, ?);

-- name: run_insert
INSERT INTO runs
    (id, version, head, tenant, type, intent, principal, closed, ending, opened_at, updated_at, wake_at, event)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: run_update
UPDATE runs SET version = ?, head = ?, closed = ?, ending = ?, updated_at = ?, wake_at = ? WHERE id = ?;

-- name: operation_insert
INSERT INTO operations
    (id, run, key, action, target, state, params_hash, attempts, proposed_at, updated_at, wake_at, reason, resource)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: operation_update
UPDATE operations SET state = ?, attempts = ?, updated_at = ?, wake_at = ?, reason = ?, resource = ?
WHERE id = ? AND run = ?;

-- name: lock_acquire
INSERT OR REPLACE INTO locks (name, operation) VALUES (?, ?);

-- name: lock_release
DELETE FROM locks WHERE operation = ?;

-- name: load
SELECT run, seq, append_id, hash, body, content FROM entries WHERE run = ? ORDER BY seq;

-- name: run_version
SELECT version FROM runs WHERE id = ?;

-- name: run
SELECT id, version, head, tenant, type, intent, principal, closed, ending, opened_at, updated_at, wake_at, event
FROM runs WHERE id = ?;

-- name: operation
SELECT id, run, key, action, target, state, params_hash, attempts, proposed_at, updated_at, wake_at, reason, resource
FROM operations WHERE id = ?;

-- name: due
SELECT id, wake_at FROM runs
WHERE wake_at IS NOT NULL AND wake_at <= ?1 AND (wake_at, id) > (?3, ?4)
ORDER BY wake_at, id LIMIT ?2;

-- name: next_wake
SELECT min(wake_at) FROM runs WHERE wake_at IS NOT NULL;

-- name: newest
SELECT id, version, head, tenant, type, intent, principal, closed, ending, opened_at, updated_at, wake_at, event
FROM runs
WHERE (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR ending = ?2) AND (?4 IS NULL OR opened_at < ?4)
ORDER BY opened_at DESC, id DESC LIMIT ?3;

-- name: search
SELECT id, run, key, action, target, state, params_hash, attempts, proposed_at, updated_at, wake_at, reason, resource
FROM operations
WHERE id = ?1 OR (id = ?2 AND key = ?1) OR (key = ?1 AND key NOT GLOB 'am1_*')
    OR run = ?1 OR target = ?1 OR resource = ?1
ORDER BY proposed_at, id LIMIT ?3;

-- name: unresolved
SELECT id, run, key, action, target, state, params_hash, attempts, proposed_at, updated_at, wake_at, reason, resource
FROM operations
WHERE state NOT IN (
    'rejected', 'expired', 'cancelled', 'not_committed', 'verified', 'irreversible_effect', 'compensated',
    'proposed', 'awaiting_approval', 'authorized', 'prepared'
) AND (wake_at IS NULL OR state NOT IN ('committing', 'committed'))
UNION ALL
SELECT o.id, o.run, o.key, o.action, o.target, o.state, o.params_hash, o.attempts, o.proposed_at, o.updated_at,
    o.wake_at, o.reason, o.resource
FROM runs AS r CROSS JOIN operations AS o ON o.run = r.id
WHERE r.wake_at IS NOT NULL AND o.wake_at IS NOT NULL AND o.state IN ('committing', 'committed')
ORDER BY proposed_at, id LIMIT ?;

-- name: all_entries
SELECT run, seq, append_id, hash, body, content FROM entries ORDER BY run, seq;

-- name: all_hashes
SELECT position, hash FROM entries ORDER BY position;

-- name: all_runs
SELECT id, version, head, tenant, type, intent, principal, closed, ending, opened_at, updated_at, wake_at, event
FROM runs ORDER BY id;

-- name: all_operations
SELECT id, run, key, action, target, state, params_hash, attempts, proposed_at, updated_at, wake_at, reason, resource
FROM operations ORDER BY id;

-- name: all_locks
SELECT name, operation FROM locks ORDER BY name;

-- name: positions
SELECT count(*), coalesce(max(position), 0), (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'entries')
FROM entries;

-- name: position_gaps
SELECT position FROM entries AS later
WHERE position > 1 AND NOT EXISTS (SELECT 1 FROM entries AS sooner WHERE sooner.position = later.position - 1)
ORDER BY position LIMIT 20;

-- name: out_of_order
SELECT run, seq FROM (
    SELECT run, seq, position, lag(position) OVER (PARTITION BY run ORDER BY seq) AS earlier FROM entries
) WHERE earlier > position LIMIT 20;

-- name: content_erase
UPDATE entries SET content = ? WHERE run = ? AND seq = ?;

-- name: run_replace
INSERT OR REPLACE INTO runs
    (id, version, head, tenant, type, intent, principal, closed, ending, opened_at, updated_at, wake_at, event)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: operation_replace
INSERT OR REPLACE INTO operations
    (id, run, key, action, target, state, params_hash, attempts, proposed_at, updated_at, wake_at, reason, resource)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: runs_clear
DELETE FROM runs;

-- name: operations_clear
DELETE FROM operations;

-- name: lock_drop
DELETE FROM locks WHERE name = ?;

-- name: runs_page
SELECT id, version, head, tenant, type, intent, principal, closed, ending, opened_at, updated_at, wake_at, event
FROM runs
WHERE type <> ?5 AND (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR coalesce(ending, 'waiting') = ?2)
    AND (?3 IS NULL OR (opened_at, id) < (SELECT opened_at, id FROM runs WHERE id = ?3))
    AND (?6 IS NULL OR event = ?6 OR id = ?7)
ORDER BY opened_at DESC, id DESC LIMIT ?4;

-- name: runs_of_event
SELECT id FROM runs WHERE (event = ?1 OR id = ?3) AND (?2 IS NULL OR tenant = ?2) ORDER BY opened_at, id LIMIT ?4;

-- name: states_of_run
SELECT state, count(*) FROM operations WHERE run = ? GROUP BY state ORDER BY state;

-- name: awaiting_approval
SELECT id, run, key, action, target, state, params_hash, attempts, proposed_at, updated_at, wake_at, reason, resource
FROM operations WHERE state = 'awaiting_approval' ORDER BY proposed_at, id LIMIT ?;

-- name: open_runs
SELECT id FROM runs
WHERE ending IN ('failed_reconciliation_required', 'failed_with_irreversible_effect', 'unknown')
    OR (ending IS NULL AND closed IS NOT NULL)
ORDER BY opened_at, id LIMIT ?;
