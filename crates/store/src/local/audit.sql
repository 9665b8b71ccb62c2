CREATE TABLE audit (
    sequence INTEGER PRIMARY KEY,
    time     INTEGER NOT NULL,
    hash     TEXT NOT NULL,
    record   TEXT NOT NULL            -- one line of canonical JSON, the hash in it
) STRICT;

CREATE TABLE audit_head (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    chain    TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    hash     TEXT NOT NULL,
    key      TEXT NOT NULL,           -- empty without one
    seal     TEXT NOT NULL,
    removed  INTEGER NOT NULL         -- records up to this one may be deleted
) STRICT;

-- Against mistakes: who may write to this file can drop them, and what he does then is found by verification.
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT raise(ABORT, 'the audit is not changed'); END;
CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
WHEN old.sequence > coalesce((SELECT removed FROM audit_head), 0)
BEGIN SELECT raise(ABORT, 'the audit is not deleted'); END;
CREATE TRIGGER audit_head_stays BEFORE DELETE ON audit_head
BEGIN SELECT raise(ABORT, 'the head of the audit is not deleted'); END;
