CREATE TABLE changes (
    number        INTEGER PRIMARY KEY,
    call          INTEGER NOT NULL REFERENCES calls (number) ON DELETE CASCADE,
    path          BLOB NOT NULL,      -- paths need not be UTF-8
    shown         BLOB NOT NULL,
    before_sha256 TEXT,               -- null if there was no file, and so are the two below
    before_bytes  INTEGER,
    before_mode   INTEGER,
    after_sha256  TEXT,
    after_bytes   INTEGER,
    after_mode    INTEGER             -- null also where the system chooses it
) STRICT;
CREATE INDEX changes_by_call ON changes (call);
CREATE INDEX changes_by_before ON changes (before_sha256);
CREATE INDEX changes_by_after ON changes (after_sha256);
