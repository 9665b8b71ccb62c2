CREATE TABLE calls (
    number        INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    owner         TEXT NOT NULL,
    workspace     TEXT NOT NULL,
    session       TEXT NOT NULL,
    tool          TEXT NOT NULL,
    state         TEXT NOT NULL,
    created       INTEGER NOT NULL,
    ended         INTEGER,            -- null exactly while the call is unfinished
    last_sequence INTEGER NOT NULL,
    record        TEXT NOT NULL
) STRICT;
CREATE INDEX calls_by_session ON calls (session);
CREATE INDEX calls_unfinished ON calls (owner) WHERE ended IS NULL;
CREATE INDEX calls_finished ON calls (ended) WHERE ended IS NOT NULL;

CREATE TABLE events (
    call     INTEGER NOT NULL REFERENCES calls (number) ON DELETE CASCADE,
    sequence INTEGER NOT NULL,
    event    TEXT NOT NULL,
    PRIMARY KEY (call, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE prompts (
    number    INTEGER PRIMARY KEY,
    id        TEXT NOT NULL UNIQUE,
    call      TEXT NOT NULL,
    owner     TEXT NOT NULL,
    session   TEXT NOT NULL,
    workspace TEXT NOT NULL,
    state     TEXT NOT NULL,
    prompt    TEXT NOT NULL
) STRICT;
CREATE INDEX prompts_by_call ON prompts (call);
CREATE INDEX prompts_open ON prompts (state) WHERE state = 'open';

CREATE TABLE grants (
    number  INTEGER PRIMARY KEY,
    id      TEXT NOT NULL UNIQUE,
    owner   TEXT NOT NULL,
    content TEXT NOT NULL
) STRICT;
CREATE INDEX grants_by_owner ON grants (owner);

CREATE TABLE facts (
    session TEXT NOT NULL,
    key     TEXT NOT NULL,
    value   TEXT NOT NULL,
    PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;

-- AUTOINCREMENT: a number is not used again when its event was swept.
CREATE TABLE journal (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    time   INTEGER NOT NULL,
    event  TEXT NOT NULL
) STRICT;

CREATE TABLE outputs (
    number    INTEGER PRIMARY KEY,
    id        TEXT NOT NULL UNIQUE,
    instance  TEXT NOT NULL,          -- the run that writes it
    call      TEXT NOT NULL,
    session   TEXT NOT NULL,
    workspace TEXT NOT NULL,
    created   INTEGER NOT NULL,
    complete  INTEGER NOT NULL DEFAULT 0,
    bytes     INTEGER,                -- null while it is written
    lines     INTEGER,                -- null until it was counted, and so is sha256
    sha256    TEXT
) STRICT;
CREATE INDEX outputs_by_call ON outputs (call);
CREATE INDEX outputs_by_session ON outputs (session);
CREATE INDEX outputs_incomplete ON outputs (instance) WHERE complete = 0;
